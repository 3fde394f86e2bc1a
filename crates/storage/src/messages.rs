//! Messages in a feed per queue: the trait, its arguments and its results.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::error::Error;
use super::queues::QueueStore;
use super::record;
use sukkal_domain::{
    Body, ClaimId, ClientId, Creation, Durability, IdempotencyKey, Message, MessageId, Metadata, NewMessage, Order,
    Origin, Queue, QueueId, QueueLimits, Quota, Rank, Revision, Scope, Stats, Taken, TraceContext,
};

/// Maximum total size in bytes of the message records in one reply. A single message may exceed it.
pub(super) const REPLY_BYTES_MAX: usize = 512 * 1024;

/// Stores messages, in one feed per queue.
#[async_trait]
pub trait MessageStore: QueueStore {
    /// Stores all the messages or none of them.
    ///
    /// Messages with the same delay are stored next to each other in the given order, after every
    /// message that any reader can have seen. Until its delay has passed, a message is not claimed
    /// or popped, and is listed only if the scope of the listing includes delayed messages. It is
    /// found by its id and counted in the stats. When it is due, never earlier, it becomes
    /// available at the position of its due time in the feed.
    ///
    /// In a fair queue, each message goes to one shard of its assignment: to the first one without
    /// available or delayed messages. If there is none, it goes to the shard with the fewest of
    /// these; claimed messages do not count.
    ///
    /// The post has no effect unless the queue is at `post.last_known_revision`, because the
    /// queue's metadata decides what may be posted. It has no effect either if the queue would then
    /// exceed `post.limits`, in which expired messages do not count. A post with the idempotency
    /// key of an earlier post by the same client returns the result of the earlier one and stores
    /// nothing.
    ///
    /// With `post.durability`, the post returns [`PostOutcome::Posted`] only when the messages have
    /// reached it, also if an earlier post has stored them. The error is that of
    /// [`Self::check_durability`] if it cannot be reached, and [`Error::NotDurable`] if the time is
    /// over. The driver bounds the number of posts that wait for their durability.
    ///
    /// The driver repeats a post whose reply was lost without storing the messages twice. Once
    /// started, a post runs to completion even if the caller drops the future.
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error>;

    /// Succeeds if posts to this queue can reach the level at present.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the store cannot reach it as it is configured, and
    /// [`Error::TooFewReplicas`] if the server has too few replicas.
    async fn check_durability(&self, queue: &QueueId, level: Durability) -> Result<(), Error>;

    /// Creates the queue without metadata, where posts can reach this level.
    ///
    /// # Errors
    ///
    /// Those of [`Self::check_durability`] if there is no such place. The queue was not created.
    async fn create_queue_for(&self, queue: &QueueId, level: Durability) -> Result<Creation, Error> {
        self.check_durability(queue, level).await?;
        self.create_queue(queue, &Metadata::default()).await
    }

    /// Returns the next messages of the feed, in the order of the listing.
    ///
    /// The page is empty only if no further message matches the listing. It may be shorter than the
    /// limit for any reason, such as the size of the messages.
    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error>;

    /// Returns the messages that exist, in the order of `ids`. Claimed and delayed messages are
    /// included. With `with_states`, the messages have their states.
    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId], with_states: bool) -> Result<Vec<Message>, Error>;

    /// Deletes one message. Without `claim`, the message must not be claimed. With `claim`, it must
    /// be under that claim.
    async fn delete_message(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<ClaimId>,
    ) -> Result<DeleteOutcome, Error>;

    /// Deletes the messages that exist, whether they are claimed or not.
    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error>;

    /// Deletes the messages that exist if each of them is under one of the claims. Otherwise
    /// deletes none of them.
    async fn delete_claimed(
        &self,
        queue: &QueueId,
        ids: &[MessageId],
        claims: &[ClaimId],
    ) -> Result<DeleteOutcome, Error>;

    /// Takes the next available messages, at most `limit` of them, in one atomic step.
    ///
    /// Takes nothing if no message is available or the queue is paused.
    ///
    /// The messages are those that a claim would return, and fewer than `limit` if they are large.
    /// Messages that were already delivered as often as the queue allows become dead letters
    /// instead, as in a claim.
    ///
    /// The caller chooses an id for the pop. If [`Popped::is_final`], the messages are deleted in
    /// the same step. Otherwise they are claimed, and [`Self::complete_pop`] deletes them. If that
    /// is not called within a minute, they return to the queue. After an error, the caller
    /// withdraws the claim whose id is that of the pop, because the store may have taken messages.
    async fn pop_messages(&self, queue: &QueueId, pop: ClaimId, limit: usize) -> Result<Taken<Vec<Popped>>, Error>;

    /// Deletes the messages of a pop.
    async fn complete_pop(&self, _queue: &QueueId, _pop: ClaimId) -> Result<(), Error> {
        Ok(())
    }

    /// Returns messages of a pop to the queue that did not reach their client, before the pop is
    /// completed. They are unchanged, and have their original positions and shards.
    ///
    /// Has no effect if the queue was deleted or purged since the pop, or if the messages were
    /// restored before.
    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error>;

    /// Deletes all messages of the queue, including claimed ones, and its claims.
    ///
    /// A queue with a million messages takes no longer than a queue with one message.
    async fn purge_queue(&self, queue: &QueueId) -> Result<(), Error>;

    /// Returns the exact number of messages and the first and last message of the feed, without a
    /// scan. With `detailed`, the stats also contain the counts of each shard.
    async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error>;
}

/// A post: the messages, their client, and the conditions under which they are stored.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// Revision of the queue for which the messages were prepared.
    pub last_known_revision: Revision,
    /// The client that posts.
    pub client: &'a ClientId,
    /// The messages; not empty.
    pub messages: &'a [NewMessage],
    /// Trace context of the request, which is kept with each message.
    pub trace: Option<TraceContext>,
    /// If the message is the dead letter of a subscription: its origin, and the time at which its
    /// age begins, in seconds since 1970.
    pub origin: Option<&'a (Origin, u64)>,
    /// Limits of the queue.
    pub limits: QueueLimits,
    /// The idempotency key, and the time in seconds for which the store keeps the result under this
    /// key.
    pub idempotency: Option<(&'a IdempotencyKey, u32)>,
    /// The durability that the messages must reach before the post returns, and the time for that.
    pub durability: Option<(Durability, Duration)>,
}

/// The result of a post.
#[derive(Clone, Debug, PartialEq)]
pub enum PostOutcome {
    /// All messages were stored. The ids are in the order of the post.
    Posted(Vec<MessageId>),
    /// Nothing was stored, because the queue is at another revision. Contains the current queue, or
    /// `None` if it does not exist.
    Stale(Option<Queue>),
    /// Nothing was stored, because the queue would have more than this quota allows.
    Full(Quota),
    /// Nothing was stored, because the client has used the idempotency key for a post with other
    /// content.
    KeyReused,
}

/// Selects messages of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Only messages that follow this position in the order of the listing. `None` starts at the
    /// first message in that order.
    pub after: Option<Rank>,
    /// The order of the messages.
    pub order: Order,
    /// Maximum number of messages; not 0.
    pub limit: usize,
    /// The client whose own messages are left out.
    pub not_from: Option<ClientId>,
    /// The messages that are listed in addition to the available ones.
    pub scope: Scope,
    /// Whether the messages have their states.
    pub with_states: bool,
}

impl Listing {
    /// Selects the first available messages of the feed, at most `limit`.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self {
            after: None,
            order: Order::default(),
            limit,
            not_from: None,
            scope: Scope::default(),
            with_states: false,
        }
    }
}

/// A page of a feed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The messages, in the order of the listing.
    pub messages: Vec<Message>,
    /// Whether the queue delays messages.
    pub delays: bool,
    /// Whether the queue is fair, so that the next claim need not return the oldest message.
    pub is_fair: bool,
    /// Whether the store knows that no message after this page matches the listing.
    pub is_last: bool,
    /// Position of the last message that the query examined, whether it matched or not. If the
    /// query examined none, this is its start position. A query that starts here examines what this
    /// one did not.
    pub reached: Option<Rank>,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The messages no longer exist, whether this call deleted them or not.
    Done,
    /// Nothing was deleted: the message is claimed, and no claim was given.
    ClaimRequired,
    /// Nothing was deleted: a message is under no claim, or under none of the given claims.
    NotClaimed,
    /// Nothing was deleted: the message is under another claim, and the given claim is live.
    ClaimedByAnother,
    /// Nothing was deleted: the given claim is not live.
    UnknownClaim,
}

/// A popped message, with the data that is needed to restore it.
#[derive(Clone, Debug)]
pub struct Popped {
    /// The message.
    pub message: Message,
    /// How long the message was available before this pop; `None` if a claim had returned it
    /// before.
    pub pickup_delay: Option<Duration>,
    /// Whether the pop has deleted the message. A store does that if it always knows the outcome.
    pub is_final: bool,
    pub(super) record: Bytes,
    pub(super) entry: Bytes,
    pub(super) shard: Option<u16>,
    /// Number of the queue's contents at the time of the pop. It changes when the queue is deleted
    /// or purged.
    pub(super) epoch: u64,
    /// Id of the pop, by which the store recognizes a repeated restoration.
    pub(super) pop: ClaimId,
}

impl Popped {
    /// Replaces the sealed body of the message by another one of the same length.
    pub fn reseal(&mut self, body: &Body) {
        if let Some(range) = record::sealed_body(&self.record)
            && range.len() == body.as_msgpack().len()
        {
            let mut record = self.record.to_vec();
            record[range].copy_from_slice(body.as_msgpack());
            (self.record, self.message.body) = (record.into(), body.clone());
        }
    }

    /// Returns the messages without the data that is needed to restore them.
    #[must_use]
    pub fn messages(popped: Vec<Self>) -> Vec<Message> {
        popped.into_iter().map(|popped| popped.message).collect()
    }
}
