//! The moves of queues that a process waits for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use sukkal_domain::QueueId;

/// The moves that operations of this process wait for. A receiver is closed when its move has
/// ended.
#[derive(Default)]
pub(in crate::pooled) struct RunningMoves(Mutex<HashMap<QueueId, watch::Receiver<()>>>);

impl RunningMoves {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<QueueId, watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
