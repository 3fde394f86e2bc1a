//! The janitor: runs the store's maintenance periodically.

use std::sync::Arc;

use tracing::{debug, warn};

use crate::observability::metrics::Metrics;
use sukkal_storage::{Driver, Schedule};

/// Runs maintenance until it is dropped. A round that fails is repeated from its beginning, which
/// is safe because every step is complete in itself.
pub async fn run(store: Arc<dyn Driver>, schedule: Schedule, metrics: Arc<Metrics>) {
    loop {
        match store.maintain(&schedule).await {
            Ok(visited) => {
                metrics.count_janitor_round(visited);
                debug!(visited, "the janitor has finished a round");
            }
            Err(error) => {
                metrics.count_failed_janitor_round();
                // The store itself logs an outage.
                if error.is_transient() {
                    debug!(%error, "the janitor waits for the store");
                } else {
                    warn!(%error, "the janitor could not finish a round");
                }
            }
        }
        if store.has_full_disk() {
            // While there are no writes, only a probe can find out that the disk has space again.
            let _shown_by_metrics = store.probe().await;
        }
        tokio::time::sleep(schedule.pause).await;
    }
}
