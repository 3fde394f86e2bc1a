//! The shards of a fair queue: which of them a message has, and what each holds.
//!
//! A queue that has become fair holds messages that have none, up to the *boundary*: the last rank that was visible
//! then. What comes behind it has one, and keeps it. What was posted before and becomes free only then has
//! [`UNSHARDED`]: so all that is free behind the boundary has a turn, and no message is looked at to find the next.

use std::collections::HashMap;

use bytes::{Buf, BufMut};

use super::failure::damaged;
use super::keys::{self, Part, Table};
use super::places::Place;
use super::state::{Row, State};
use super::tenants::Tenants;
use super::turns::Line;
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
const COUNTS_BYTES: usize = 24;

/// How many messages of a shard are in each set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) free: u64,
    pub(super) delayed: u64,
    pub(super) held: u64,
}

/// What a transaction has counted of a fair queue.
#[derive(Default)]
pub(super) struct Fair {
    shards: HashMap<u16, Counted<Counts>>,
    /// Only if it has changed.
    pub(super) tenants: Option<Tenants>,
}

impl Counts {
    /// How many there are to give, now or later.
    fn length(self) -> u64 {
        self.free + self.delayed
    }

    pub(super) fn of(&mut self, set: Part) -> &mut u64 {
        match set {
            Part::Held => &mut self.held,
            Part::Delayed => &mut self.delayed,
            _ => &mut self.free,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            free: self.free.saturating_sub(other.free),
            delayed: self.delayed.saturating_sub(other.delayed),
            held: self.held.saturating_sub(other.held),
        }
    }

    /// These counts as they are shown, of messages that wait in this line.
    fn holding(self, line: Option<&Line<'_>>, now_us: u64) -> Holding {
        let age_us = |line: &Line<'_>| now_us.saturating_sub(rank_of(&line.head));
        Holding {
            available: self.free,
            delayed: self.delayed,
            claimed: self.held,
            oldest_age_s: line.map(|line| age_us(line) / 1_000_000),
        }
    }

    fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(COUNTS_BYTES);
        bytes.put_u64(self.free);
        bytes.put_u64(self.delayed);
        bytes.put_u64(self.held);
        bytes
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != COUNTS_BYTES {
            return Err(damaged("what a shard holds"));
        }
        Ok(Self { free: bytes.get_u64(), delayed: bytes.get_u64(), held: bytes.get_u64() })
    }
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

    /// Of a lot's shards the one that has the fewest messages to give, the first of those; no others are looked at if
    /// one has none.
    fn shortest(&mut self, number: u64, lot: &Lot) -> Result<u16, Error> {
        let mut shortest = (u64::MAX, ANY_SHARD);
        for shard in lot.shards.iter().map(|shard| shard.number()) {
            let length = self.counts(number, shard)?.length();
            if length < shortest.0 {
                shortest = (length, shard);
            }
            if length == 0 {
                break;
            }
        }
        Ok(shortest.1)
    }

    /// Notes that a message has come to a place.
    pub(super) fn enter_shard(&mut self, number: u64, place: &Place) -> Result<(), Error> {
        let Some(shard) = place.shard else {
            return Ok(());
        };
        if place.set == Part::Ready {
            self.put(&keys::of_shard(number, Part::Turn, shard, &place.key), &[])?;
        }
        self.count_shard(number, shard, |counts| *counts.of(place.set) += 1)
    }

    /// Notes that a message has left a place.
    pub(super) fn leave_shard(&mut self, number: u64, place: &Place) -> Result<(), Error> {
        let Some(shard) = place.shard else {
            return Ok(());
        };
        if place.set == Part::Ready && !self.take(&keys::of_shard(number, Part::Turn, shard, &place.key))? {
            return Err(damaged("the turn of a message"));
        }
        self.count_shard(number, shard, |counts| {
            let count = counts.of(place.set);
            *count = count.saturating_sub(1);
        })
    }

    fn counts(&mut self, number: u64, shard: u16) -> Result<Counts, Error> {
        if let Some(counted) = self.fair.get(&number).and_then(|fair| fair.shards.get(&shard)) {
            return Ok(counted.value);
        }
        let counts = self.view.counts(number, shard)?;
        self.keep_counts(number, shard, Counted { value: counts, is_changed: false });
        Ok(counts)
    }

    fn count_shard(&mut self, number: u64, shard: u16, change: impl FnOnce(&mut Counts)) -> Result<(), Error> {
        let mut counts = self.counts(number, shard)?;
        change(&mut counts);
        self.keep_counts(number, shard, Counted { value: counts, is_changed: true });
        Ok(())
    }

    fn keep_counts(&mut self, number: u64, shard: u16, counted: Counted<Counts>) {
        self.fair.entry(number).or_default().shards.insert(shard, counted);
    }

    /// Writes what was counted of a fair queue.
    pub(super) fn put_fair(&mut self, number: u64, fair: &Fair) -> Result<(), Error> {
        for (shard, counted) in fair.shards.iter().filter(|(_, counted)| counted.is_changed) {
            let key = keys::of_shard(number, Part::Shard, *shard, &[]);
            if counted.value == Counts::default() {
                self.take(&key)?;
            } else {
                self.put(&key, &counted.value.encode())?;
            }
        }
        if let Some(tenants) = &fair.tenants {
            self.put(&keys::part(number, Part::Tenants), &tenants.encode())?;
        }
        Ok(())
    }
}

impl<T: Table> View<T> {
    fn counts(&self, number: u64, shard: u16) -> Result<Counts, Error> {
        match self.contents.get(&*keys::of_shard(number, Part::Shard, shard, &[]))? {
            Some(counts) => Counts::decode(counts.value()),
            None => Ok(Counts::default()),
        }
    }

    /// What each shard holds, of those that hold anything.
    pub(super) fn all_counts(&self, number: u64) -> Result<Vec<(u16, Counts)>, Error> {
        let (from, to) = (keys::part(number, Part::Shard), keys::part(number, Part::Tenants));
        let read = self.contents.range::<&[u8]>(&*from..&*to)?.map(|entry| {
            let (key, counts) = entry?;
            let (shard, _) = keys::shard_and_rest(key.value()).ok_or_else(|| damaged("a shard"))?;
            Ok((shard, Counts::decode(counts.value())?))
        });
        read.collect()
    }

    /// What the shards of a queue hold, and what has none.
    pub(super) fn details(&self, row: &Row, state: &State, now_us: u64) -> Result<Details, Error> {
        let is_fair = state.is_fair(&row.policy);
        let mut details = Details::default();
        let mut rest = Counts { free: state.in_set(Part::Ready), delayed: state.delayed, held: state.held };
        if is_fair {
            for (number, counts) in self.all_counts(row.number)? {
                if let Some(shard) = Shard::new(number) {
                    let line = self.first_line(row.number, state.boundary, number..=number)?;
                    details.shards.push((shard, counts.holding(line.as_ref(), now_us)));
                    rest = rest.without(counts);
                }
            }
            details.tenants = self.tenants(row.number)?.shares(now_us);
        }
        let boundary = if is_fair { state.boundary } else { u64::MAX };
        let line = self.first_line(row.number, boundary, UNSHARDED..=UNSHARDED)?;
        details.unsharded = rest.holding(line.as_ref(), now_us);
        Ok(details)
    }
}
