//! The dead-letter forwarders of a process: at most one task for each source queue.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::QueueId;

/// The queues whose dead letters this process is forwarding. Each has its own task, because the
/// receiving queue may be unreachable for a long time.
#[derive(Clone, Default)]
pub(super) struct Forwarders(Arc<Mutex<HashSet<QueueId>>>);

/// Permission to forward from one queue, until it is dropped.
pub(super) struct Forwarder {
    forwarders: Forwarders,
    pub(super) source: QueueId,
}

impl Forwarders {
    /// Returns a forwarder, unless there is one for this queue already.
    pub(super) fn start(&self, source: &QueueId) -> Option<Forwarder> {
        let is_first = self.sources().insert(source.clone());
        is_first.then(|| Forwarder { forwarders: self.clone(), source: source.clone() })
    }

    fn sources(&self) -> MutexGuard<'_, HashSet<QueueId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.forwarders.sources().remove(&self.source);
    }
}
