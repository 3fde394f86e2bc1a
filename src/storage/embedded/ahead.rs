//! What is next in the lines of fair queues, as far as it was read: a search finds several messages of a line, which the
//! next claims take. Nobody else writes, so it stays true until it changes here or a transaction is given up.

use std::collections::{BTreeMap, VecDeque};

use super::keys::Key;
use super::located::Located;

/// How many messages of a line are read at once.
pub(super) const READ_AT_ONCE: usize = 16;
/// How many lines are known at a time.
const LINES_MAX: usize = 4_096;

/// The first messages of lines, by the number of a queue's contents and the shard.
#[derive(Default)]
pub(super) struct Ahead(BTreeMap<(u64, u16), VecDeque<Located>>);

impl Ahead {
    /// The first message of a line, if it is known.
    pub(super) fn first(&self, number: u64, shard: u16) -> Option<Located> {
        self.0.get(&(number, shard))?.front().copied()
    }

    /// Notes what a line begins with.
    pub(super) fn know(&mut self, number: u64, shard: u16, places: VecDeque<Located>) {
        if self.0.len() >= LINES_MAX {
            self.0.clear();
        }
        self.0.insert((number, shard), places);
    }

    /// Notes that the first message has left a line.
    pub(super) fn pass(&mut self, number: u64, shard: u16) {
        if let Some(known) = self.0.get_mut(&(number, shard)) {
            known.pop_front();
            if known.is_empty() {
                self.0.remove(&(number, shard));
            }
        }
    }

    /// Notes that a message has come to a line or left it, wherever it stands there.
    pub(super) fn disturb(&mut self, number: u64, shard: u16, key: &Key) {
        let last = self.0.get(&(number, shard)).and_then(VecDeque::back);
        if last.is_some_and(|last| key <= last.key()) {
            self.0.remove(&(number, shard));
        }
    }
}
