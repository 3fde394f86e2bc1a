//! A claim: a lease that gives one worker exclusive access to messages for a limited time.

use std::fmt;
use std::time::Duration;

use super::{ClaimId, ClientId, Message, Shard};

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
    /// The client that claims.
    pub client: ClientId,
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

/// Fencing token of a claim. A claim has a higher one than all earlier claims of its queue, so a
/// system that remembers the highest one can refuse the writes of workers whose claims are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A live claim in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSummary {
    /// Id of the claim.
    pub id: ClaimId,
    /// The client that claimed.
    pub client: ClientId,
    /// Time to live from the creation or last renewal, in seconds.
    pub ttl_s: u32,
    /// Time since the creation or last renewal, in whole seconds of the store's clock.
    pub age_s: u64,
    /// Fencing token.
    pub fence: Fence,
    /// Number of messages that the claim still holds.
    pub message_count: u64,
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
    /// Fencing token, which renewals do not change.
    pub fence: Fence,
    /// Messages that the claim holds: oldest first, or in the order of the rotation in a fair
    /// queue.
    pub messages: Vec<Message>,
    /// Pick-up delays of the messages that this claim was the first to deliver. Empty unless the
    /// claim is new.
    pub pickup_delays: Vec<Duration>,
}
