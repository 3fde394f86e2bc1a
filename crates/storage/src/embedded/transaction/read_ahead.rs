//! Caches the next messages of the shards of fair queues. One search reads several messages of a
//! shard, which the next claims take. Only the writer thread changes the store, so the cache stays
//! correct until an operation changes a shard here or a transaction is aborted.

use std::collections::{BTreeMap, VecDeque};

use crate::embedded::rows::keys::Key;
use crate::embedded::rows::located::Located;

/// Number of messages of a shard that are read at once.
pub(crate) const MESSAGES_PER_READ: usize = 16;
/// Maximum number of shards in the cache.
const CACHED_SHARDS_MAX: usize = 4_096;

/// The first messages of shards, by contents number and shard.
#[derive(Default)]
pub(crate) struct ReadAheadCache(BTreeMap<(u64, u16), VecDeque<Located>>);

impl ReadAheadCache {
    /// Returns the first message of a shard, if it is cached.
    pub(crate) fn head(&self, number: u64, shard: u16) -> Option<Located> {
        self.0.get(&(number, shard))?.front().copied()
    }

    /// Caches the first messages of a shard.
    pub(crate) fn insert(&mut self, number: u64, shard: u16, messages: VecDeque<Located>) {
        if self.0.len() >= CACHED_SHARDS_MAX {
            self.0.clear();
        }
        self.0.insert((number, shard), messages);
    }

    /// Removes the first message of a shard, which has left the shard.
    pub(crate) fn remove_head(&mut self, number: u64, shard: u16) {
        if let Some(known) = self.0.get_mut(&(number, shard)) {
            known.pop_front();
            if known.is_empty() {
                self.0.remove(&(number, shard));
            }
        }
    }

    /// Drops a shard from the cache if a message that came or left may be among the cached ones.
    pub(crate) fn invalidate(&mut self, number: u64, shard: u16, key: &Key) {
        let last = self.0.get(&(number, shard)).and_then(VecDeque::back);
        if last.is_some_and(|last| key <= last.key()) {
            self.0.remove(&(number, shard));
        }
    }
}
