//! The row of a live claim.

use bytes::BufMut;

use crate::storage::Error;
use crate::storage::embedded::engine::error::damaged;
use crate::storage::embedded::rows::keys::Key;
use crate::storage::key::KEY_BYTES;

/// A live claim as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRow {
    pub(crate) ttl_s: u32,
    pub(crate) since_us: u64,
    pub(crate) end_us: u64,
    /// Keys of the messages that were claimed. Their entries say whether the claim still holds
    /// them.
    pub(crate) keys: Vec<Key>,
}

const HEAD_BYTES: usize = 20;

impl ClaimRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + KEY_BYTES * self.keys.len());
        bytes.put_u32(self.ttl_s);
        bytes.put_u64(self.since_us);
        bytes.put_u64(self.end_us);
        bytes.extend(self.keys.iter().flatten());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let row = || {
            let (ttl, rest) = bytes.split_first_chunk()?;
            let (since, rest) = rest.split_first_chunk()?;
            let (end, keys) = rest.split_first_chunk()?;
            let (keys, []) = keys.as_chunks() else {
                return None;
            };
            Some(Self {
                ttl_s: u32::from_be_bytes(*ttl),
                since_us: u64::from_be_bytes(*since),
                end_us: u64::from_be_bytes(*end),
                keys: keys.to_vec(),
            })
        };
        row().ok_or_else(|| damaged("a claim"))
    }
}
