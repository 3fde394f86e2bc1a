//! Message counts of each shard of a fair queue, and the entries that its turns have passed.
//! Adjacent shards share one row, because a claim takes messages from adjacent shards.
//!
//! A message that had its turn leaves its `TURN` entry behind as a *passed* entry. Passed entries
//! are removed together once there are enough, so that a claim from many shards does not change a
//! page for each. So the available messages of a shard begin after its last passed entry.

use bytes::{Buf, BufMut};

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::rows::keys::{Key, Part};
use crate::key::KEY_BYTES;

/// Number of shards that share a row.
pub(crate) const BLOCK_SHARDS: u16 = 16;

/// Maximum number of passed entries of a shard.
const PASSED_MAX: u32 = 128;

const TALLY_BYTES: usize = 24 + 4 + KEY_BYTES;
const BLOCK_BYTES: usize = TALLY_BYTES * BLOCK_SHARDS as usize;

/// Number of messages of a shard in each set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetCounts {
    pub(crate) available: u64,
    pub(crate) delayed: u64,
    pub(crate) in_flight: u64,
}

/// The counts of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardCounts {
    pub(crate) counts: SetCounts,
    /// Number of passed entries at the beginning of the shard.
    pub(crate) passed: u32,
    /// The last passed entry.
    pub(crate) passed_to: Key,
}

/// The counts of adjacent shards, which share a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block(pub(crate) [ShardCounts; BLOCK_SHARDS as usize]);

impl SetCounts {
    /// Returns how many messages are available now or later.
    pub(crate) fn length(self) -> u64 {
        self.available + self.delayed
    }

    pub(crate) fn in_set_mut(&mut self, set: Part) -> &mut u64 {
        match set {
            Part::InFlight => &mut self.in_flight,
            Part::Delayed => &mut self.delayed,
            _ => &mut self.available,
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            available: self.available.saturating_sub(other.available),
            delayed: self.delayed.saturating_sub(other.delayed),
            in_flight: self.in_flight.saturating_sub(other.in_flight),
        }
    }
}

impl ShardCounts {
    /// Returns whether the entry of this message is passed.
    pub(crate) fn has_passed(&self, key: &Key) -> bool {
        *key <= self.passed_to
    }

    pub(crate) fn reset_passed(&mut self) {
        (self.passed, self.passed_to) = (0, [0; KEY_BYTES]);
    }

    /// Returns whether the passed entries are to be removed now.
    pub(crate) fn needs_cleanup(&self) -> bool {
        self.passed >= PASSED_MAX || self.passed > 0 && self.counts == SetCounts::default()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.put_u64(self.counts.available);
        bytes.put_u64(self.counts.delayed);
        bytes.put_u64(self.counts.in_flight);
        bytes.put_u32(self.passed);
        bytes.put_slice(&self.passed_to);
    }

    fn decode(bytes: &mut &[u8]) -> Self {
        let counts = SetCounts { available: bytes.get_u64(), delayed: bytes.get_u64(), in_flight: bytes.get_u64() };
        let (passed, mut passed_to) = (bytes.get_u32(), [0; KEY_BYTES]);
        bytes.copy_to_slice(&mut passed_to);
        Self { counts, passed, passed_to }
    }
}

impl Block {
    /// Returns the number of the block that contains a shard.
    pub(crate) fn number_of(shard: u16) -> u16 {
        shard / BLOCK_SHARDS
    }

    pub(crate) fn get(&self, shard: u16) -> ShardCounts {
        self.0[usize::from(shard % BLOCK_SHARDS)]
    }

    pub(crate) fn get_mut(&mut self, shard: u16) -> &mut ShardCounts {
        &mut self.0[usize::from(shard % BLOCK_SHARDS)]
    }

    /// Returns the first shard of the block, from this one on, that has an available message.
    pub(crate) fn next_busy(&self, shard: u16) -> Option<u16> {
        let busy = (shard % BLOCK_SHARDS..BLOCK_SHARDS).find(|at| self.get(*at).counts.available > 0)?;
        Some(shard - shard % BLOCK_SHARDS + busy)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.iter().any(|shard_counts| shard_counts.counts.available > 0)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        self.0.iter().for_each(|shard_counts| shard_counts.encode(&mut bytes));
        bytes
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != BLOCK_BYTES {
            return Err(damaged("the message counts of shards"));
        }
        Ok(Self(std::array::from_fn(|_| ShardCounts::decode(&mut bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let shard_counts = |n: u16| ShardCounts {
            counts: SetCounts { available: n.into(), delayed: 1 << n, in_flight: 3 },
            passed: n.into(),
            passed_to: [u8::try_from(n).unwrap(); KEY_BYTES],
        };
        let block = Block(std::array::from_fn(|at| shard_counts(u16::try_from(at).unwrap())));

        let read = Block::decode(&block.encode()).unwrap();

        assert_eq!(read, block);
        assert_eq!(read.get(19), shard_counts(3));
        assert_eq!(read.next_busy(16), Some(17));
    }
}
