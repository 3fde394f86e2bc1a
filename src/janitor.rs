//! The janitor: has the store's maintenance done again and again.

use std::sync::Arc;

use tracing::{debug, warn};

use crate::storage::{Driver, Schedule};

/// Does maintenance until it is dropped. A round that fails is begun anew: every step stands for itself.
pub async fn run(store: Arc<dyn Driver>, schedule: Schedule) {
    loop {
        match store.maintain(&schedule).await {
            Ok(visited) => debug!(visited, "the janitor has gone round"),
            // The store itself says what is wrong with it.
            Err(error) if error.is_passing() => debug!(%error, "the janitor waits for the store"),
            Err(error) => warn!(%error, "the janitor could not go round"),
        }
        if store.has_full_disk() {
            // If nobody writes, nothing else notices that there is room again.
            let _seen_by_metrics = store.probe().await;
        }
        tokio::time::sleep(schedule.pause).await;
    }
}
