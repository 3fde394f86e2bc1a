//! The catalogue: which pool has the messages of a queue. The management store keeps it. The trait,
//! its results and their meaning.
//!
//! A queue is in the catalogue from before it exists until after it is deleted. Its location has an
//! epoch, and a pool creates the queue under that epoch. After a deletion, the pool refuses that
//! epoch and earlier ones. So a pool has a queue only if the catalogue says so, or is about to say
//! that the queue is deleted.
//!
//! The queues of the management store itself are in the *virtual pool*. Their rows and
//! registrations are their entries of the catalogue.

use std::time::Duration;

use async_trait::async_trait;

use super::error::Error;
use super::queues::NameRange;
use sukkal_domain::{Creation, PoolName, ProjectId, QueueId, QueueName};

/// Duration of the lease of the process that moves a queue to another pool. Afterwards, any process
/// may undo the move.
pub(super) const MOVE_LEASE_DURATION: Duration = Duration::from_secs(5);

/// Number of a location of a queue. Each location has a higher one than the earlier locations of
/// the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(super) u64);

/// Where a queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The pool; `None` for the virtual pool.
    pub pool: Option<PoolName>,
    /// The epoch of this location.
    pub epoch: Epoch,
}

/// What a store has of a queue at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveState {
    Absent,
    /// The queue is there and does not move.
    Exists,
    Moves {
        /// The epoch under which the move began.
        label: Epoch,
        /// Whether the store has the whole queue.
        is_complete: bool,
        /// Whether the process that moves the queue may have died.
        has_expired: bool,
    },
}

/// The next queues of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocationPage {
    /// The queues, in byte order of their names. A queue that is in the catalogue need not exist
    /// yet, or any more.
    pub queues: Vec<(QueueName, Location)>,
    /// The last name examined, from which the list continues; `None` at its end.
    pub reached: Option<QueueName>,
}

/// The outcome of creating a queue in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocatedCreation {
    /// The queue exists.
    Done(Creation),
    /// Nothing was created: this epoch of the queue has ended in the pool, so that the queue needs
    /// a higher one.
    Ended(Epoch),
}

/// The catalogue of queues.
#[async_trait]
pub trait Catalogue: Send + Sync {
    /// Returns where the queue is, or `None` if it is not in the catalogue.
    async fn find_location(&self, queue: &QueueId) -> Result<Option<Location>, Error>;

    /// Puts the queue into this pool, unless it is in the catalogue. Returns its location.
    async fn locate_queue(&self, queue: &QueueId, pool: &PoolName) -> Result<Location, Error>;

    /// Gives the queue another location, in the same pool or in another one, if it still has the
    /// location `known`. The epoch is `lowest`, or the one after that of `known` if that is higher.
    /// Returns the location that the queue has then, or `None` if it is not in the catalogue.
    async fn replace_location(
        &self,
        queue: &QueueId,
        known: &Location,
        pool: Option<&PoolName>,
        lowest: Epoch,
    ) -> Result<Option<Location>, Error>;

    /// Removes the queue from the catalogue if it still has this location, which is in a pool. The
    /// epoch of its next location is above `last_number`, the last rank, fence or number that the
    /// queue may have assigned.
    async fn remove_location(&self, queue: &QueueId, known: &Location, last_number: u64) -> Result<(), Error>;

    /// Examines the first of these names, at most `examined_max`.
    async fn list_locations(
        &self,
        project: &ProjectId,
        names: &NameRange,
        examined_max: usize,
    ) -> Result<LocationPage, Error>;

    /// Notifies all waiters of the queue, in all processes that watch it in this store, because its
    /// location has changed.
    async fn notify_moved(&self, queue: &QueueId) -> Result<(), Error>;
}
