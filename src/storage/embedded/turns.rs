//! Turns: what is next in a fair queue. Its shards, and behind them the messages without one, have a turn each, round
//! and round, from behind the one that had the last. Only those that have something to give are looked at, however many
//! there are.

use std::collections::VecDeque;
use std::ops::{Bound, RangeInclusive};

use bytes::Bytes;

use super::failure::damaged;
use super::holds::Hold;
use super::keys::{self, Part, Slice, Table};
use super::places::{Found, Place, Places};
use super::shards::UNSHARDED;
use super::state::{Row, State};
use super::tallies::Tally;
use super::view::{Room, View};
use super::writing::Writing;
use crate::domain::Shard;
use crate::storage::key::rank_of;
use crate::storage::{Error, PREFERRED_IN_A_ROW_MAX};

/// The free messages that have their turns at one position, oldest first.
pub(super) struct Line<'a> {
    /// Those of a queue that was not fair yet, which come first.
    old: Option<Old<'a>>,
    rest: redb::Range<'a, Slice, Slice>,
}

/// The free messages up to a rank.
struct Old<'a> {
    places: Places<'a>,
    boundary: u64,
}

impl Old<'_> {
    fn next(&mut self) -> Result<Option<Place>, Error> {
        let next = self.places.next().transpose()?;
        Ok(next.filter(|place| rank_of(&place.key) <= self.boundary))
    }
}

impl Line<'_> {
    fn next_place(&mut self) -> Result<Option<Place>, Error> {
        if let Some(old) = &mut self.old {
            if let Some(place) = old.next()? {
                return Ok(Some(place));
            }
            self.old = None;
        }
        let Some(entry) = self.rest.next() else {
            return Ok(None);
        };
        let (turn, hold) = entry?;
        let read = || {
            let (shard, key) = keys::shard_and_rest(turn.value())?;
            let hold = Hold::stored(hold.value()).ok()?;
            Some(Place { key: key.try_into().ok()?, set: Part::Ready, hold, shard: Some(shard) })
        };
        read().map(Some).ok_or_else(|| damaged("a turn"))
    }
}

impl Iterator for Line<'_> {
    type Item = Result<Place, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_place().transpose()
    }
}

impl<T: Table> View<T> {
    /// The line of a position, of which this is counted. Messages up to the boundary have no shard.
    pub(super) fn line(&self, number: u64, boundary: u64, position: u16, tally: Tally) -> Result<Line<'_>, Error> {
        let from = keys::of_shard(number, Part::Turn, position, &tally.passed_to);
        let to = keys::of_shard(number, Part::Turn, position + 1, &[]);
        let rest = self.contents.range::<&[u8]>((Bound::Excluded(&*from), Bound::Excluded(&*to)))?;
        let old = if position == UNSHARDED { Some(self.old(number, boundary)?) } else { None };
        Ok(Line { old, rest })
    }

    fn old(&self, number: u64, boundary: u64) -> Result<Old<'_>, Error> {
        Ok(Old { places: self.places(number, Part::Ready, 0)?, boundary })
    }

    /// Up to so many messages of these lines, one of each in turn, as many as fit into one answer.
    fn take_turns(&self, number: u64, mut lines: VecDeque<Line<'_>>, limit: usize) -> Result<Vec<Found>, Error> {
        let (mut fitting, mut room) = (Vec::new(), Room::default());
        while fitting.len() < limit
            && let Some(mut line) = lines.pop_front()
        {
            let Some(place) = line.next_place()? else {
                continue;
            };
            let record = self.contents.get(&keys::of_message(number, Part::Message, &place.key)[..])?;
            let record = record.ok_or_else(|| damaged("a message"))?;
            if !room.takes(record.value().len()) {
                break;
            }
            fitting.push(Found { place, record: Bytes::copy_from_slice(record.value()) });
            lines.push_back(line);
        }
        Ok(fitting)
    }
}

impl Writing<'_> {
    /// The free messages that are next, as many as fit into one answer: they are about to be given out, so in a fair
    /// queue they have had their turns.
    pub(super) fn next_messages(&mut self, row: &Row, limit: usize, prefer: &[Shard]) -> Result<Vec<Found>, Error> {
        let (number, state) = (row.number, self.state(row.number)?);
        if !state.is_fair(&row.policy) {
            return self.view.free(number, limit);
        }
        if state.in_set(Part::Ready) == 0 {
            return Ok(Vec::new());
        }
        if state.passes < PREFERRED_IN_A_ROW_MAX {
            let positions = self.preferred_positions(number, &state, prefer)?;
            if !positions.is_empty() {
                let next = self.hand_out(number, &state, &positions, limit)?;
                self.count(number, |state| state.passes += 1)?;
                return Ok(next);
            }
        }
        let positions = self.positions_in_turn(number, &state, limit)?;
        let next = self.hand_out(number, &state, &positions, limit)?;
        if let Some(last) = next.last() {
            let turn = last.place.shard.unwrap_or(UNSHARDED) + 1;
            self.count(number, |state| (state.turn, state.passes) = (turn, 0))?;
        }
        Ok(next)
    }

    /// The positions that have free messages, in the order of their next turns, as many as it takes for so many messages.
    fn positions_in_turn(&mut self, number: u64, state: &State, limit: usize) -> Result<Vec<u16>, Error> {
        let mut positions = Vec::new();
        let before = state.turn.checked_sub(1).map(|before| 0..=before);
        for round in [Some(state.turn..=UNSHARDED), before].into_iter().flatten() {
            let (mut from, last) = round.into_inner();
            while positions.len() < limit
                && from <= last
                && let Some(position) = self.next_position(number, state, from..=last)?
            {
                from = position + 1;
                positions.push(position);
            }
        }
        Ok(positions)
    }

    /// The first of these positions that has a free message.
    fn next_position(
        &mut self,
        number: u64,
        state: &State,
        positions: RangeInclusive<u16>,
    ) -> Result<Option<u16>, Error> {
        let busy = self.next_busy(number, *positions.start(), *positions.end())?;
        if busy.is_none()
            && positions.contains(&UNSHARDED)
            && state.boundary > 0
            && self.view.old(number, state.boundary)?.next()?.is_some()
        {
            return Ok(Some(UNSHARDED));
        }
        Ok(busy)
    }

    /// Those of the shards that have free messages, the one with the oldest first.
    fn preferred_positions(&mut self, number: u64, state: &State, shards: &[Shard]) -> Result<Vec<u16>, Error> {
        let mut heads = Vec::with_capacity(shards.len());
        for shard in shards.iter().map(|shard| shard.number()) {
            let tally = self.tally(number, shard)?;
            if tally.counts.free > 0 {
                let head = self.view.line(number, state.boundary, shard, tally)?.next().transpose()?;
                heads.extend(head.map(|head| (head.key, shard)));
            }
        }
        heads.sort_unstable();
        heads.dedup();
        Ok(heads.into_iter().map(|(_, shard)| shard).collect())
    }

    /// Up to so many messages of these positions, one of each in turn, which have had their turns then.
    fn hand_out(&mut self, number: u64, state: &State, positions: &[u16], limit: usize) -> Result<Vec<Found>, Error> {
        let tallies = positions.iter().map(|position| Ok((*position, self.tally(number, *position)?)));
        let tallies: Vec<_> = tallies.collect::<Result<_, Error>>()?;
        let lines =
            tallies.into_iter().map(|(position, tally)| self.view.line(number, state.boundary, position, tally));
        let next = self.view.take_turns(number, lines.collect::<Result<_, _>>()?, limit)?;
        for found in &next {
            self.pass(number, &found.place)?;
        }
        Ok(next)
    }
}
