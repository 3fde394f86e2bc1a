//! A message, and its identity: the id is the position in the feed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::{Builder, Uuid, Variant, Version};

use super::client::Poster;
use super::{Body, ClaimId, Lot, QueueId, QueueName};

/// A position in a queue's feed: microseconds since 1970, never given twice in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(u64);

/// The id of a message: a version 7 UUID made of its rank, its queue's fingerprint and chance.
///
/// | bits | 48 | 4 | 12 | 2 | 24 | 38 |
/// |---|---|---|---|---|---|---|
/// | | rank / 1000 (ms) | 7 | rank % 1000 | `0b10` | queue | nonce |
///
/// So ids sort as ranks do, and an id used as a marker needs no look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Uuid);

/// The part of an id that chance decides, so that a rank given twice by a store which has lost
/// its last moments is still another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce(u64);

/// A message to be posted.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// How long it lives, in seconds.
    pub ttl_s: u32,
    /// How long it is kept from everybody first, in seconds.
    pub delay_s: u32,
    /// What it says.
    pub body: Body,
    /// Whom it is for in a fair queue; one that is not fair does not look at it.
    pub lot: Option<Arc<Lot>>,
}

/// Where a dead letter comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The queue in which it was given out too often.
    pub queue: QueueName,
    /// What it was called there.
    pub id: MessageId,
    /// How often it was given out there.
    pub claim_count: u32,
}

/// A message as a store hands it out.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its identity and position.
    pub id: MessageId,
    /// How long it lives, in seconds: as posted, or as a claim has prolonged it.
    pub ttl_s: u32,
    /// When it was posted, in whole seconds since 1970 by the store's clock.
    pub created_s: u64,
    /// How long ago it was posted, in whole seconds of the store's clock.
    pub age_s: u64,
    /// The live claim that it is under.
    pub claim: Option<ClaimId>,
    /// How often it was claimed, as far as anybody counts.
    pub claim_count: u32,
    /// Where it comes from, if it is a dead letter.
    pub origin: Option<Origin>,
    /// Who posted it.
    pub poster: Poster,
    /// What it says.
    pub body: Body,
}

impl Message {
    /// How long it has been there to be claimed at that time (µs): since its post or the end of its delay, which is what
    /// its rank says.
    #[must_use]
    pub fn waited(&self, now_us: u64) -> Duration {
        Duration::from_micros(now_us.saturating_sub(self.id.rank().micros()))
    }
}

impl Rank {
    /// The lowest rank, which no message has.
    pub const MIN: Self = Self(0);

    /// Ranks stay below 2^53, so that a double holds them exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The rank, if it is in range.
    #[must_use]
    pub fn new(micros: u64) -> Option<Self> {
        (micros <= Self::MAX.0).then_some(Self(micros))
    }

    /// The rank right before this one; the lowest has none and stays as it is.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Microseconds since 1970.
    #[must_use]
    pub fn micros(self) -> u64 {
        self.0
    }
}

impl Nonce {
    const BITS: u32 = 38;

    /// The nonce of these bits; those above the 38th are dropped.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// The bits.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// A nonce nobody can foresee.
    #[must_use]
    pub fn random() -> Self {
        Self::from_bits(Uuid::new_v4().as_u64_pair().1)
    }
}

impl MessageId {
    /// The id of the message at `rank` in `queue`.
    #[must_use]
    pub fn new(queue: &QueueId, rank: Rank, nonce: Nonce) -> Self {
        Self::with_fingerprint(queue.fingerprint(), rank, nonce)
    }

    /// As [`Self::new`], for callers that make many ids of one queue.
    #[must_use]
    pub fn with_fingerprint(fingerprint: u32, rank: Rank, nonce: Nonce) -> Self {
        let time = u128::from(rank.0 / 1000) << 80 | u128::from(rank.0 % 1000) << 64;
        let rest = u128::from(fingerprint) << Nonce::BITS | u128::from(nonce.0);
        let mut builder = Builder::from_u128(time | rest);
        builder.set_version(Version::SortRand).set_variant(Variant::RFC4122);
        Self(builder.into_uuid())
    }

    /// The id that the text spells, if it is one of this queue's. Only the canonical spelling counts:
    /// ids are opaque to clients.
    #[must_use]
    pub fn parse(text: &str, queue: &QueueId) -> Option<Self> {
        let id = Self(Uuid::try_parse(text).ok()?);
        let micros = (id.0.as_u128() >> 64) & 0xfff;
        let ours = id.0.get_version() == Some(Version::SortRand)
            && id.0.get_variant() == Variant::RFC4122
            && micros < 1000
            && id.is_of(queue)
            && Rank::new(id.micros()).is_some();
        (ours && id.to_string() == text).then_some(id)
    }

    /// Whether the id carries that queue's fingerprint: no other names a message in it.
    #[must_use]
    pub fn is_of(self, queue: &QueueId) -> bool {
        self.fingerprint() == queue.fingerprint()
    }

    /// Where the message stands in its queue's feed.
    #[must_use]
    pub fn rank(self) -> Rank {
        Rank(self.micros())
    }

    /// The id that a store has kept as a number.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(Uuid::from_u128(bits))
    }

    /// The id as a number.
    #[must_use]
    pub fn bits(self) -> u128 {
        self.0.as_u128()
    }

    /// The part that chance decided.
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

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::ProjectId;

    fn queue(name: &str) -> QueueId {
        QueueId::new(ProjectId::new("p").unwrap(), name.parse().unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn an_id_gives_back_what_it_was_made_of(micros in 0..=Rank::MAX.0, bits: u64) {
            let (rank, nonce) = (Rank(micros), Nonce::from_bits(bits));

            let id = MessageId::new(&queue("a"), rank, nonce);

            prop_assert_eq!(MessageId::parse(&id.to_string(), &queue("a")), Some(id));
            prop_assert_eq!((id.rank(), id.nonce()), (rank, nonce));
        }

        #[test]
        fn ids_sort_as_ranks_do(a in 0..=Rank::MAX.0, b in 0..=Rank::MAX.0, bits: u64) {
            let id = |micros| MessageId::new(&queue("a"), Rank(micros), Nonce::from_bits(bits)).to_string();

            prop_assert_eq!(a.cmp(&b), id(a).cmp(&id(b)));
        }

        #[test]
        fn no_text_makes_the_parser_stumble(text: String) {
            prop_assert_eq!(MessageId::parse(&text, &queue("a")), None);
        }
    }

    #[test]
    fn an_id_of_another_queue_or_spelling_is_not_ours() {
        let id = MessageId::new(&queue("a"), Rank(1_790_000_000_123_456), Nonce(7));

        assert_eq!(MessageId::parse(&id.to_string(), &queue("b")), None);
        assert_eq!(MessageId::parse(&id.to_string().to_uppercase(), &queue("a")), None);
        assert_eq!(MessageId::parse(&id.0.simple().to_string(), &queue("a")), None);
        assert_eq!(MessageId::parse(&Uuid::new_v4().to_string(), &queue("a")), None);
    }
}
