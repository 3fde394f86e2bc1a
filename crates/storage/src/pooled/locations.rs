//! What a process remembers about the locations of queues.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Driver, Location};
use sukkal_domain::{PoolName, QueueId};

/// Maximum number of queues whose locations a process remembers.
pub(super) const LOCATIONS_MAX: usize = 100_000;

/// Maximum number of empty locations that a process remembers between two walks.
pub(super) const EMPTY_LOCATIONS_MAX: usize = 10_000;

/// The location of a queue, and the store there.
#[derive(Clone)]
pub(super) struct Located {
    pub(super) location: Location,
    pub(super) store: Arc<dyn Driver>,
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
