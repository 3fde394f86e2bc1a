//! A claim: a lease on messages, so that one worker at a time has them.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use super::{Message, Shard};

/// The id of a claim: a random UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId(Uuid);

/// A claim to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// How many messages at most.
    pub limit: usize,
    /// How long it lasts.
    pub term: Term,
    /// From which shards of a fair queue it would rather be served, if from any.
    pub prefer: Vec<Shard>,
}

/// How long a claim lasts, and the messages under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// How long the claim lasts, in seconds.
    pub ttl_s: u32,
    /// How much longer than the claim a message lives that would have ended before it, in seconds.
    pub grace_s: u32,
}

/// A live claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What it is called.
    pub id: ClaimId,
    /// How long it lasts from its creation or renewal, in seconds.
    pub ttl_s: u32,
    /// How long ago that was, in whole seconds of the store's clock.
    pub age_s: u64,
    /// What it holds: oldest first, and in the order of their turns in a fair queue.
    pub messages: Vec<Message>,
    /// How long those of them were there to be claimed that nobody had claimed before. Only a new claim says so.
    pub waited: Vec<Duration>,
}

impl ClaimId {
    /// An id that no other claim has.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The id that the text spells, in the canonical form; there is no claim of another.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self).filter(|id| id.to_string() == text)
    }

    /// The id as a store keeps it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The sixteen bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
