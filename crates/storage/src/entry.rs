//! The entry of a message: the fields that a store needs to list, claim, release or remove the
//! message without reading its record.
//!
//! | bytes | 0..12 | 12..20 | 20 | 21..25 | 25..29 | 29..33 | 33..37 | 37..43 | 43..59 | 59..71 |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | | key | poster | size class | end (s) | claim count | ttl (s) | end (s) | first claim (ms) | claim | delivery state before the claim |
//!
//! The entry of a message that was never claimed has the first 25 bytes. From the first claim on,
//! it also has the delivery state (bytes 25 to 37) and the time of that claim (bytes 37 to 43).
//! While the message is in flight, it has all 71 bytes. If the message was returned with a delay,
//! the first eight bytes of the claim are zeros, which is not so in the id of a claim. The next
//! eight are the time when the delay ends (µs). In Redis they are zeros too, because the lease of
//! the message can be found by its key. The last 12 bytes are all zeros if there was no delivery
//! state before.
//!
//! The time of the first claim is missing if no claim has delivered the message, but a pop, or if
//! the queue got it as a dead letter. It is also missing after claims of earlier releases.
//!
//! Numbers are big-endian, so that entries sort in the order of their keys.
//! `scripts/shared/entry.lua` reads these bytes; `posting.lua` and `claimed_entries.lua` write
//! them.

use super::error::Error;
use super::key::{KEY_BYTES, Key};
use sukkal_domain::ClaimId;
use sukkal_domain::client::Poster;

/// Offset of the poster.
pub(super) const POSTER: usize = KEY_BYTES;
/// Offset of the size class.
pub(super) const SIZE: usize = POSTER + 8;
/// Offset of the expiration time as posted.
pub(super) const END: usize = SIZE + 1;
/// Length of the entry of a message that was never claimed, in bytes.
pub(super) const FRESH_BYTES: usize = END + 4;
/// Length of a delivery state, in bytes.
pub(super) const DELIVERY_BYTES: usize = 12;
/// Length of an entry up to its delivery state, in bytes.
pub(super) const DELIVERED_BYTES: usize = FRESH_BYTES + DELIVERY_BYTES;
/// Length of the time of the first claim, in bytes.
pub(super) const FIRST_CLAIM_BYTES: usize = 6;
/// Length of a claim id, in bytes.
pub(super) const CLAIM_BYTES: usize = 16;
/// Length of the entry of a message that is in flight (claimed, or returned with a delay) without
/// the time of its first claim, in bytes. With members above 64 bytes, Redis keeps a sorted set as
/// a skip list from its first member on. The operations of the other encoding take time linear in
/// the number of members.
pub(super) const IN_FLIGHT_BYTES: usize = DELIVERED_BYTES + CLAIM_BYTES + DELIVERY_BYTES;
const DELIVERED_WITH_FIRST_CLAIM: usize = DELIVERED_BYTES + FIRST_CLAIM_BYTES;
const IN_FLIGHT_WITH_FIRST_CLAIM: usize = IN_FLIGHT_BYTES + FIRST_CLAIM_BYTES;
/// Length of the time at the end of the claim of a returned message, in bytes.
const TIME_BYTES: usize = 8;
/// Claim counts are below this number. The bits above it are flags.
pub(super) const COUNT_LIMIT: u32 = 1 << 28;
/// Flag in the claim count of a dead letter that has not been delivered from the dead-letter queue.
pub(super) const UNDELIVERED: u32 = 1 << 31;

/// A message as the indexes of a store contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Key,
    /// Expiration time of the message as it was posted: the message expires at the start of this
    /// second since 1970.
    pub(super) end_s: u32,
    pub(super) poster: Poster,
    /// Size of the message's record.
    pub(super) size: SizeClass,
    /// Delivery state; `None` until the first claim.
    pub(super) delivery: Option<Delivery>,
    /// When the message was first claimed, in milliseconds since 1970, if that is known.
    pub(super) first_claim_ms: Option<u64>,
    /// The claim that holds the message.
    pub(super) claim: Option<ClaimId>,
    /// The time when the delay of a returned message ends, in microseconds. Otherwise 0, and always
    /// 0 in Redis.
    pub(super) returned_until_us: u64,
    /// Delivery state before the current claim, if the message is in flight and had one.
    pub(super) before: Option<Delivery>,
}

/// Delivery state of a message: the changes that claims have made to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Number of deliveries, as far as the queue counts them, without the flag [`UNDELIVERED`].
    pub(super) count: u32,
    /// Whether the message is a dead letter that has not been delivered from the dead-letter queue.
    pub(super) is_undelivered: bool,
    /// Time to live in seconds, as extended by a claim; 0 if no claim has extended it.
    pub(super) ttl_s: u32,
    /// Current expiration time: the message expires at the start of this second since 1970.
    pub(super) end_s: u32,
}

impl Entry {
    /// Returns the entry of a message that was never claimed.
    pub(super) fn fresh(key: Key, end_s: u32, poster: Poster, size: SizeClass) -> Self {
        Self {
            key,
            end_s,
            poster,
            size,
            delivery: None,
            first_claim_ms: None,
            claim: None,
            returned_until_us: 0,
            before: None,
        }
    }

    /// Decodes an entry.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (key, value) = bytes.split_first_chunk().ok_or_else(|| wrong_length(bytes.len()))?;
        Self::decode_value(key, value)
    }

    /// Decodes an entry from its key and the bytes after the key.
    pub(super) fn decode_value(key: &Key, value: &[u8]) -> Result<Self, Error> {
        let length = KEY_BYTES + value.len();
        if !Self::has_length(length) {
            return Err(wrong_length(length));
        }
        let claim_bytes = if length < IN_FLIGHT_BYTES { 0 } else { CLAIM_BYTES + DELIVERY_BYTES };
        let (rest, claim_and_before) = value.split_at(value.len() - claim_bytes);
        let (_, delivery_and_first_claim) = rest.split_at(FRESH_BYTES - KEY_BYTES);
        let first_claim = delivery_and_first_claim.get(DELIVERY_BYTES..).filter(|bytes| !bytes.is_empty());
        let claim = claim_and_before.get(..CLAIM_BYTES).map_or([0; CLAIM_BYTES], array);
        let (is_claimed, returned_until) = (claim[..TIME_BYTES] != [0; TIME_BYTES], array(&claim[TIME_BYTES..]));
        let before = claim_and_before.get(CLAIM_BYTES..).filter(|before| **before != [0; DELIVERY_BYTES]);
        Ok(Self {
            key: *key,
            end_s: number(&value[END - KEY_BYTES..FRESH_BYTES - KEY_BYTES]),
            poster: Poster::from_bytes(array(&value[POSTER - KEY_BYTES..SIZE - KEY_BYTES])),
            size: SizeClass(value[SIZE - KEY_BYTES]),
            delivery: delivery_and_first_claim.get(..DELIVERY_BYTES).map(Delivery::decode),
            first_claim_ms: first_claim.map(|bytes| bytes.iter().fold(0, |ms, byte| ms << 8 | u64::from(*byte))),
            claim: is_claimed.then(|| ClaimId::from_bytes(claim)),
            returned_until_us: if is_claimed { 0 } else { u64::from_be_bytes(returned_until) },
            before: before.map(Delivery::decode),
        })
    }

    /// Returns whether an entry can have this length, in bytes.
    pub(super) fn has_length(bytes: usize) -> bool {
        matches!(
            bytes,
            FRESH_BYTES | DELIVERED_BYTES | DELIVERED_WITH_FIRST_CLAIM | IN_FLIGHT_BYTES | IN_FLIGHT_WITH_FIRST_CLAIM
        )
    }

    /// Encodes the entry, with its claim if the message is in flight.
    pub(super) fn encode(&self, is_in_flight: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(IN_FLIGHT_BYTES + 2);
        bytes.extend(self.key);
        self.encode_value(is_in_flight, &mut bytes);
        bytes
    }

    /// Appends the bytes after the key to `bytes`.
    pub(super) fn encode_value(&self, is_in_flight: bool, bytes: &mut Vec<u8>) {
        bytes.extend(Self::poster_and_size(self.poster, self.size));
        bytes.extend(self.end_s.to_be_bytes());
        bytes.extend(self.delivery.iter().flat_map(Delivery::encode));
        bytes.extend(self.first_claim_ms.iter().flat_map(|ms| ms.to_be_bytes()[8 - FIRST_CLAIM_BYTES..].to_vec()));
        if is_in_flight {
            let returned_until = u128::from(self.returned_until_us).to_be_bytes();
            bytes.extend(self.claim.map_or(returned_until, |claim| *claim.as_bytes()));
            bytes.extend(self.before.map_or([0; DELIVERY_BYTES], |before| before.encode()));
        }
    }

    /// Returns the current expiration time: the message expires at the start of this second since
    /// 1970.
    pub(super) fn current_end_s(&self) -> u32 {
        self.delivery.map_or(self.end_s, |delivery| delivery.end_s)
    }

    /// Returns the delivery state, or the initial one if the message was never claimed.
    pub(super) fn delivery_state(&self) -> Delivery {
        self.delivery.unwrap_or(Delivery { count: 0, is_undelivered: false, ttl_s: 0, end_s: self.end_s })
    }

    /// Returns the bytes between the key and the expiration time of an entry.
    pub(super) fn poster_and_size(poster: Poster, size: SizeClass) -> [u8; END - POSTER] {
        let mut bytes = [size.0; END - POSTER];
        bytes[..SIZE - POSTER].copy_from_slice(poster.as_bytes());
        bytes
    }
}

impl Delivery {
    /// Decodes the twelve bytes of a delivery state.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let [count, ttl_s, end_s] = [&bytes[..4], &bytes[4..8], &bytes[8..]].map(number);
        Self { count: count % COUNT_LIMIT, is_undelivered: count & UNDELIVERED != 0, ttl_s, end_s }
    }

    /// Encodes the delivery state.
    pub(super) fn encode(&self) -> [u8; DELIVERY_BYTES] {
        let flag = if self.is_undelivered { UNDELIVERED } else { 0 };
        array(&[(self.count % COUNT_LIMIT) | flag, self.ttl_s, self.end_s].map(u32::to_be_bytes).concat())
    }
}

fn wrong_length(bytes: usize) -> Error {
    Error::Corrupt(format!("an entry has {bytes} bytes"))
}

/// The size of a record in one byte, rounded up by at most an eighth. The upper five bits are an
/// exponent, the lower three a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SizeClass(u8);

impl SizeClass {
    /// Returns the smallest class for a record of this size in bytes.
    pub(super) fn of(bytes: usize) -> Self {
        let bytes = bytes.max(8);
        let exponent = (bytes / 8).ilog2();
        // 16 eighths are 8 of the next exponent.
        let eighths = bytes.div_ceil(1 << exponent);
        Self(u8::try_from(8 * exponent as usize + eighths - 8).unwrap_or(u8::MAX))
    }

    /// Returns the maximum size of a record of this class, in bytes.
    pub(super) fn bytes_max(self) -> usize {
        (8 + usize::from(self.0 % 8)) << (self.0 / 8)
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(array(bytes))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the slice has this length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoded_entry_equals_the_encoded_one() {
        let fresh = Entry::fresh(*b"a message's.", 7, Poster::from_bytes(*b"a client"), SizeClass::of(100));
        let delivery = Delivery { count: 3, is_undelivered: true, ttl_s: 60, end_s: u32::MAX };
        let delivered = Entry { delivery: Some(delivery), ..fresh };
        let again = Delivery { count: 4, is_undelivered: false, ..delivery };
        for (entry, is_in_flight, bytes) in [
            (fresh, false, FRESH_BYTES),
            (delivered, false, DELIVERED_BYTES),
            (Entry { before: delivered.delivery, delivery: Some(again), ..delivered }, true, IN_FLIGHT_BYTES),
            (Entry { claim: Some(ClaimId::from_bytes([255; 16])), ..delivered }, true, IN_FLIGHT_BYTES),
            (Entry { returned_until_us: 1_790_000_000_000_000, ..delivered }, true, IN_FLIGHT_BYTES),
            (Entry { first_claim_ms: Some(1_790_000_000_000), ..delivered }, false, DELIVERED_WITH_FIRST_CLAIM),
            (
                Entry { first_claim_ms: Some(1), claim: Some(ClaimId::from_bytes([255; 16])), ..delivered },
                true,
                IN_FLIGHT_WITH_FIRST_CLAIM,
            ),
        ] {
            let encoded = entry.encode(is_in_flight);

            assert_eq!(encoded.len(), bytes);
            assert_eq!(Entry::decode(&encoded).unwrap(), entry);
        }
        assert!(Entry::decode(&[0; FRESH_BYTES + 1]).is_err());
    }

    #[test]
    fn a_size_class_is_at_least_the_size_and_at_most_an_eighth_above() {
        for bytes in (1..5_000).chain((5_000..2_000_000).step_by(977)) {
            let bound = SizeClass::of(bytes).bytes_max();

            assert!(bound >= bytes, "{bytes} bytes in a class of {bound}");
            assert!(bound <= bytes.max(8) + bytes / 8, "{bytes} bytes in a class of {bound}");
        }
    }
}
