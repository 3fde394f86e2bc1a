//! What a process remembers about the places of queues.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::Cache;

use crate::domain::{PoolName, QueueId};
use crate::storage::{Driver, Place};

/// Maximum number of queues whose places a process remembers.
const PLACES_MAX: usize = 100_000;

/// The place of a queue, and the store there.
#[derive(Clone)]
pub(super) struct Located {
    pub(super) place: Place,
    pub(super) store: Arc<dyn Driver>,
}

/// The places that a process remembers. They may be outdated.
pub(super) struct Places(Cache<QueueId, Located>);

impl Places {
    pub(super) fn new() -> Self {
        Self(Cache::new(PLACES_MAX))
    }

    pub(super) fn get(&self, queue: &QueueId) -> Option<Located> {
        self.0.get(queue)
    }

    pub(super) fn remember(&self, queue: &QueueId, located: Located) {
        self.0.insert(queue.clone(), located);
    }

    pub(super) fn forget(&self, queue: &QueueId) {
        self.0.remove(queue);
    }

    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

/// The pool in which each watched queue is subscribed to; `None` for the virtual pool.
#[derive(Default)]
pub(super) struct Subscribed(Mutex<HashMap<QueueId, Option<PoolName>>>);

impl Subscribed {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<QueueId, Option<PoolName>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
