//! The row of a live claim.

use bytes::BufMut;

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::rows::keys::Key;
use crate::key::KEY_BYTES;
use sukkal_domain::{ClientId, Fence};

/// A live claim as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRow {
    pub(crate) ttl_s: u32,
    pub(crate) since_us: u64,
    pub(crate) end_us: u64,
    pub(crate) fence: Fence,
    /// Number of the messages that the claim still holds. `None` if an earlier release has stored
    /// the claim.
    pub(crate) held: Option<u32>,
    pub(crate) client: ClientId,
    /// Keys of the messages that were claimed. Their entries say whether the claim still holds
    /// them.
    pub(crate) keys: Vec<Key>,
}

const HEAD_BYTES: usize = 34;
/// Flag in the ttl of a claim that has `held`.
const HAS_HELD: u32 = 1 << 31;

impl ClaimRow {
    /// Creates the row of a claim whose term begins now.
    pub(crate) fn new(ttl_s: u32, now_us: u64, fence: Fence, client: ClientId, keys: Vec<Key>) -> Self {
        let end_us = now_us + u64::from(ttl_s) * 1_000_000;
        let held = u32::try_from(keys.len()).ok();
        Self { ttl_s, since_us: now_us, end_us, fence, held, client, keys }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let client = self.client.as_str().as_bytes();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + client.len() + KEY_BYTES * self.keys.len());
        bytes.put_u32(self.ttl_s | self.held.map_or(0, |_| HAS_HELD));
        bytes.put_u64(self.since_us);
        bytes.put_u64(self.end_us);
        bytes.put_u64(self.fence.0);
        bytes.extend(self.held.iter().flat_map(|held| held.to_be_bytes()));
        bytes.put_u16(u16::try_from(client.len()).expect("a header with the id has at most 64 KiB"));
        bytes.put_slice(client);
        bytes.extend(self.keys.iter().flatten());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let row = || {
            let (ttl, rest) = bytes.split_first_chunk()?;
            let ttl = u32::from_be_bytes(*ttl);
            let (since, rest) = rest.split_first_chunk()?;
            let (end, rest) = rest.split_first_chunk()?;
            let (fence, rest) = rest.split_first_chunk()?;
            let (held, rest) = match ttl & HAS_HELD {
                0 => (None, rest),
                _ => rest.split_first_chunk().map(|(held, rest)| (Some(u32::from_be_bytes(*held)), rest))?,
            };
            let (client_bytes, rest) = rest.split_first_chunk()?;
            let (client, keys) = rest.split_at_checked(u16::from_be_bytes(*client_bytes).into())?;
            let (keys, []) = keys.as_chunks() else {
                return None;
            };
            Some(Self {
                ttl_s: ttl & !HAS_HELD,
                since_us: u64::from_be_bytes(*since),
                end_us: u64::from_be_bytes(*end),
                fence: Fence(u64::from_be_bytes(*fence)),
                held,
                client: ClientId::from_store(str::from_utf8(client).ok()?),
                keys: keys.to_vec(),
            })
        };
        row().ok_or_else(|| damaged("a claim"))
    }
}
