//! Assigns the messages of a fair queue to shards.
//!
//! When a queue becomes fair, its visible messages have no shard. Their last rank is the
//! *boundary*. A message with a later rank has a shard and keeps it. A message that was posted
//! earlier but becomes available later gets [`UNSHARDED`]. So every available message after the
//! boundary has a `TURN` entry, and the next one is found without a search.

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::rows::keys::{self, Key, Part};
use crate::embedded::rows::located::Located;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::transaction::write::WriteTransaction;
use sukkal_domain::ShardAssignment;
use sukkal_domain::sharding::SHARDS_MAX;

/// The position after all shards, where messages without a shard have their turn.
pub(crate) const UNSHARDED: u16 = SHARDS_MAX;

/// The shard of a message that was posted without an assignment, to a queue that is no longer fair
/// but still has messages in shards.
const ANY_SHARD: u16 = 0;

impl WriteTransaction<'_> {
    /// Returns whether messages of the queue may have shards.
    pub(crate) fn is_fair(&mut self, row: &QueueRow) -> Result<bool, Error> {
        Ok(self.state(row.number)?.is_fair(&row.policy))
    }

    /// Makes the queue fair, unless it still is. Its visible messages have no shard.
    pub(crate) fn become_fair(&mut self, row: &QueueRow) -> Result<(), Error> {
        if self.is_fair(row)? {
            return Ok(());
        }
        self.change_state(row.number, |state| {
            (state.boundary, state.turn, state.preferred_in_a_row) = (state.last, 0, 0);
        })
    }

    /// Returns the shard of a message that moves to this rank, given its shard before, if any.
    pub(crate) fn shard_at(&mut self, row: &QueueRow, rank: u64, so_far: Option<u16>) -> Result<Option<u16>, Error> {
        Ok(self.has_shards_at(row, rank)?.then_some(so_far.unwrap_or(UNSHARDED)))
    }

    /// Returns the shard of a new message at this rank.
    pub(crate) fn new_shard_at(
        &mut self,
        row: &QueueRow,
        rank: u64,
        assignment: Option<&ShardAssignment>,
    ) -> Result<Option<u16>, Error> {
        if !self.has_shards_at(row, rank)? {
            return Ok(None);
        }
        assignment.map_or(Ok(ANY_SHARD), |assignment| self.least_loaded(row.number, assignment)).map(Some)
    }

    fn has_shards_at(&mut self, row: &QueueRow, rank: u64) -> Result<bool, Error> {
        let state = self.state(row.number)?;
        Ok(state.is_fair(&row.policy) && rank > state.boundary)
    }

    /// Returns the candidate with the fewest messages that are available now or later; the first
    /// one if several have equally few. Stops at the first candidate that has none.
    fn least_loaded(&mut self, number: u64, assignment: &ShardAssignment) -> Result<u16, Error> {
        let mut least_loaded = (u64::MAX, ANY_SHARD);
        for shard in assignment.candidates().map(|shard| shard.number()) {
            let length = self.shard_counts(number, shard)?.counts.length();
            if length < least_loaded.0 {
                least_loaded = (length, shard);
            }
            if length == 0 {
                break;
            }
        }
        Ok(least_loaded.1)
    }

    /// Records that a message has entered a set.
    pub(crate) fn enter_shard(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        let Some(shard) = located.shard else {
            return Ok(());
        };
        if located.set == Part::Ready {
            self.read_ahead.invalidate(number, shard, located.key());
            if self.shard_counts(number, shard)?.has_passed(located.key()) {
                self.remove_passed(number, shard)?;
            }
            self.put(&keys::shard(number, Part::Turn, shard, located.key()), &located.encode_entry())?;
        }
        self.change_shard_counts(number, shard, |shard_counts| *shard_counts.counts.in_set_mut(located.set) += 1)
    }

    /// Records that a message has left a set.
    pub(crate) fn leave_shard(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        let Some(shard) = located.shard else {
            return Ok(());
        };
        if located.set == Part::Ready && !self.shard_counts(number, shard)?.has_passed(located.key()) {
            self.read_ahead.invalidate(number, shard, located.key());
            if !self.remove_key(&keys::shard(number, Part::Turn, shard, located.key()))? {
                return Err(damaged("the turn of a message"));
            }
        }
        self.change_shard_counts(number, shard, |shard_counts| {
            let count = shard_counts.counts.in_set_mut(located.set);
            *count = count.saturating_sub(1);
        })
    }

    /// Records that the first message of a shard is about to leave it.
    pub(crate) fn pass_shard_head(&mut self, number: u64, shard: u16, key: &Key) -> Result<(), Error> {
        self.read_ahead.remove_head(number, shard);
        self.change_shard_counts(number, shard, |shard_counts| {
            shard_counts.passed += 1;
            shard_counts.passed_to = *key;
        })
    }
}
