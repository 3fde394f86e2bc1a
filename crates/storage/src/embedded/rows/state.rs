//! The state of a queue: its counts and the ranks that it has assigned.

use bytes::{Buf, BufMut};

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::rows::keys::Part;
use crate::entry::SizeClass;
use crate::policy::QueuePolicy;

/// Length without the sum of the sizes, which earlier releases do not have.
const OLD_STATE_BYTES: usize = 141;
const STATE_BYTES: usize = OLD_STATE_BYTES + 8;

/// The state of a queue's contents. Ranks are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueState {
    /// The last visible rank.
    pub(crate) last: u64,
    /// How far the queue's logical time is ahead of the clock, and the last recorded logical time,
    /// in microseconds. Both are 0 while nothing is delayed: see `logical_time`.
    pub(crate) offset: u64,
    pub(crate) logical: u64,
    /// Number of messages.
    pub(crate) total: u64,
    /// Number of messages that are in flight, and number of messages that are delayed.
    pub(crate) in_flight: u64,
    pub(crate) delayed: u64,
    /// No lease ends, no message or subscription ends and no message becomes due before this time
    /// (µs).
    pub(crate) due: u64,
    /// Number of messages that have a shard.
    pub(crate) sharded: u64,
    /// The last visible rank when the queue became fair. Messages up to it have no shard.
    pub(crate) boundary: u64,
    /// The position from which the next turn is searched: see `fair/turns.rs`.
    pub(crate) turn: u16,
    /// Number of successive claims that were served from the shards that they prefer.
    pub(crate) preferred_in_a_row: u16,
    /// One bit for each block of shards: whether the block has available messages.
    pub(crate) busy: u64,
    /// The last fence, or a number below which every fence of an earlier queue of the same name is.
    pub(crate) fence: u64,
    /// Totals since the queue was created: messages that were posted, were taken by claims, have
    /// expired, and became dead letters.
    pub(crate) posted: u64,
    pub(crate) claimed: u64,
    pub(crate) expired: u64,
    pub(crate) dead_lettered: u64,
    /// Whether claims and pops get no messages.
    pub(crate) is_paused: bool,
    /// Contents number of the subscriptions; 0 if there have been none since they were all deleted.
    pub(crate) subscriptions: u64,
    /// Number of subscriptions.
    pub(crate) subscription_count: u64,
    /// Sum of the sizes of all messages: see `storage/record.rs`. `None` if it is not known, while
    /// messages are left that an earlier release has posted.
    pub(crate) bytes: Option<u64>,
}

impl Default for QueueState {
    fn default() -> Self {
        // The size of no messages is known: 0.
        let zero = Self::decode(&[0; STATE_BYTES]).expect("it has the length of a state");
        Self { due: u64::MAX, ..zero }
    }
}

impl QueueState {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STATE_BYTES);
        for number in [self.last, self.offset, self.logical, self.total, self.in_flight, self.delayed, self.due] {
            bytes.put_u64(number);
        }
        bytes.put_u64(self.sharded);
        bytes.put_u64(self.boundary);
        bytes.put_u16(self.turn);
        bytes.put_u16(self.preferred_in_a_row);
        for number in [self.busy, self.fence, self.posted, self.claimed, self.expired, self.dead_lettered] {
            bytes.put_u64(number);
        }
        bytes.put_u8(self.is_paused.into());
        bytes.put_u64(self.subscriptions);
        bytes.put_u64(self.subscription_count);
        bytes.extend(self.bytes.iter().flat_map(|sum| sum.to_be_bytes()));
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if ![OLD_STATE_BYTES, STATE_BYTES].contains(&bytes.len()) {
            return Err(damaged("the state of a queue"));
        }
        let mut numbers = bytes;
        Ok(Self {
            last: numbers.get_u64(),
            offset: numbers.get_u64(),
            logical: numbers.get_u64(),
            total: numbers.get_u64(),
            in_flight: numbers.get_u64(),
            delayed: numbers.get_u64(),
            due: numbers.get_u64(),
            sharded: numbers.get_u64(),
            boundary: numbers.get_u64(),
            turn: numbers.get_u16(),
            preferred_in_a_row: numbers.get_u16(),
            busy: numbers.get_u64(),
            fence: numbers.get_u64(),
            posted: numbers.get_u64(),
            claimed: numbers.get_u64(),
            expired: numbers.get_u64(),
            dead_lettered: numbers.get_u64(),
            is_paused: numbers.get_u8() != 0,
            subscriptions: numbers.get_u64(),
            subscription_count: numbers.get_u64(),
            bytes: numbers.try_get_u64().ok(),
        })
    }

    /// Counts a message of this size that was added.
    pub(crate) fn count(&mut self, size: SizeClass) {
        if self.total == 0 {
            self.bytes = Some(0);
        }
        self.total += 1;
        self.bytes = self.bytes.map(|sum| sum + size.bytes_max() as u64);
    }

    /// Counts a message of this size that was removed.
    pub(crate) fn discount(&mut self, size: SizeClass) {
        self.total = self.total.saturating_sub(1);
        self.bytes = self.bytes.map(|sum| sum.saturating_sub(size.bytes_max() as u64));
    }

    /// Returns whether messages may have shards: the owner has made the queue fair, or messages
    /// from when it was fair are left.
    pub(crate) fn is_fair(&self, policy: &QueuePolicy) -> bool {
        policy.sharding.is_some() || self.sharded > 0
    }

    /// Returns the state after all messages are gone. Subscriptions remain.
    pub(crate) fn emptied(&self) -> Self {
        let Self { last, boundary, turn, preferred_in_a_row, fence, is_paused, .. } = *self;
        let Self { posted, claimed, expired, dead_lettered, subscriptions, subscription_count, .. } = *self;
        let emptied = Self { last, boundary, turn, preferred_in_a_row, fence, is_paused, ..Self::default() };
        Self { posted, claimed, expired, dead_lettered, subscriptions, subscription_count, ..emptied }
    }

    /// Returns the number of messages in a set.
    pub(crate) fn in_set(&self, set: Part) -> u64 {
        match set {
            Part::InFlight => self.in_flight,
            Part::Delayed => self.delayed,
            _ => self.total.saturating_sub(self.in_flight).saturating_sub(self.delayed),
        }
    }

    /// Returns the logical time (µs). A delayed message is due when logical time reaches its rank.
    /// Logical time is the clock plus an offset. It never goes back while a message is delayed, and
    /// it may be ahead of the clock if ranks are. `scripts/shared/logical_time.lua` has the same
    /// rule.
    pub(crate) fn logical_time(&self, now_us: u64) -> u64 {
        if self.delayed == 0 { now_us } else { self.logical.max(now_us + self.offset) }
    }

    /// Raises logical time to at least `to_us`; it continues from there.
    pub(crate) fn raise_logical_time(&mut self, now_us: u64, to_us: u64) {
        let logical = self.logical_time(now_us).max(to_us);
        let offset = logical.saturating_sub(now_us);
        if self.delayed > 0 && self.due < u64::MAX {
            // All delayed messages become due earlier by the same amount.
            self.due = self.due.saturating_sub(offset.saturating_sub(self.offset));
        }
        (self.offset, self.logical) = (offset, logical);
    }

    /// Returns whether the clock shows an earlier time than the last recorded logical time.
    pub(crate) fn has_stepped_back(&self, now_us: u64) -> bool {
        self.delayed > 0 && now_us + self.offset < self.logical
    }

    /// Returns whether a change may be due, or the clock has stepped back, which must be recorded.
    pub(crate) fn may_have_due_changes(&self, now_us: u64) -> bool {
        now_us >= self.due || self.has_stepped_back(now_us)
    }

    /// Returns the next rank: after every visible rank, and not before the logical time.
    pub(crate) fn next_rank(&self, now_us: u64) -> u64 {
        self.logical_time(now_us).max(self.last + 1)
    }

    /// Records whether shards of a block have available messages. The messages without a shard are
    /// in a block of their own, which has no bit and is always searched.
    pub(crate) fn note_busy(&mut self, block: u16, is_busy: bool) {
        let bit = bit_of(block).unwrap_or(0);
        self.busy = if is_busy { self.busy | bit } else { self.busy & !bit };
    }

    /// Returns the bits for these blocks.
    pub(crate) fn busy_with(blocks: impl Iterator<Item = u16>) -> u64 {
        blocks.filter_map(bit_of).fold(0, |busy, bit| busy | bit)
    }

    pub(crate) fn may_be_busy(&self, block: u16) -> bool {
        bit_of(block).is_none_or(|bit| self.busy & bit != 0)
    }
}

fn bit_of(block: u16) -> Option<u64> {
    1_u64.checked_shl(block.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let state = QueueState {
            last: 1,
            offset: 2,
            logical: 3,
            total: 4,
            in_flight: 5,
            delayed: 6,
            due: 7,
            sharded: 8,
            boundary: 9,
            turn: 1_025,
            preferred_in_a_row: 10,
            busy: 11,
            fence: 12,
            posted: 13,
            claimed: 14,
            expired: 15,
            dead_lettered: 16,
            is_paused: true,
            subscriptions: 17,
            subscription_count: 18,
            bytes: Some(19),
        };
        let old = QueueState { bytes: None, ..state };

        assert_eq!(QueueState::decode(&state.encode()).unwrap(), state);
        assert_eq!(QueueState::decode(&old.encode()).unwrap(), old);
        assert!(QueueState::decode(&state.encode()[1..]).is_err());
    }

    #[test]
    fn the_sum_of_the_sizes_is_known_after_a_queue_was_empty() {
        let (size, mut state) = (SizeClass::of(16), QueueState { total: 1, bytes: None, ..QueueState::default() });

        state.count(size);
        assert_eq!((state.total, state.bytes), (2, None));
        state.discount(size);
        state.discount(size);
        state.count(size);
        assert_eq!((state.total, state.bytes), (1, Some(16)));
    }

    #[test]
    fn logical_time_follows_the_clock_and_never_goes_back_while_anything_is_delayed() {
        let mut state = QueueState { delayed: 1, due: 2_000, ..QueueState::default() };
        state.raise_logical_time(1_000, 1_500);
        assert_eq!((state.logical_time(1_000), state.logical_time(1_200), state.due), (1_500, 1_700, 1_500));

        assert!(state.has_stepped_back(600));
        assert_eq!(state.logical_time(600), 1_500);
        state.raise_logical_time(600, 0);
        assert!(!state.has_stepped_back(600));
        assert_eq!((state.logical_time(600), state.logical_time(700)), (1_500, 1_600));

        assert_eq!(QueueState { delayed: 0, ..state }.logical_time(600), 600);
    }
}
