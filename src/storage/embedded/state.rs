//! The rows of a queue: what its owner has set, and what the store counts.

use bytes::{Buf, BufMut, Bytes};

use super::failure::damaged;
use super::keys::Part;
use crate::domain::{QueueName, Revision, Sharding};
use crate::storage::{Error, record};

/// A queue as the registry has it, without its metadata.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Under what its contents are kept.
    pub(super) number: u64,
    pub(super) revision: Revision,
    pub(super) policy: Policy,
}

/// What the store obeys of a queue's metadata: see `record::policy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Policy {
    /// Whether messages are delayed here.
    pub(super) delays: bool,
    pub(super) dead_letters: Option<DeadLetters>,
    /// How the queue is divided, if it is fair.
    pub(super) sharding: Option<Sharding>,
}

/// What becomes of messages that were delivered as often as the queue allows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeadLetters {
    pub(super) count_max: u32,
    /// How long (s) they live then; 0: as long as they would have.
    pub(super) ttl_s: u32,
    pub(super) target: QueueName,
}

/// What a queue holds, in numbers. Ranks in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The last rank that is visible.
    pub(super) last: u64,
    /// How far the queue's logical time is ahead of the clock, and the last logical time that was noted. Both are 0
    /// while nothing is delayed: see `logical_time`.
    pub(super) offset: u64,
    pub(super) logical: u64,
    /// How many messages there are.
    pub(super) total: u64,
    /// How many of them are in flight, and how many delayed.
    pub(super) in_flight: u64,
    pub(super) delayed: u64,
    /// Before that nothing is due: no lease is over, no message ends and none is released.
    pub(super) due: u64,
    /// How many messages have a shard.
    pub(super) sharded: u64,
    /// The last rank that was visible when the queue became fair: what has none behind it has no shard.
    pub(super) boundary: u64,
    /// The position from which on the next turn is looked for: see `turns.rs`.
    pub(super) turn: u16,
    /// How many claims in a row were served as they prefer.
    pub(super) passes: u16,
    /// Which blocks of shards have free messages, a bit for each: see `tallies.rs`.
    pub(super) busy: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            last: 0,
            offset: 0,
            logical: 0,
            total: 0,
            in_flight: 0,
            delayed: 0,
            due: u64::MAX,
            sharded: 0,
            boundary: 0,
            turn: 0,
            passes: 0,
            busy: 0,
        }
    }
}

const POLICY_HEAD: usize = 9;
const ROW_HEAD: usize = 18;
const STATE_BYTES: usize = 84;

impl Row {
    /// The row with its policy, in bytes, and metadata.
    pub(super) fn encode(number: u64, revision: Revision, policy: &Bytes, metadata: &Bytes) -> Vec<u8> {
        let mut row = Vec::with_capacity(ROW_HEAD + policy.len() + metadata.len());
        row.put_u64(number);
        row.put_u64(revision.0);
        row.put_u16(u16::try_from(policy.len()).expect("a queue's name is short"));
        row.put_slice(policy);
        row.put_slice(metadata);
        row
    }

    /// An encoded row with another number.
    pub(super) fn renumbered(row: &[u8], number: u64) -> Vec<u8> {
        [&number.to_be_bytes()[..], row.get(8..).unwrap_or_default()].concat()
    }

    /// The row, and the metadata's record.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let row = || {
            let (number, rest) = bytes.split_first_chunk()?;
            let (revision, rest) = rest.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (policy, metadata) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let revision = Revision(u64::from_be_bytes(*revision));
            Some((Self { number: u64::from_be_bytes(*number), revision, policy: Policy::decode(policy)? }, metadata))
        };
        row().ok_or_else(|| damaged("a queue"))
    }
}

impl Policy {
    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let (head, rest) = bytes.split_at_checked(POLICY_HEAD)?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let is_set = |flag| head[0] & flag != 0;
        let (sharding, target) = if is_set(record::FAIR) {
            let (shards, rest) = rest.split_first_chunk()?;
            let (per_tenant, target) = rest.split_first_chunk()?;
            (Some(Sharding::new(u16::from_be_bytes(*shards), u16::from_be_bytes(*per_tenant))?), target)
        } else {
            (None, rest)
        };
        let dead_letters = match target {
            [] => None,
            target => Some(DeadLetters {
                count_max: number(1),
                ttl_s: number(5),
                target: str::from_utf8(target).ok()?.parse().ok()?,
            }),
        };
        Some(Self { delays: is_set(record::DELAYS), dead_letters, sharding })
    }
}

impl State {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STATE_BYTES);
        for number in [self.last, self.offset, self.logical, self.total, self.in_flight, self.delayed, self.due] {
            bytes.put_u64(number);
        }
        bytes.put_u64(self.sharded);
        bytes.put_u64(self.boundary);
        bytes.put_u16(self.turn);
        bytes.put_u16(self.passes);
        bytes.put_u64(self.busy);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != STATE_BYTES {
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
            passes: numbers.get_u16(),
            busy: numbers.get_u64(),
        })
    }

    /// Whether messages stand in shards: as the owner wants it, or still, until those are gone that do.
    pub(super) fn is_fair(&self, policy: &Policy) -> bool {
        policy.sharding.is_some() || self.sharded > 0
    }

    /// What it is when the queue holds nothing any more.
    pub(super) fn emptied(&self) -> Self {
        let Self { last, boundary, turn, passes, .. } = *self;
        Self { last, boundary, turn, passes, ..Self::default() }
    }

    /// How many messages are in a set.
    pub(super) fn in_set(&self, set: Part) -> u64 {
        match set {
            Part::InFlight => self.in_flight,
            Part::Delayed => self.delayed,
            _ => self.total.saturating_sub(self.in_flight).saturating_sub(self.delayed),
        }
    }

    /// The time by which messages are delayed (µs): a delayed message is due when logical time reaches its rank. It is the
    /// clock and an offset, never goes back while anything is delayed, and may be ahead of the clock where ranks are.
    /// `scripts/shared/posting.lua` has the same rule.
    pub(super) fn logical_time(&self, now_us: u64) -> u64 {
        if self.delayed == 0 { now_us } else { self.logical.max(now_us + self.offset) }
    }

    /// Notes that logical time is at least that; so it goes on from there.
    pub(super) fn raise_logical_time(&mut self, now_us: u64, to_us: u64) {
        let logical = self.logical_time(now_us).max(to_us);
        let offset = logical.saturating_sub(now_us);
        if self.delayed > 0 && self.due < u64::MAX {
            // What is delayed is due sooner by that much.
            self.due = self.due.saturating_sub(offset.saturating_sub(self.offset));
        }
        (self.offset, self.logical) = (offset, logical);
    }

    /// Whether the clock has stepped back behind the last logical time.
    pub(super) fn has_stepped_back(&self, now_us: u64) -> bool {
        self.delayed > 0 && now_us + self.offset < self.logical
    }

    /// Whether something may be due, or the clock has stepped back, which must be noted.
    pub(super) fn may_be_unsettled(&self, now_us: u64) -> bool {
        now_us >= self.due || self.has_stepped_back(now_us)
    }

    /// The next rank: behind every other that is visible, and never before the logical time.
    pub(super) fn next_rank(&self, now_us: u64) -> u64 {
        self.logical_time(now_us).max(self.last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let state = State {
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
            passes: 10,
            busy: 11,
        };

        assert_eq!(State::decode(&state.encode()).unwrap(), state);
        assert!(State::decode(&state.encode()[1..]).is_err());
    }

    #[test]
    fn logical_time_follows_the_clock_and_never_goes_back_while_anything_is_delayed() {
        let mut state = State { delayed: 1, due: 2_000, ..State::default() };
        state.raise_logical_time(1_000, 1_500);
        assert_eq!((state.logical_time(1_000), state.logical_time(1_200), state.due), (1_500, 1_700, 1_500));

        assert!(state.has_stepped_back(600));
        assert_eq!(state.logical_time(600), 1_500);
        state.raise_logical_time(600, 0);
        assert!(!state.has_stepped_back(600));
        assert_eq!((state.logical_time(600), state.logical_time(700)), (1_500, 1_600));

        assert_eq!(State { delayed: 0, ..state }.logical_time(600), 600);
    }
}
