//! What claims change about a message, kept with its place from its first claim on: how often it was given out, its ttl,
//! the second in which it ends, and the lease that holds it. Nothing before that. The same bytes as in `record::Hold`.

use bytes::BufMut;

use super::failure::damaged;
use super::keys::Key;
use crate::domain::ClaimId;
use crate::storage::key::KEY_BYTES;
use crate::storage::{Error, record};

/// A message's hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) count: u32,
    pub(super) ttl_s: u32,
    pub(super) end_s: u64,
    pub(super) lease: Option<Lease>,
}

/// What holds messages until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// A claim, and whoever has it.
    Claim(ClaimId),
    /// Nobody: the message was given back for later.
    Nobody(Key),
}

const HEAD_BYTES: usize = 16;
/// How long the two kinds of leases are.
const CLAIM_BYTES: usize = 16;
const NOBODY_BYTES: usize = 1 + KEY_BYTES;
/// What a lease begins with that no claim has: see `record::hold`.
const NOBODY: u8 = b'~';
/// Where a message's creation time and ttl stand in its record: see `storage/record.rs`.
const CREATED: std::ops::Range<usize> = 3..11;
const TTL: std::ops::Range<usize> = 12..16;

impl Hold {
    /// What a message is before its first claim.
    pub(super) fn of_record(record: &[u8]) -> Result<Self, Error> {
        let created = record.get(CREATED).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let ttl = record.get(TTL).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        let (Some(created_us), Some(ttl_s)) = (created, ttl) else {
            return Err(damaged("a message"));
        };
        Ok(Self { count: 0, ttl_s, end_s: whole_seconds(created_us) + u64::from(ttl_s), lease: None })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + CLAIM_BYTES);
        bytes.put_u32(self.count);
        bytes.put_u32(self.ttl_s);
        bytes.put_u64(self.end_s);
        bytes.extend(self.lease.iter().flat_map(Lease::encode));
        bytes
    }

    /// Whether a hold can have so many bytes, or none do.
    pub(super) fn can_have(bytes: usize) -> bool {
        [0, HEAD_BYTES, HEAD_BYTES + CLAIM_BYTES, HEAD_BYTES + NOBODY_BYTES].contains(&bytes)
    }

    /// The hold that stands with a message's place, if it has one.
    pub(super) fn stored(bytes: &[u8]) -> Result<Option<Self>, Error> {
        if bytes.is_empty() { Ok(None) } else { Self::decode(bytes).map(Some) }
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (head, lease) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(|| damaged("a hold"))?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let end_s = u64::from_be_bytes(head[8..].try_into().expect("eight bytes"));
        let lease = if lease.is_empty() { None } else { Some(Lease::decode(lease)?) };
        Ok(Self { count: number(0), ttl_s: number(4), end_s, lease })
    }

    /// What is shown of it.
    pub(super) fn shown(&self) -> record::Hold {
        record::Hold::new(self.count, self.ttl_s, self.holder())
    }

    /// The claim that the message is under.
    pub(super) fn holder(&self) -> Option<ClaimId> {
        match self.lease {
            Some(Lease::Claim(claim)) => Some(claim),
            Some(Lease::Nobody(_)) | None => None,
        }
    }
}

impl Lease {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Claim(claim) => claim.as_bytes().to_vec(),
            Self::Nobody(key) => [&[NOBODY], &key[..]].concat(),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if let Ok(claim) = bytes.try_into() {
            return Ok(Self::Claim(ClaimId::from_bytes(claim)));
        }
        let key = bytes.strip_prefix(&[NOBODY]).and_then(|key| key.try_into().ok());
        key.map(Self::Nobody).ok_or_else(|| damaged("a lease"))
    }
}

/// A time (µs) in whole seconds, rounded up.
pub(super) fn whole_seconds(time_us: u64) -> u64 {
    time_us.div_ceil(1_000_000)
}
