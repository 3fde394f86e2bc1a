//! What the broker keeps between two requests for the metrics.

use std::sync::Arc;
use std::time::Duration;

use super::cached::Cached;
use crate::observability::metrics::scrape::MonitoredFigures;
use sukkal_domain::MonitoredQueues;

/// Minimum time between two pings of the store.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between two readings of the monitored queues.
const QUEUES_INTERVAL: Duration = Duration::from_secs(10);

/// The monitored queues, and what was read last.
pub(super) struct Monitor {
    pub(super) queues: Arc<Vec<MonitoredQueues>>,
    pub(super) is_up: Cached<bool>,
    pub(super) queue_figures: Cached<Arc<MonitoredFigures>>,
}

impl Monitor {
    /// Creates a monitor of the store and these queues.
    pub(super) fn new(queues: Vec<MonitoredQueues>) -> Self {
        Self {
            queues: Arc::new(queues),
            is_up: Cached::new(PING_INTERVAL),
            queue_figures: Cached::new(QUEUES_INTERVAL),
        }
    }
}
