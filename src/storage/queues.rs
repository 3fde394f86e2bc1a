//! Queues and their metadata: the trait, its arguments and its results.

use async_trait::async_trait;

use super::error::Error;
use crate::domain::{Creation, Metadata, ProjectId, Queue, QueueId, QueueName, Revision};

/// Stores queues and their metadata.
#[async_trait]
pub trait QueueStore: Send + Sync {
    /// Creates the queue with this metadata. If the queue exists, its metadata stays unchanged.
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error>;

    /// Returns the queue, or `None` if it does not exist.
    async fn get_queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error>;

    /// Replaces the metadata if the queue is still at the revision that the caller knows.
    async fn update_queue(
        &self,
        queue: &QueueId,
        last_known_revision: Revision,
        metadata: &Metadata,
    ) -> Result<UpdateOutcome, Error>;

    /// Deletes the queue with its messages and claims. Has no effect if the queue does not exist.
    ///
    /// A queue with a million messages takes no longer than a queue with one message.
    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error>;

    /// Pauses the queue, and creates it with default metadata if it does not exist. Until the queue
    /// is resumed or deleted, claims and pops get no messages: none is handed out after this has
    /// returned. All other operations work as usual, and a purge does not end the pause. Has no
    /// effect if the queue is paused.
    async fn pause_queue(&self, queue: &QueueId) -> Result<(), Error>;

    /// Resumes the queue, and notifies waiters of its available messages. Has no effect if the
    /// queue is not paused or does not exist.
    async fn resume_queue(&self, queue: &QueueId) -> Result<(), Error>;

    /// Examines the next queue names of the project in byte order, and returns the queues that
    /// match the listing.
    ///
    /// One call examines at most `examined_max` names. A page may therefore be empty before the end
    /// of the list.
    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing<'_>) -> Result<QueuePage, Error>;

    /// Returns the number of queues of the project.
    async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error>;
}

/// The result of a metadata update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The metadata was replaced.
    Done,
    /// The queue does not exist or is at another revision. Nothing was changed.
    Stale,
}

/// Selects queues of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueListing<'a> {
    /// Only queues whose names follow this text in byte order.
    pub after: Option<&'a str>,
    /// Only queues whose names contain this text.
    pub name_part: Option<&'a str>,
    /// Maximum number of names to examine; not 0.
    pub examined_max: usize,
}

impl QueueListing<'_> {
    /// Returns whether the name contains the text that the listing asks for.
    pub(super) fn includes(&self, name: &str) -> bool {
        self.name_part.is_none_or(|part| name.contains(part))
    }
}

/// The result of one step of a queue listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueuePage {
    /// The queues, in byte order of their names.
    pub queues: Vec<(QueueName, Queue)>,
    /// The last name examined, from which the listing continues; `None` at the end of the list.
    pub reached: Option<String>,
}
