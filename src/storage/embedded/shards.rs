//! The shards of a fair queue: which of them a message has, and what each holds.
//!
//! A queue that has become fair holds messages that have none, up to the *boundary*: the last rank that was visible
//! then. What comes behind it has one, and keeps it. What was posted before and becomes free only then has
//! [`UNSHARDED`]: so all that is free behind the boundary has a turn, and no message is looked at to find the next.

use std::collections::BTreeMap;

use super::failure::damaged;
use super::keys::{self, Key, Part, Table};
use super::located::Located;
use super::state::{Row, State};
use super::tallies::{Block, Counts};
use super::tenants::Tenants;
use super::view::View;
use super::writing::{Counted, Writing};
use crate::domain::fairness::SHARDS_MAX;
use crate::domain::{Lot, Shard};
use crate::storage::key::rank_of;
use crate::storage::{Details, Error, Holding};

/// Behind all shards: where the messages without one have their turn.
pub(super) const UNSHARDED: u16 = SHARDS_MAX;
/// The shard of what is posted for nobody: the queue is fair no more, but still has messages in shards.
const ANY_SHARD: u16 = 0;

/// What a transaction has counted of a fair queue.
#[derive(Default)]
pub(super) struct Fair {
    pub(super) blocks: BTreeMap<u16, Counted<Block>>,
    /// Only if it has changed.
    pub(super) tenants: Option<Tenants>,
}

impl Writing<'_> {
    /// Whether messages stand in shards.
    pub(super) fn is_fair(&mut self, row: &Row) -> Result<bool, Error> {
        Ok(self.state(row.number)?.is_fair(&row.policy))
    }

    /// Notes that the queue is to be fair from now on, unless it is still: what is visible has no shard.
    pub(super) fn become_fair(&mut self, row: &Row) -> Result<(), Error> {
        if self.is_fair(row)? {
            return Ok(());
        }
        self.count(row.number, |state| (state.boundary, state.turn, state.passes) = (state.last, 0, 0))
    }

    /// The shard of a message that comes to a rank and had that one so far, if any.
    pub(super) fn shard_at(&mut self, row: &Row, rank: u64, so_far: Option<u16>) -> Result<Option<u16>, Error> {
        Ok(self.has_shards_at(row, rank)?.then_some(so_far.unwrap_or(UNSHARDED)))
    }

    /// The shard of a new message at a rank.
    pub(super) fn new_shard_at(&mut self, row: &Row, rank: u64, lot: Option<&Lot>) -> Result<Option<u16>, Error> {
        if !self.has_shards_at(row, rank)? {
            return Ok(None);
        }
        lot.map_or(Ok(ANY_SHARD), |lot| self.shortest(row.number, lot)).map(Some)
    }

    fn has_shards_at(&mut self, row: &Row, rank: u64) -> Result<bool, Error> {
        let state = self.state(row.number)?;
        Ok(state.is_fair(&row.policy) && rank > state.boundary)
    }

    /// Of a lot's candidates the one that has the fewest messages to give, the first of those; no others are looked at if
    /// one has none.
    fn shortest(&mut self, number: u64, lot: &Lot) -> Result<u16, Error> {
        let mut shortest = (u64::MAX, ANY_SHARD);
        for shard in lot.candidates().map(|shard| shard.number()) {
            let length = self.tally(number, shard)?.counts.length();
            if length < shortest.0 {
                shortest = (length, shard);
            }
            if length == 0 {
                break;
            }
        }
        Ok(shortest.1)
    }

    /// Notes that a message has come to a located.
    pub(super) fn enter_shard(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        let Some(shard) = located.shard else {
            return Ok(());
        };
        if located.set == Part::Ready {
            self.ahead.disturb(number, shard, located.key());
            if self.tally(number, shard)?.has_passed(located.key()) {
                self.clear_passed(number, shard)?;
            }
            self.put(&keys::of_shard(number, Part::Turn, shard, located.key()), &located.encode_entry())?;
        }
        self.change_tally(number, shard, |tally| *tally.counts.of(located.set) += 1)
    }

    /// Notes that a message has left a located.
    pub(super) fn leave_shard(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        let Some(shard) = located.shard else {
            return Ok(());
        };
        if located.set == Part::Ready && !self.tally(number, shard)?.has_passed(located.key()) {
            self.ahead.disturb(number, shard, located.key());
            if !self.take(&keys::of_shard(number, Part::Turn, shard, located.key()))? {
                return Err(damaged("the turn of a message"));
            }
        }
        self.change_tally(number, shard, |tally| {
            let count = tally.counts.of(located.set);
            *count = count.saturating_sub(1);
        })
    }

    /// Notes that the first message of a line is about to leave it.
    pub(super) fn pass(&mut self, number: u64, shard: u16, key: &Key) -> Result<(), Error> {
        self.ahead.pass(number, shard);
        self.change_tally(number, shard, |tally| {
            tally.passed += 1;
            tally.passed_to = *key;
        })
    }

    /// Writes what was counted of a fair queue.
    pub(super) fn put_fair(&mut self, number: u64, fair: Fair) -> Result<(), Error> {
        self.put_blocks(number, fair.blocks)?;
        if let Some(tenants) = &fair.tenants {
            self.put(&keys::part(number, Part::Tenants), &tenants.encode())?;
        }
        Ok(())
    }
}

impl<T: Table> View<T> {
    /// What the shards of a queue hold, and what has none.
    pub(super) fn details(&self, row: &Row, state: &State, now_us: u64) -> Result<Details, Error> {
        let is_fair = state.is_fair(&row.policy);
        let mut details = Details::default();
        let mut rest = Counts { free: state.in_set(Part::Ready), delayed: state.delayed, in_flight: state.in_flight };
        let boundary = if is_fair { state.boundary } else { u64::MAX };
        let mut oldest = self.first_old(row.number, 0, boundary)?;
        for (position, tally) in self.tallies(row.number)? {
            let first = self.line(row.number, position, tally)?.next().transpose()?;
            match Shard::new(position) {
                Some(shard) => {
                    details.shards.push((shard, holding(tally.counts, first, now_us)));
                    rest = rest.without(tally.counts);
                }
                None => oldest = oldest.or(first),
            }
        }
        if is_fair {
            details.tenants = self.tenants(row.number)?.shares(now_us);
        }
        details.unsharded = holding(rest, oldest, now_us);
        Ok(details)
    }
}

/// Counts as they are shown, of messages of which this is the oldest that is free.
fn holding(counts: Counts, oldest: Option<Located>, now_us: u64) -> Holding {
    Holding {
        available: counts.free,
        delayed: counts.delayed,
        claimed: counts.in_flight,
        oldest_age_s: oldest.map(|located| now_us.saturating_sub(rank_of(located.key())) / 1_000_000),
    }
}
