//! What a store promises, in words and traits.
//!
//! Each method is one whole operation, atomic and complete: a caller never composes steps. `None` and
//! empty lists say "not there"; [`Error`] says "could not". A missing queue has no messages. Times are
//! the store's own clock; a message that has ended is gone for every method at once. The suite in
//! `tests/conformance` holds every driver to these words.

pub mod error;
mod record;
pub mod redis;

use async_trait::async_trait;

pub use error::Error;

use crate::domain::{
    ClientId, Message, MessageId, Metadata, NewMessage, ProjectId, Queue, QueueId, QueueName, Rank, Revision,
};

/// A complete store.
pub trait Driver: QueueStore + MessageStore + Upkeep {}

impl<T: QueueStore + MessageStore + Upkeep> Driver for T {}

/// Keeps queues and their metadata.
#[async_trait]
pub trait QueueStore: Send + Sync {
    /// Creates the queue unless it exists, in which case its metadata stays as it is.
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error>;

    /// The queue, if it exists.
    async fn get_queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error>;

    /// Replaces the metadata, if the queue is still at the revision that the caller has seen.
    async fn update_queue(&self, queue: &QueueId, seen: Revision, metadata: &Metadata) -> Result<Update, Error>;

    /// Deletes the queue with all it holds; one that is not there is left so. Takes no longer for a
    /// million messages than for one.
    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error>;

    /// Up to `limit` queues of the project whose names follow the text `after`, in byte order of their
    /// names. Shorter than `limit` only at the end.
    async fn list_queues(
        &self,
        project: &ProjectId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(QueueName, Queue)>, Error>;

    /// How many queues the project has.
    async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error>;
}

/// Keeps messages, in a feed per queue.
#[async_trait]
pub trait MessageStore: Send + Sync {
    /// Stores all the messages or none, next to each other and in the order given, behind every
    /// message that anybody can have seen. An answer that was lost on the way does not double them.
    ///
    /// Only if the queue is at the revision `seen`: its metadata decides what may be posted.
    async fn post_messages(
        &self,
        queue: &QueueId,
        seen: Revision,
        client: &ClientId,
        messages: &[NewMessage],
    ) -> Result<Posting, Error>;

    /// The next messages of the feed, oldest first. Empty only if none that the listing lets through
    /// is left; shorter than its limit at the driver's convenience.
    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Vec<Message>, Error>;

    /// Those of the messages that are there, in the order of `ids`.
    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<Vec<Message>, Error>;

    /// Deletes those of the messages that are there.
    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error>;

    /// Hands out up to `limit` of the oldest messages and deletes them in the same step. Of one whose
    /// answer is lost nobody can say whether it happened: it is not tried again.
    async fn pop_messages(&self, queue: &QueueId, limit: usize) -> Result<Vec<Message>, Error>;

    /// How many messages there are, and the first and last of them. Exact, and does not scan.
    async fn get_stats(&self, queue: &QueueId) -> Result<Stats, Error>;
}

/// Keeps the store itself in order.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Succeeds if the store answers.
    async fn ping(&self) -> Result<(), Error>;

    /// Reclaims what has ended in the next few queues behind `after`, and says how far it came;
    /// `None` when it has reached the end. Any number of processes may do so at once.
    async fn tidy(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error>;
}

/// How a creation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It is new.
    Created,
    /// It was there before.
    Existed,
}

/// How an update went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The metadata is replaced.
    Done,
    /// The queue is gone or was changed since; nothing happened.
    Stale,
}

/// How a post went.
#[derive(Clone, Debug, PartialEq)]
pub enum Posting {
    /// Every message is stored, under these ids, in the order given.
    Posted(Vec<MessageId>),
    /// Nothing is stored, because this is what the queue is now (`None`: not there).
    Stale(Option<Queue>),
}

/// What a queue holds at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// How many messages there are.
    pub total: u64,
    /// The first of them in the feed.
    pub oldest: Option<Message>,
    /// The last.
    pub newest: Option<Message>,
}

/// What a reader of a feed wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Only messages behind this position; without it the feed begins at its oldest message.
    pub after: Option<Rank>,
    /// How many at most; not 0.
    pub limit: usize,
    /// Whose own messages are left out.
    pub not_from: Option<ClientId>,
}
