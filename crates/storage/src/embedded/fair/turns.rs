//! Selects the next messages of a fair queue. Its shards have one turn each, round-robin, starting
//! after the shard that had the last turn. The messages without a shard have one turn after the
//! last shard. Only shards with available messages are visited.

use std::collections::VecDeque;
use std::ops::{Bound, RangeInclusive};

use bytes::Bytes;
use redb::ReadableTable;

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::{Slice, Table};
use crate::embedded::fair::shards::UNSHARDED;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::located::{Found, Located};
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::shard_counts::ShardCounts;
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::budget::RecordBudget;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::read_ahead::MESSAGES_PER_READ;
use crate::embedded::transaction::write::WriteTransaction;
use crate::entry::Entry;
use crate::key::rank_of;
use crate::{Error, PREFERRED_IN_A_ROW_MAX};
use sukkal_domain::Shard;

/// Iterates over the available messages of a shard, oldest first.
pub(crate) struct ShardEntries<'a>(redb::Range<'a, Slice, Slice>);

impl Iterator for ShardEntries<'_> {
    type Item = Result<Located, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|entry| {
            let (turn, entry) = entry?;
            let (shard, key) = keys::shard_and_rest(turn.value()).ok_or_else(|| damaged("a turn"))?;
            let key = key.try_into().map_err(|_| damaged("a turn"))?;
            Ok(Located { entry: Entry::decode_value(key, entry.value())?, set: Part::Ready, shard: Some(shard) })
        })
    }
}

impl<T: Table> View<T> {
    /// Returns the available messages of a shard with these counts.
    pub(crate) fn shard_entries(
        &self,
        number: u64,
        shard: u16,
        shard_counts: ShardCounts,
    ) -> Result<ShardEntries<'_>, Error> {
        let from = keys::shard(number, Part::Turn, shard, &shard_counts.passed_to);
        let to = keys::shard(number, Part::Turn, shard + 1, &[]);
        Ok(ShardEntries(self.contents.range::<&[u8]>((Bound::Excluded(&*from), Bound::Excluded(&*to)))?))
    }

    /// Returns the first available message, from a rank on, that has no shard because it is not
    /// after the boundary.
    pub(crate) fn first_unsharded(&self, number: u64, from: u64, boundary: u64) -> Result<Option<Located>, Error> {
        if boundary < from.max(1) {
            return Ok(None);
        }
        let first = self.entries(number, Part::Ready, from)?.next().transpose()?;
        Ok(first.filter(|located| rank_of(located.key()) <= boundary))
    }
}

impl WriteTransaction<'_> {
    /// Returns the next available messages, as many as the budget allows. They are about to be
    /// delivered, so in a fair queue their turns are recorded as used.
    pub(crate) fn next_messages(
        &mut self,
        row: &QueueRow,
        limit: usize,
        prefer: &[Shard],
        budget: &mut RecordBudget,
    ) -> Result<Vec<Found>, Error> {
        let (number, state) = (row.number, self.state(row.number)?);
        if !state.is_fair(&row.policy) {
            return self.view.oldest_available(number, limit, budget);
        }
        if state.in_set(Part::Ready) == 0 {
            return Ok(Vec::new());
        }
        if state.preferred_in_a_row < PREFERRED_IN_A_ROW_MAX {
            let positions = self.preferred_positions(number, prefer)?;
            if !positions.is_empty() {
                let next = self.take_turns(number, &state, positions, limit, budget)?;
                self.change_state(number, |state| state.preferred_in_a_row += u16::from(!next.is_empty()))?;
                return Ok(next);
            }
        }
        let positions = self.positions_in_turn(number, &state, limit)?;
        let next = self.take_turns(number, &state, positions, limit, budget)?;
        if let Some(last) = next.last() {
            let turn = last.located.shard.unwrap_or(UNSHARDED) + 1;
            self.change_state(number, |state| (state.turn, state.preferred_in_a_row) = (turn, 0))?;
        }
        Ok(next)
    }

    /// Returns the positions with available messages in the order of turns, at most `limit`.
    fn positions_in_turn(&mut self, number: u64, state: &QueueState, limit: usize) -> Result<VecDeque<u16>, Error> {
        let mut positions = VecDeque::new();
        let before = state.turn.checked_sub(1).map(|before| 0..=before);
        for round in [Some(state.turn..=UNSHARDED), before].into_iter().flatten() {
            let (mut from, last) = round.into_inner();
            while positions.len() < limit
                && from <= last
                && let Some(position) = self.next_position(number, state, from..=last)?
            {
                from = position + 1;
                positions.push_back(position);
            }
        }
        Ok(positions)
    }

    /// Returns the first of these positions that has an available message.
    fn next_position(
        &mut self,
        number: u64,
        state: &QueueState,
        positions: RangeInclusive<u16>,
    ) -> Result<Option<u16>, Error> {
        let busy = self.next_busy(number, *positions.start(), *positions.end())?;
        if busy.is_none()
            && positions.contains(&UNSHARDED)
            && self.view.first_unsharded(number, 0, state.boundary)?.is_some()
        {
            return Ok(Some(UNSHARDED));
        }
        Ok(busy)
    }

    /// Returns those of the shards that have available messages, sorted by their oldest message.
    fn preferred_positions(&mut self, number: u64, shards: &[Shard]) -> Result<VecDeque<u16>, Error> {
        let mut heads = Vec::with_capacity(shards.len());
        for shard in shards.iter().map(|shard| shard.number()) {
            heads.extend(self.shard_head(number, shard)?.map(|head| (*head.key(), shard)));
        }
        heads.sort_unstable();
        heads.dedup();
        Ok(heads.into_iter().map(|(_, shard)| shard).collect())
    }

    /// Returns the first available message of a shard.
    fn shard_head(&mut self, number: u64, shard: u16) -> Result<Option<Located>, Error> {
        let known = self.read_ahead.head(number, shard);
        if known.is_some() {
            return Ok(known);
        }
        let shard_counts = self.shard_counts(number, shard)?;
        if shard_counts.counts.available == 0 {
            return Ok(None);
        }
        let read = self
            .view
            .shard_entries(number, shard, shard_counts)?
            .take(MESSAGES_PER_READ)
            .collect::<Result<VecDeque<_>, _>>()?;
        let first = read.front().copied();
        self.read_ahead.insert(number, shard, read);
        Ok(first)
    }

    /// Takes one message from each position in turn, until `limit` or the budget is reached.
    /// Records their turns as used.
    fn take_turns(
        &mut self,
        number: u64,
        state: &QueueState,
        mut positions: VecDeque<u16>,
        limit: usize,
        budget: &mut RecordBudget,
    ) -> Result<Vec<Found>, Error> {
        let (mut fitting, mut unsharded_from) = (Vec::new(), 0);
        while fitting.len() < limit
            && let Some(position) = positions.pop_front()
        {
            let unsharded = if position == UNSHARDED {
                self.view.first_unsharded(number, unsharded_from, state.boundary)?
            } else {
                None
            };
            let first = if unsharded.is_some() { unsharded } else { self.shard_head(number, position)? };
            let Some(located) = first else {
                continue;
            };
            if !budget.try_add(&located) {
                break;
            }
            let record = self.view.contents.get(&keys::message(number, Part::Message, located.key())[..])?;
            let record = Bytes::copy_from_slice(record.ok_or_else(|| damaged("a message"))?.value());
            fitting.push(Found { located, record });
            match located.shard {
                Some(shard) => self.pass_shard_head(number, shard, located.key())?,
                None => unsharded_from = rank_of(located.key()) + 1,
            }
            positions.push_back(position);
        }
        Ok(fitting)
    }
}
