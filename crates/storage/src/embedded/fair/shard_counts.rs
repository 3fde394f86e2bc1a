//! Reads and changes the message counts of shards.

use std::collections::btree_map::Entry;

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::shard_counts::{BLOCK_SHARDS, Block, ShardCounts};
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::{Cached, WriteTransaction};

impl WriteTransaction<'_> {
    pub(crate) fn shard_counts(&mut self, number: u64, shard: u16) -> Result<ShardCounts, Error> {
        Ok(self.block(number, Block::number_of(shard))?.value.get(shard))
    }

    pub(crate) fn change_shard_counts(
        &mut self,
        number: u64,
        shard: u16,
        change: impl FnOnce(&mut ShardCounts),
    ) -> Result<(), Error> {
        let at = Block::number_of(shard);
        let block = self.block(number, at)?;
        let was_busy = block.value.is_busy();
        change(block.value.get_mut(shard));
        block.is_changed = true;
        let is_busy = block.value.is_busy();
        if is_busy != was_busy {
            self.change_state(number, |state| state.note_busy(at, is_busy))?;
        }
        Ok(())
    }

    /// Returns the first shard of this range that has an available message.
    pub(crate) fn next_busy(&mut self, number: u64, from: u16, last: u16) -> Result<Option<u16>, Error> {
        let state = self.state(number)?;
        for at in (Block::number_of(from)..=Block::number_of(last)).filter(|at| state.may_be_busy(*at)) {
            let busy = self.block(number, at)?.value.next_busy(from.max(at * BLOCK_SHARDS));
            if busy.is_some() {
                return Ok(busy.filter(|shard| *shard <= last));
            }
        }
        Ok(None)
    }

    fn block(&mut self, number: u64, at: u16) -> Result<&mut Cached<Block>, Error> {
        match self.fair.entry(number).or_default().blocks.entry(at) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let value = self.view.block(number, at)?;
                Ok(unknown.insert(Cached { value, is_changed: false }))
            }
        }
    }

    /// Removes the passed entries of a shard.
    pub(crate) fn remove_passed(&mut self, number: u64, shard: u16) -> Result<(), Error> {
        let ShardCounts { passed, passed_to, .. } = self.shard_counts(number, shard)?;
        if passed > 0 {
            self.remove_passed_range(number, shard, &passed_to)?;
            self.change_shard_counts(number, shard, ShardCounts::reset_passed)?;
        }
        Ok(())
    }
}

impl<T: Table> View<T> {
    fn block(&self, number: u64, at: u16) -> Result<Block, Error> {
        match self.contents.get(&*keys::shard(number, Part::Shard, at, &[]))? {
            Some(block) => Block::decode(block.value()),
            None => Ok(Block::default()),
        }
    }

    /// Returns the counts of each shard that is not empty.
    pub(crate) fn all_shard_counts(&self, number: u64) -> Result<Vec<(u16, ShardCounts)>, Error> {
        let (from, to) = (keys::part_prefix(number, Part::Shard), keys::part_prefix(number, Part::Tenants));
        let mut all_shard_counts = Vec::new();
        for entry in self.contents.range::<&[u8]>(&*from..&*to)? {
            let (key, block) = entry?;
            let (at, _) = keys::shard_and_rest(key.value()).ok_or_else(|| damaged("shards"))?;
            let block = Block::decode(block.value())?;
            let first = at.checked_mul(BLOCK_SHARDS).ok_or_else(|| damaged("shards"))?;
            all_shard_counts
                .extend((first..).zip(block.0).filter(|(_, shard_counts)| *shard_counts != ShardCounts::default()));
        }
        Ok(all_shard_counts)
    }
}
