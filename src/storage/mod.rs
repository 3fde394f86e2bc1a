//! What a store promises, in words and traits.
//!
//! Each method is one whole operation, atomic and complete: a caller never composes steps. `None` and
//! empty lists say "not there"; [`Error`] says "could not". A missing queue has no messages. Times are
//! the store's own clock; a message that has ended is gone for every method at once. The suite in
//! `tests/conformance` holds every driver to these words.

pub mod admission;
pub mod embedded;
mod entry;
pub mod error;
mod key;
mod record;
pub mod redis;
pub mod uri;
pub mod watch;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::sleep;
use uuid::Uuid;

pub use admission::{Admission, Load, Permit};
pub use error::Error;
pub use uri::StoreUri;
pub use watch::Watch;

use crate::domain::{
    Claim, ClaimId, ClientId, Message, MessageId, Metadata, NewClaim, NewMessage, Once, ProjectId, Queue, QueueId,
    QueueName, Rank, Revision, Shard, Tenant, Term,
};

/// A complete store.
pub trait Driver: QueueStore + MessageStore + ClaimStore + WatchStore + Upkeep + Bounded {}

impl<T: QueueStore + MessageStore + ClaimStore + WatchStore + Upkeep + Bounded> Driver for T {}

/// Says what bounds the operations in flight. The broker enters there before it calls an operation for a client;
/// drivers do not.
pub trait Bounded: Send + Sync {
    /// Bounds operations on this queue.
    fn queue_admission(&self, queue: &QueueId) -> Arc<Admission>;

    /// Bounds operations on the project's list of queues.
    fn project_admission(&self, project: &ProjectId) -> Arc<Admission>;

    /// How busy the store is, all its servers together.
    fn load(&self) -> Load;
}

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

    /// Examines the next names of the project's queues in byte order, and returns the queues that the listing lets
    /// through. One call examines at most `examined_max` names, so a page may be empty before the end.
    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing<'_>) -> Result<QueuePage, Error>;

    /// How many queues the project has.
    async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error>;
}

/// Keeps messages, in a feed per queue.
#[async_trait]
pub trait MessageStore: Send + Sync {
    /// Stores all the messages or none, those of one delay next to each other and in the order given, behind
    /// every message that anybody can have seen. A delayed one is there for nobody, as far as readers
    /// and claimers do not say otherwise, until it is due, never earlier; then it stands in the feed
    /// where it became due. An answer that was lost on the way does not double them.
    ///
    /// In a fair queue each goes to the first of its lot's shards that has no message to give, now or later; else to the
    /// one that has the fewest, claimed ones not counted.
    ///
    /// Only if the queue is at the revision `seen`: its metadata decides what may be posted. A post with
    /// the key of an earlier one, by the same client, has that one's answer and does nothing. What has begun runs
    /// to its end though nobody waits for it any more.
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error>;

    /// The next messages of the feed, oldest first. Empty only if none that the listing lets through
    /// is left; shorter than its limit at the driver's convenience.
    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error>;

    /// Those of the messages that are there, in the order of `ids`.
    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<Vec<Message>, Error>;

    /// Deletes the message, which must be free without `claim` and under that claim with one.
    async fn delete_message(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<GivenClaim>,
    ) -> Result<Deletion, Error>;

    /// Deletes those of the messages that are there, claimed or not.
    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error>;

    /// Deletes those of the messages that are there, if each of them is under one of the claims; else
    /// none of them.
    async fn delete_claimed(&self, queue: &QueueId, ids: &[MessageId], claims: &[ClaimId]) -> Result<Deletion, Error>;

    /// Hands out up to `limit` of the free messages that are next, as a claim does, fewer where they are large, and
    /// deletes them in the same step. Those of them that were given out as often as the queue allows become dead letters
    /// instead, as with a claim.
    /// Of a pop whose answer is lost nobody can say whether it happened: it is not tried again.
    async fn pop_messages(&self, queue: &QueueId, limit: usize) -> Result<Vec<Popped>, Error>;

    /// Puts back what was popped and reached nobody, as it was and in its old place and shard, if the queue is still
    /// there.
    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error>;

    /// Deletes all messages of the queue, claimed ones too, and its claims. Takes no longer for a million
    /// messages than for one.
    async fn purge_messages(&self, queue: &QueueId) -> Result<(), Error>;

    /// How many messages there are, and the first and last of them; with `detailed` what each shard has too. Exact, and
    /// does not scan.
    async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error>;
}

/// Keeps claims: leases on messages.
#[async_trait]
pub trait ClaimStore: Send + Sync {
    /// Claims up to `new.limit` of the free messages that are next, fewer where they are large, in one atomic step:
    /// the oldest ones. In a fair queue one of each shard that has any, the oldest there, shard by shard round and round
    /// from behind the one that was served last, whoever it was for. Messages without a shard, from when the queue was
    /// not fair, have a turn like those of a shard.
    ///
    /// A claim with a preference is served from those shards alone while they have any, and leaves the turn where it
    /// was; but of every [`PREFERRED_IN_A_ROW_MAX`] and one claims in a row one is served like those without.
    ///
    /// Those of them that were given out as often as the queue allows become dead letters instead, which
    /// go on to the queue for those, once each, whatever crashes.
    ///
    /// `None` when none of them is left. A message has at most one holder at a time; when the claim is
    /// over or released, what it still holds is free again, in its old place. A message that would end
    /// before the claim lives on until the claim's ttl and grace are over.
    async fn create_claim(&self, queue: &QueueId, new: &NewClaim) -> Result<Option<Claim>, Error>;

    /// The claim with the messages that it still holds, if it is live.
    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error>;

    /// Lets a live claim begin anew with this term, for all that it still holds.
    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<ClaimChange, Error>;

    /// Gives back one message of a live claim, if it holds it: free at once without a delay, else kept from
    /// everybody so long, counted as claimed, and under no claim. Its life is not prolonged.
    async fn return_message(
        &self,
        queue: &QueueId,
        claim: ClaimId,
        id: MessageId,
        delay_s: u32,
    ) -> Result<ClaimChange, Error>;

    /// Ends the claim, if it is live.
    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error>;

    /// Ends a claim of which its maker never heard, if it is live: as a release, and its messages do not count as
    /// given out by it.
    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error>;
}

/// Tells those who wait for messages when to look.
#[async_trait]
pub trait WatchStore: Send + Sync {
    /// Watches a queue: when this returns, whatever begins to be free there is told to whom waits by this watch,
    /// whichever process has brought it.
    async fn watch(&self, queue: &QueueId) -> Result<Watch, Error>;

    /// To be called after a look for somebody who waits for the queue, before they wait: only then it is known when to
    /// look again.
    fn looked(&self, queue: &QueueId);

    /// Where a queue stands. One that is not there has nothing.
    async fn sight(&self, queue: &QueueId) -> Result<Sight, Error>;
}

/// Keeps the store itself in order.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Succeeds if the store answers.
    async fn ping(&self) -> Result<(), Error>;

    /// Succeeds if the store answers and can write. Changes nothing.
    async fn probe(&self) -> Result<(), Error>;

    /// Whether a write failed because the disk is full, and [`Self::probe`] has not shown since that there is room.
    fn has_full_disk(&self) -> bool;

    /// Completes when the store turns out to be of a kind that this release cannot use, and says why.
    async fn refused(&self) -> String {
        std::future::pending().await
    }

    /// Does the maintenance that is due: reclaims what has ended in queues that nobody uses, and mends what crashes have left. To be
    /// called again after each pause of the schedule. Where processes share a store, one at a time does it. Returns how many
    /// queues were visited.
    async fn maintain(&self, _schedule: &Schedule) -> Result<u64, Error> {
        let (mut steps, mut reached) = (0, None);
        loop {
            reached = self.tidy(reached.as_ref()).await?;
            if reached.is_none() {
                return Ok(steps);
            }
            steps += 1;
            sleep(STEP_PAUSE).await;
        }
    }

    /// One step of a walk over all queues: reclaims what has ended in the next few queues behind `after`, and says how far it
    /// came; `None` when it has reached the end. Any number of processes may do so at once.
    async fn tidy(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error>;

    /// Looks whether each message of the whole store is in one place, is counted once and has a rank of its own.
    async fn check(&self) -> Result<Check, Error>;

    /// Does the same, and mends what can be mended.
    async fn repair(&self) -> Result<Check, Error> {
        self.check().await
    }
}

/// When maintenance is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// How long to pause between two rounds over what is due.
    pub pause: Duration,
    /// How long to pause between two walks over all queues.
    pub walk: Duration,
}

/// How long maintenance leaves the store to others between two steps.
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// What a look at the whole store has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// How many queues there are.
    pub queues: u64,
    /// How many messages they hold.
    pub messages: u64,
    /// What is not as it should be, the first hundred.
    pub findings: Vec<String>,
    /// What was not as it should be and has been mended, the first hundred.
    pub mended: Vec<String>,
}

/// So many things that are wrong are told; there may be more.
const FINDINGS_MAX: usize = 100;

impl Check {
    /// Notes what is wrong with something.
    fn find(&mut self, of: impl Display, finding: impl Display) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(format!("{of}: {finding}"));
        }
    }

    /// Notes what was wrong with something and has been mended.
    fn mend(&mut self, of: impl Display, finding: impl Display) {
        if self.mended.len() < FINDINGS_MAX {
            self.mended.push(format!("{of}: {finding}"));
        }
    }
}

/// How a creation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It is new.
    Created,
    /// It was there before.
    Existed,
}

/// Which queues of a project to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueListing<'a> {
    /// Only queues whose names follow this text.
    pub after: Option<&'a str>,
    /// Only queues whose names contain this text.
    pub name_part: Option<&'a str>,
    /// Maximum number of names to examine; not 0.
    pub examined_max: usize,
}

impl QueueListing<'_> {
    /// Returns whether the name contains the text that the listing asks for.
    fn takes(&self, name: &str) -> bool {
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
    /// Nothing is stored, because the key was given to another post before.
    OtherContent,
}

/// A claim that somebody names to be allowed a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenClaim {
    /// A claim id.
    Id(ClaimId),
    /// Something that can be the id of no claim.
    Malformed,
}

/// How a deletion went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// What was to be deleted is not there any more.
    Done,
    /// Nothing is deleted: it takes a claim.
    Held,
    /// Nothing is deleted: a message is under no claim, or under none of those named.
    Free,
    /// Nothing is deleted: the message is under another claim than the one named.
    HeldByOther,
    /// Nothing is deleted: the claim that was named is not live.
    UnknownClaim,
}

/// How a change of a claim went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    /// It is changed.
    Done,
    /// There is no such live claim.
    Gone,
}

/// Maximum size in bytes of the records of one answer, unless it has one message.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

/// Number of claims in a row that may be served as they prefer.
pub const PREFERRED_IN_A_ROW_MAX: u16 = 8;

/// What a queue holds at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// How many messages there are.
    pub total: u64,
    /// How many of them are under a live claim.
    pub claimed: u64,
    /// The first of them in the feed.
    pub oldest: Option<Message>,
    /// The last.
    pub newest: Option<Message>,
    /// What each shard has, if that was asked for.
    pub details: Option<Details>,
}

/// What the shards of a queue hold at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Those that hold anything, in their order.
    pub shards: Vec<(Shard, Holding)>,
    /// What has no shard: all of a queue that was never fair.
    pub unsharded: Holding,
    /// The tenants that posted most of late, with their share of all posted messages, the busiest first. About: of the
    /// share of one that posts little, others' may be a part.
    pub tenants: Vec<(Tenant, f64)>,
}

impl Details {
    /// The shares of tenants that were counted so often, the busiest first.
    fn shares(mut counts: Vec<(Tenant, f64)>) -> Vec<(Tenant, f64)> {
        let all: f64 = counts.iter().map(|(_, count)| count).sum();
        counts.sort_by(|(a, of_a), (b, of_b)| of_b.total_cmp(of_a).then_with(|| a.cmp(b)));
        counts.into_iter().map(|(tenant, count)| (tenant, count / all)).collect()
    }
}

/// How many messages some part of a queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// How many are free.
    pub available: u64,
    /// How many are not due yet.
    pub delayed: u64,
    /// How many are under a live claim, or kept from everybody for a while.
    pub claimed: u64,
    /// For how long the oldest of the free ones could have been claimed, in whole seconds.
    pub oldest_age_s: Option<u64>,
}

/// A message that was popped, and what it takes to put it back.
#[derive(Clone, Debug)]
pub struct Popped {
    /// The message.
    pub message: Message,
    /// How long it was there to be claimed, if nobody had claimed it before.
    pub waited: Option<Duration>,
    record: Bytes,
    /// The message's entry.
    entry: Bytes,
    shard: Option<u16>,
    /// What the queue was when the message was popped: another number after a deletion or purge.
    epoch: u64,
    /// The pop, by which a repeated restoration recognizes itself.
    pop: Uuid,
}

/// Where a queue stands at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// The store's clock, in microseconds since 1970.
    pub now_us: u64,
    /// The last rank that was ever visible.
    pub last: Rank,
    /// How many messages are free.
    pub free: u64,
    /// How long it is until the next delay or lease ends.
    pub next_due: Option<Duration>,
}

impl Sight {
    /// The position of now: what can be seen is up to it, and what is posted from now on behind.
    #[must_use]
    pub fn position(&self) -> Rank {
        let before_now = Rank::new(self.now_us.saturating_sub(1)).unwrap_or(Rank::MAX);
        self.last.max(before_now)
    }
}

impl Popped {
    /// Messages popped, without the means to put them back.
    #[must_use]
    pub fn messages(popped: Vec<Self>) -> Vec<Message> {
        popped.into_iter().map(|popped| popped.message).collect()
    }
}

/// What is to be posted, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The state of the queue that the messages were made for.
    pub seen: Revision,
    /// Who posts.
    pub client: &'a ClientId,
    /// What; not empty.
    pub messages: &'a [NewMessage],
    /// By what the post knows itself again, if it is to happen once, and for how long, in seconds.
    pub once: Option<(&'a Once, u32)>,
}

/// Some messages of a feed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// Whether messages are delayed in this queue.
    pub delays: bool,
    /// Whether the queue is fair, so that what is given out next need not be the oldest.
    pub is_fair: bool,
    /// Whether it is known that the listing lets nothing through behind these messages.
    pub is_last: bool,
    /// How far the query got: the position of the last message that it examined, whether it let that through or not;
    /// where it examined none, the position at which it started. A query behind it finds what this one did not see.
    pub reached: Option<Rank>,
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
    /// Which messages are listed beside the free ones.
    pub scope: Scope,
}

/// Which messages of a feed are meant beside those that are free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Those that are under a live claim.
    pub claimed: bool,
    /// Those that are not due yet, in a queue that delays messages.
    pub delayed: bool,
}
