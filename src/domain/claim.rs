//! A claim: a lease that gives one worker exclusive access to messages for a limited time.

use std::time::Duration;

use super::{ClaimId, Message, Shard};

/// A request for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Maximum number of messages.
    pub limit: usize,
    /// Duration of the claim, and grace of its messages.
    pub term: Term,
    /// Shards of a fair queue that serve this claim first, if they have messages; empty without a
    /// preference.
    pub preferred_shards: Vec<Shard>,
}

/// Duration of a claim, and minimum life of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Time to live of the claim, in seconds.
    pub ttl_s: u32,
    /// Time in seconds by which a message outlives the claim if it would otherwise expire before
    /// the claim.
    pub grace_s: u32,
}

/// A live claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Id of the claim.
    pub id: ClaimId,
    /// Time to live from the creation or last renewal, in seconds.
    pub ttl_s: u32,
    /// Time since the creation or last renewal, in whole seconds of the store's clock.
    pub age_s: u64,
    /// Messages that the claim holds: oldest first, or in the order of the rotation in a fair
    /// queue.
    pub messages: Vec<Message>,
    /// Pick-up delays of the messages that this claim was the first to deliver. Empty unless the
    /// claim is new.
    pub pickup_delays: Vec<Duration>,
}
