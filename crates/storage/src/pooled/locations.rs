//! What a process remembers about the locations of queues.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use quick_cache::sync::Cache;

use crate::{Driver, Epoch, Location};
use sukkal_domain::{PoolName, QueueId};

/// Maximum number of queues whose locations a process remembers.
pub(super) const PLACES_MAX: usize = 100_000;

/// Maximum number of empty locations that a process remembers between two walks.
const EMPTY_LOCATIONS_MAX: usize = 10_000;

/// The location of a queue, and the store there.
#[derive(Clone)]
pub(super) struct Located {
    pub(super) location: Location,
    pub(super) store: Arc<dyn Driver>,
}

/// The locations that a process remembers. They may be outdated.
pub(super) struct Locations(Cache<QueueId, Located>);

impl Locations {
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

/// The watched queues, and where each is subscribed to.
pub(super) type Subscribed = Mutex<HashMap<QueueId, Subscription>>;

/// Where a watched queue is subscribed to.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Subscription {
    /// In this pool; `None` is the virtual pool.
    At(Option<PoolName>),
    /// Nowhere any more, because the pool was opened again.
    Ended,
}

impl Subscription {
    /// Returns the pool in which the queue is subscribed to, if it is in one.
    pub(super) fn pool(&self) -> Option<&PoolName> {
        match self {
            Self::At(pool) => pool.as_ref(),
            Self::Ended => None,
        }
    }
}

/// The locations that a walk has found to be empty, by queue.
pub(super) struct EmptyLocations(pub(super) Cache<QueueId, Epoch>);

impl EmptyLocations {
    pub(super) fn new() -> Self {
        Self(Cache::new(EMPTY_LOCATIONS_MAX))
    }
}
