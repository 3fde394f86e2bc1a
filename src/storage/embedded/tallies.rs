//! What is counted of each shard of a fair queue, and how far its turns were handed out. Shards that follow each other
//! stand in one row: a claim takes from shards that do.
//!
//! A message that had its turn leaves its entry in the line behind: those are taken out together, once there are enough
//! of them, so that a claim from many shards does not have to touch a page for each. So each line begins behind what was
//! passed, and nothing that is free stands before that.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::{Buf, BufMut};

use super::failure::damaged;
use super::keys::{self, Key, Part, Table};
use super::state::State;
use super::view::View;
use super::writing::{Counted, Writing};
use crate::storage::Error;
use crate::storage::key::KEY_BYTES;

/// How many shards have a row together.
const BLOCK_SHARDS: u16 = 16;
/// How many entries of a line that were passed are left, at most.
const PASSED_MAX: u32 = 128;
const TALLY_BYTES: usize = 24 + 4 + KEY_BYTES;
const BLOCK_BYTES: usize = TALLY_BYTES * BLOCK_SHARDS as usize;

/// How many messages of a shard are in each set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) free: u64,
    pub(super) delayed: u64,
    pub(super) in_flight: u64,
}

/// What is counted of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// How many entries at the beginning of its line are of messages that are free no more.
    pub(super) passed: u32,
    /// The last of them.
    pub(super) passed_to: Key,
}

/// Shards that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block([Tally; BLOCK_SHARDS as usize]);

impl Counts {
    /// How many there are to give, now or later.
    pub(super) fn length(self) -> u64 {
        self.free + self.delayed
    }

    pub(super) fn of(&mut self, set: Part) -> &mut u64 {
        match set {
            Part::InFlight => &mut self.in_flight,
            Part::Delayed => &mut self.delayed,
            _ => &mut self.free,
        }
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self {
            free: self.free.saturating_sub(other.free),
            delayed: self.delayed.saturating_sub(other.delayed),
            in_flight: self.in_flight.saturating_sub(other.in_flight),
        }
    }
}

impl Tally {
    /// Whether a message had its turn, as far as that is known here.
    pub(super) fn has_passed(&self, key: &Key) -> bool {
        *key <= self.passed_to
    }

    fn forget_passed(&mut self) {
        (self.passed, self.passed_to) = (0, [0; KEY_BYTES]);
    }

    /// Whether what was passed is to be taken out.
    fn is_due(&self) -> bool {
        self.passed >= PASSED_MAX || self.passed > 0 && self.counts == Counts::default()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.put_u64(self.counts.free);
        bytes.put_u64(self.counts.delayed);
        bytes.put_u64(self.counts.in_flight);
        bytes.put_u32(self.passed);
        bytes.put_slice(&self.passed_to);
    }

    fn decode(bytes: &mut &[u8]) -> Self {
        let counts = Counts { free: bytes.get_u64(), delayed: bytes.get_u64(), in_flight: bytes.get_u64() };
        let (passed, mut passed_to) = (bytes.get_u32(), [0; KEY_BYTES]);
        bytes.copy_to_slice(&mut passed_to);
        Self { counts, passed, passed_to }
    }
}

impl Block {
    /// The one that a shard is in.
    pub(super) fn number_of(shard: u16) -> u16 {
        shard / BLOCK_SHARDS
    }

    fn of(&self, shard: u16) -> Tally {
        self.0[usize::from(shard % BLOCK_SHARDS)]
    }

    fn of_mut(&mut self, shard: u16) -> &mut Tally {
        &mut self.0[usize::from(shard % BLOCK_SHARDS)]
    }

    /// The first shard from one on that has a free message.
    fn next_busy(&self, shard: u16) -> Option<u16> {
        let busy = (shard % BLOCK_SHARDS..BLOCK_SHARDS).find(|at| self.of(*at).counts.free > 0)?;
        Some(shard - shard % BLOCK_SHARDS + busy)
    }

    fn is_busy(&self) -> bool {
        self.0.iter().any(|tally| tally.counts.free > 0)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        self.0.iter().for_each(|tally| tally.encode(&mut bytes));
        bytes
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != BLOCK_BYTES {
            return Err(damaged("what shards hold"));
        }
        Ok(Self(std::array::from_fn(|_| Tally::decode(&mut bytes))))
    }
}

impl State {
    /// Notes whether shards of a block have free messages. What has no shard is in a block of its own, which is looked at
    /// anyway.
    fn note_busy(&mut self, block: u16, is_busy: bool) {
        let bit = bit_of(block).unwrap_or(0);
        self.busy = if is_busy { self.busy | bit } else { self.busy & !bit };
    }

    /// What is noted if these blocks have free messages.
    pub(super) fn busy_with(blocks: impl Iterator<Item = u16>) -> u64 {
        blocks.filter_map(bit_of).fold(0, |busy, bit| busy | bit)
    }

    fn may_be_busy(&self, block: u16) -> bool {
        bit_of(block).is_none_or(|bit| self.busy & bit != 0)
    }
}

fn bit_of(block: u16) -> Option<u64> {
    1_u64.checked_shl(block.into())
}

impl Writing<'_> {
    pub(super) fn tally(&mut self, number: u64, shard: u16) -> Result<Tally, Error> {
        Ok(self.block(number, Block::number_of(shard))?.value.of(shard))
    }

    pub(super) fn change_tally(
        &mut self,
        number: u64,
        shard: u16,
        change: impl FnOnce(&mut Tally),
    ) -> Result<(), Error> {
        let at = Block::number_of(shard);
        let block = self.block(number, at)?;
        let was_busy = block.value.is_busy();
        change(block.value.of_mut(shard));
        block.is_changed = true;
        let is_busy = block.value.is_busy();
        if is_busy != was_busy {
            self.count(number, |state| state.note_busy(at, is_busy))?;
        }
        Ok(())
    }

    /// The first shard from one on that has a free message, up to another.
    pub(super) fn next_busy(&mut self, number: u64, from: u16, last: u16) -> Result<Option<u16>, Error> {
        let state = self.state(number)?;
        for at in (Block::number_of(from)..=Block::number_of(last)).filter(|at| state.may_be_busy(*at)) {
            let busy = self.block(number, at)?.value.next_busy(from.max(at * BLOCK_SHARDS));
            if busy.is_some() {
                return Ok(busy.filter(|shard| *shard <= last));
            }
        }
        Ok(None)
    }

    fn block(&mut self, number: u64, at: u16) -> Result<&mut Counted<Block>, Error> {
        match self.fair.entry(number).or_default().blocks.entry(at) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let value = self.view.block(number, at)?;
                Ok(unknown.insert(Counted { value, is_changed: false }))
            }
        }
    }

    /// Takes out what was passed of a line.
    pub(super) fn clear_passed(&mut self, number: u64, shard: u16) -> Result<(), Error> {
        let Tally { passed, passed_to, .. } = self.tally(number, shard)?;
        if passed > 0 {
            self.take_passed(number, shard, &passed_to)?;
            self.change_tally(number, shard, Tally::forget_passed)?;
        }
        Ok(())
    }

    fn take_passed(&mut self, number: u64, shard: u16, passed_to: &Key) -> Result<(), Error> {
        let [from, to] = [&[][..], passed_to].map(|key| keys::of_shard(number, Part::Turn, shard, key));
        self.take_range(&from, &to)
    }

    /// Writes the blocks that have changed, and takes out what was passed enough.
    pub(super) fn put_blocks(&mut self, number: u64, blocks: BTreeMap<u16, Counted<Block>>) -> Result<(), Error> {
        for (at, Counted { value: mut block, .. }) in blocks.into_iter().filter(|(_, block)| block.is_changed) {
            for (shard, tally) in (at * BLOCK_SHARDS..).zip(&mut block.0).filter(|(_, tally)| tally.is_due()) {
                self.take_passed(number, shard, &tally.passed_to)?;
                tally.forget_passed();
            }
            let key = keys::of_shard(number, Part::Shard, at, &[]);
            if block == Block::default() {
                self.take(&key)?;
            } else {
                self.put(&key, &block.encode())?;
            }
        }
        Ok(())
    }
}

impl<T: Table> View<T> {
    fn block(&self, number: u64, at: u16) -> Result<Block, Error> {
        match self.contents.get(&*keys::of_shard(number, Part::Shard, at, &[]))? {
            Some(block) => Block::decode(block.value()),
            None => Ok(Block::default()),
        }
    }

    /// What is counted of each shard that has anything.
    pub(super) fn tallies(&self, number: u64) -> Result<Vec<(u16, Tally)>, Error> {
        let (from, to) = (keys::part(number, Part::Shard), keys::part(number, Part::Tenants));
        let mut tallies = Vec::new();
        for entry in self.contents.range::<&[u8]>(&*from..&*to)? {
            let (key, block) = entry?;
            let (at, _) = keys::shard_and_rest(key.value()).ok_or_else(|| damaged("shards"))?;
            let block = Block::decode(block.value())?;
            let first = at.checked_mul(BLOCK_SHARDS).ok_or_else(|| damaged("shards"))?;
            tallies.extend((first..).zip(block.0).filter(|(_, tally)| *tally != Tally::default()));
        }
        Ok(tallies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let tally = |n: u16| Tally {
            counts: Counts { free: n.into(), delayed: 1 << n, in_flight: 3 },
            passed: n.into(),
            passed_to: [u8::try_from(n).unwrap(); KEY_BYTES],
        };
        let block = Block(std::array::from_fn(|at| tally(u16::try_from(at).unwrap())));

        let read = Block::decode(&block.encode()).unwrap();

        assert_eq!(read, block);
        assert_eq!(read.of(19), tally(3));
        assert_eq!(read.next_busy(16), Some(17));
    }
}
