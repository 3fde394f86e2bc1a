//! Messages and their ids. An id contains the position of the message in the feed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::{Builder, Uuid, Variant, Version};

use super::client::Poster;
use super::{Body, ClaimId, MessageState, QueueId, QueueName, ShardAssignment, TraceContext};

/// Position in a queue's feed, in microseconds since 1970. No two messages of a queue have the same
/// rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(u64);

/// Id of a message: a version 7 UUID that contains the rank, the fingerprint of the queue and a
/// random nonce.
///
/// | bits | 48 | 4 | 12 | 2 | 24 | 38 |
/// |---|---|---|---|---|---|---|
/// | | rank / 1000 (ms) | 7 | rank % 1000 | `0b10` | queue | nonce |
///
/// Ids therefore sort in the order of their ranks, and a position can be read from an id without a
/// lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Uuid);

/// Random part of a message id. If a store loses its last writes and then assigns a rank again, the
/// two messages still have different ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce(u64);

/// A message that a client posts.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// Time to live, in seconds.
    pub ttl_s: u32,
    /// Time before the message becomes available, in seconds.
    pub delay_s: u32,
    /// The body.
    pub body: Body,
    /// The tenant and its shards in a fair queue. Other queues ignore it.
    pub assignment: Option<Arc<ShardAssignment>>,
}

/// Origin of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The queue in which the message was claimed too often, or whose subscription has given it up.
    pub queue: QueueName,
    /// Id of the message in that queue.
    pub id: MessageId,
    /// Number of claims of the message in that queue; 0 if a subscription has given it up.
    pub claim_count: u32,
}

/// A message as a store returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Id of the message, which contains its position.
    pub id: MessageId,
    /// Time to live in seconds, as posted or as extended by a claim.
    pub ttl_s: u32,
    /// Time of the post by the store's clock, in whole seconds since 1970.
    pub created_s: u64,
    /// Time since the post, in whole seconds of the store's clock.
    pub age_s: u64,
    /// The live claim that holds the message.
    pub claim: Option<ClaimId>,
    /// Number of claims of the message.
    pub claim_count: u32,
    /// When the message was first claimed, in milliseconds since 1970 by the store's clock, if that
    /// is known.
    pub first_claim_ms: Option<u64>,
    /// State of the message, if the query asked for it.
    pub state: Option<MessageState>,
    /// Origin of the message, if it is a dead letter.
    pub origin: Option<Origin>,
    /// Trace context of the request that posted the message, if it had one.
    pub trace: Option<TraceContext>,
    /// The client that posted the message.
    pub poster: Poster,
    /// The body.
    pub body: Body,
}

impl Message {
    /// Returns how long the message has been available at this time, in microseconds since 1970.
    ///
    /// The message became available when it was posted or its delay ended, and its rank is that
    /// time.
    #[must_use]
    pub fn pickup_delay(&self, now_us: u64) -> Duration {
        Duration::from_micros(now_us.saturating_sub(self.id.rank().micros()))
    }
}

impl Rank {
    /// The lowest rank. No message has it.
    pub const MIN: Self = Self(0);

    /// The highest rank. Ranks are below 2^53, so that a double represents them exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Returns the rank, or `None` if it is above [`Self::MAX`].
    #[must_use]
    pub fn new(micros: u64) -> Option<Self> {
        (micros <= Self::MAX.0).then_some(Self(micros))
    }

    /// Returns the rank immediately before this one. Returns the lowest rank unchanged.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Returns the rank in microseconds since 1970.
    #[must_use]
    pub fn micros(self) -> u64 {
        self.0
    }
}

impl Nonce {
    const BITS: u32 = 38;

    /// Returns the nonce with the low 38 of these bits.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// Returns the 38 bits of the nonce.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns a new random nonce.
    #[must_use]
    pub fn random() -> Self {
        Self::from_bits(Uuid::new_v4().as_u64_pair().1)
    }
}

impl MessageId {
    /// Returns the id of the message at `rank` in `queue`.
    #[must_use]
    pub fn new(queue: &QueueId, rank: Rank, nonce: Nonce) -> Self {
        Self::with_fingerprint(queue.fingerprint(), rank, nonce)
    }

    /// Returns the same id as [`Self::new`], for callers that create many ids of one queue.
    #[must_use]
    pub fn with_fingerprint(fingerprint: u32, rank: Rank, nonce: Nonce) -> Self {
        let time = u128::from(rank.0 / 1000) << 80 | u128::from(rank.0 % 1000) << 64;
        let rest = u128::from(fingerprint) << Nonce::BITS | u128::from(nonce.0);
        let mut builder = Builder::from_u128(time | rest);
        builder.set_version(Version::SortRand).set_variant(Variant::RFC4122);
        Self(builder.into_uuid())
    }

    /// Parses an id of a message of this queue, and returns `None` for any other text. Only the
    /// canonical form is accepted, because ids are opaque to clients.
    #[must_use]
    pub fn parse(text: &str, queue: &QueueId) -> Option<Self> {
        let id = Self(Uuid::try_parse(text).ok()?);
        let micros = (id.0.as_u128() >> 64) & 0xfff;
        let is_own = id.0.get_version() == Some(Version::SortRand)
            && id.0.get_variant() == Variant::RFC4122
            && micros < 1000
            && id.is_of(queue)
            && Rank::new(id.micros()).is_some();
        (is_own && id.to_string() == text).then_some(id)
    }

    /// Returns whether the id has the fingerprint of this queue, as the ids of all its messages do.
    #[must_use]
    pub fn is_of(self, queue: &QueueId) -> bool {
        self.fingerprint() == queue.fingerprint()
    }

    /// Returns the position of the message in the queue's feed.
    #[must_use]
    pub fn rank(self) -> Rank {
        Rank(self.micros())
    }

    /// Returns the id that a store has kept as a number.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(Uuid::from_u128(bits))
    }

    /// Returns the id as a number.
    #[must_use]
    pub fn bits(self) -> u128 {
        self.0.as_u128()
    }

    /// Returns the random part of the id.
    #[must_use]
    pub fn nonce(self) -> Nonce {
        Nonce::from_bits(self.0.as_u64_pair().1)
    }

    fn micros(self) -> u64 {
        let (high, _) = self.0.as_u64_pair();
        (high >> 16) * 1000 + (high & 0xfff)
    }

    fn fingerprint(self) -> u32 {
        let (_, low) = self.0.as_u64_pair();
        u32::try_from(low >> Nonce::BITS & 0xff_ffff).expect("24 bits fit")
    }
}

impl From<MessageId> for Uuid {
    fn from(id: MessageId) -> Self {
        id.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ProjectId;

    fn queue(name: &str) -> QueueId {
        QueueId::new(ProjectId::new("p").unwrap(), name.parse().unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn an_id_contains_its_rank_and_nonce(micros in 0..=Rank::MAX.0, bits: u64) {
            let (rank, nonce) = (Rank(micros), Nonce::from_bits(bits));

            let id = MessageId::new(&queue("a"), rank, nonce);

            prop_assert_eq!(MessageId::parse(&id.to_string(), &queue("a")), Some(id));
            prop_assert_eq!((id.rank(), id.nonce()), (rank, nonce));
        }

        #[test]
        fn ids_sort_in_the_order_of_their_ranks(a in 0..=Rank::MAX.0, b in 0..=Rank::MAX.0, bits: u64) {
            let id = |micros| MessageId::new(&queue("a"), Rank(micros), Nonce::from_bits(bits)).to_string();

            prop_assert_eq!(a.cmp(&b), id(a).cmp(&id(b)));
        }

        #[test]
        fn any_other_text_is_not_an_id(text: String) {
            prop_assert_eq!(MessageId::parse(&text, &queue("a")), None);
        }
    }

    #[test]
    fn an_id_of_another_queue_or_in_another_form_is_refused() {
        let id = MessageId::new(&queue("a"), Rank(1_790_000_000_123_456), Nonce(7));

        assert_eq!(MessageId::parse(&id.to_string(), &queue("b")), None);
        assert_eq!(MessageId::parse(&id.to_string().to_uppercase(), &queue("a")), None);
        assert_eq!(MessageId::parse(&id.0.simple().to_string(), &queue("a")), None);
        assert_eq!(MessageId::parse(&Uuid::new_v4().to_string(), &queue("a")), None);
    }
}
