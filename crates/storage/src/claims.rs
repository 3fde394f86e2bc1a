//! Claims, which are leases on messages: the trait and its results.

use async_trait::async_trait;

use super::error::Error;
use sukkal_domain::{Claim, ClaimId, ClaimSummary, Fence, MessageId, NewClaim, QueueId, Taken, Term};

/// Maximum number of consecutive claims of a queue that are served from their preferred shards.
pub const PREFERRED_IN_A_ROW_MAX: u16 = 8;

/// How long a pop lasts that is not final and not completed.
pub const POP_TERM: Term = Term { ttl_s: 60, grace_s: 0 };

/// Maximum number of batches of messages that a claim or pop selects if all messages of each become
/// dead letters.
pub(super) const DEAD_LETTER_STEPS_MAX: usize = 10;

/// Maximum number of messages of the claims on one page of a list of claims. A single claim may
/// exceed it.
pub(super) const LISTED_MESSAGES_MAX: usize = 1_000;

/// Stores claims. At any time, a message is under at most one claim.
#[async_trait]
pub trait ClaimStore: Send + Sync {
    /// Claims up to `new.limit` of the next available messages in one atomic step, and fewer if
    /// they are large.
    ///
    /// Takes nothing if no message is available or the queue is paused. When the claim expires or
    /// is released, the messages that it still holds become available again at their original
    /// positions. A message that would expire before the claim lives until the claim's time to live
    /// and grace have passed.
    ///
    /// The next messages are the oldest ones. In a fair queue, the shards are served in rotation,
    /// one message from each, its oldest. The rotation continues after the shard that was served
    /// last, whichever client it was served for. Messages without a shard, posted when the queue
    /// was not fair, take turns like a shard.
    ///
    /// A claim with preferred shards is served from these alone as long as they have messages, and
    /// does not advance the rotation. After [`PREFERRED_IN_A_ROW_MAX`] such claims in a row, the
    /// next one is served as if it had no preference.
    ///
    /// The claim has a fence above those of all earlier claims of the queue: one more than the last
    /// one, or the time in microseconds since 1970 if that is higher. Fences continue to rise after
    /// a purge, and in a queue that is created again.
    ///
    /// Messages that were already delivered as often as the queue allows become dead letters
    /// instead. If all that the claim selects do, it selects the next ones, in at most
    /// ten batches, or one if the queue is its own dead-letter queue. Each dead letter
    /// arrives in the dead-letter queue exactly once, even if a process crashes in between.
    ///
    /// The caller chooses a random id for the claim. After an error, it calls
    /// [`Self::withdraw_claim`], because the claim may exist.
    async fn create_claim(&self, queue: &QueueId, id: ClaimId, new: &NewClaim) -> Result<Taken<Claim>, Error>;

    /// Returns the claim with the messages that it still holds, or `None` if it is not live.
    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error>;

    /// Returns the next live claims after this id, at most `limit` of them, in byte order of their
    /// ids. `None` starts with the first one.
    ///
    /// The page is empty only if no further claim is live. It may be shorter than the limit,
    /// because the number of messages on a page is bounded.
    async fn list_claims(
        &self,
        queue: &QueueId,
        after: Option<ClaimId>,
        limit: usize,
    ) -> Result<Vec<ClaimSummary>, Error>;

    /// Restarts a live claim with this term, for all messages that it still holds. Returns the
    /// claim's fence, which stays the same, or `None` if the claim is not live.
    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<Option<Fence>, Error>;

    /// Returns one message of a live claim to the queue. Has no effect on a message that the claim
    /// does not hold.
    ///
    /// Without a delay, the message becomes available at once. With a delay in seconds, it stays
    /// unavailable for that time: it belongs to no claim, but counts as claimed. The delay does not
    /// extend the message's life.
    async fn return_message(
        &self,
        queue: &QueueId,
        claim: ClaimId,
        id: MessageId,
        delay_s: u32,
    ) -> Result<ClaimOutcome, Error>;

    /// Releases the claim. Releasing an expired or unknown claim has no effect.
    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error>;

    /// Releases a claim that its client never received, and undoes its effect on the messages'
    /// delivery state: the claim does not count as a delivery. If the command that creates the
    /// claim arrives at the store after this, it creates none.
    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error>;
}

/// The result of returning a message of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The claim is live, and the operation was applied to it.
    Done,
    /// The claim is live, but does not hold the message. Nothing was changed.
    NotHeld,
    /// The claim is expired or unknown. Nothing was changed.
    Gone,
}
