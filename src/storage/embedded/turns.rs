//! Turns: what is next in a fair queue. Its shards, and behind them the messages without one, have a turn each, round
//! and round, from behind the one that had the last. Only those that have something to give are looked at, however many
//! there are.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use bytes::Bytes;

use super::failure::damaged;
use super::keys::{self, Key, Part, Slice, Table};
use super::places::{Found, Places};
use super::shards::UNSHARDED;
use super::state::{Row, State};
use super::view::{Room, View};
use super::writing::Writing;
use crate::domain::Shard;
use crate::storage::key::rank_of;
use crate::storage::{Error, PREFERRED_IN_A_ROW_MAX};

/// The free messages that have their turns at one position, oldest first.
pub(super) struct Line<'a> {
    pub(super) head: Key,
    shard: u16,
    /// Those of a queue that was not fair yet, which come first.
    unsharded: Option<Unsharded<'a>>,
    rest: redb::Range<'a, Slice, Slice>,
}

struct Unsharded<'a> {
    places: Places<'a>,
    boundary: u64,
}

impl Unsharded<'_> {
    fn next(&mut self) -> Result<Option<Key>, Error> {
        let next = self.places.next().transpose()?;
        Ok(next.map(|place| place.key).filter(|key| rank_of(key) <= self.boundary))
    }
}

impl Line<'_> {
    /// Goes on to the next message; whether there is one.
    fn advance(&mut self) -> Result<bool, Error> {
        let mut next = None;
        if let Some(unsharded) = &mut self.unsharded {
            next = unsharded.next()?;
        }
        if next.is_none() {
            self.unsharded = None;
            next = next_turn(&mut self.rest)?.filter(|(shard, _)| *shard == self.shard).map(|(_, key)| key);
        }
        self.head = next.unwrap_or(self.head);
        Ok(next.is_some())
    }
}

fn next_turn(turns: &mut redb::Range<'_, Slice, Slice>) -> Result<Option<(u16, Key)>, Error> {
    let Some(entry) = turns.next() else {
        return Ok(None);
    };
    let turn = entry?.0;
    let read = keys::shard_and_rest(turn.value()).and_then(|(shard, key)| Some((shard, key.try_into().ok()?)));
    read.map(Some).ok_or_else(|| damaged("a turn"))
}

impl<T: Table> View<T> {
    /// The first of these positions that has a free message. Messages up to the boundary have no shard.
    pub(super) fn first_line(
        &self,
        number: u64,
        boundary: u64,
        positions: RangeInclusive<u16>,
    ) -> Result<Option<Line<'_>>, Error> {
        let (from, to) = (keys::of_shard(number, Part::Turn, *positions.start(), &[]), keys::part(number, Part::Shard));
        let mut rest = self.contents.range::<&[u8]>(&*from..&*to)?;
        let first = next_turn(&mut rest)?.filter(|(shard, _)| positions.contains(shard));
        if let Some((shard, head)) = first
            && shard < UNSHARDED
        {
            return Ok(Some(Line { head, shard, unsharded: None, rest }));
        }
        if !positions.contains(&UNSHARDED) {
            return Ok(None);
        }
        let sharded = first.map(|(_, key)| key);
        if boundary > 0 {
            let mut unsharded = Unsharded { places: self.places(number, Part::Ready, 0)?, boundary };
            if let Some(head) = unsharded.next()? {
                let from = keys::of_shard(number, Part::Turn, UNSHARDED, &[]);
                let rest = self.contents.range::<&[u8]>(&*from..&*to)?;
                return Ok(Some(Line { head, shard: UNSHARDED, unsharded: Some(unsharded), rest }));
            }
        }
        Ok(sharded.map(|head| Line { head, shard: UNSHARDED, unsharded: None, rest }))
    }

    /// Lines in the order of their next turns, as many as it takes for so many messages.
    fn lines_in_turn(&self, number: u64, state: &State, limit: usize) -> Result<VecDeque<Line<'_>>, Error> {
        let mut lines = VecDeque::new();
        let before = state.turn.checked_sub(1).map(|before| 0..=before);
        for positions in [Some(state.turn..=UNSHARDED), before].into_iter().flatten() {
            let (mut from, to) = positions.into_inner();
            while lines.len() < limit
                && from <= to
                && let Some(line) = self.first_line(number, state.boundary, from..=to)?
            {
                from = line.shard + 1;
                lines.push_back(line);
            }
        }
        Ok(lines)
    }

    /// The lines of those of the shards that have any, the one with the oldest message first.
    fn preferred_lines(&self, number: u64, state: &State, shards: &[Shard]) -> Result<VecDeque<Line<'_>>, Error> {
        let mut numbers: Vec<u16> = shards.iter().map(|shard| shard.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut lines = Vec::with_capacity(numbers.len());
        for shard in numbers {
            lines.extend(self.first_line(number, state.boundary, shard..=shard)?);
        }
        lines.sort_unstable_by_key(|line| line.head);
        Ok(lines.into())
    }

    /// Up to so many messages of these lines, one of each in turn, as many as fit into one answer.
    fn take_turns(&self, number: u64, mut lines: VecDeque<Line<'_>>, limit: usize) -> Result<Vec<Found>, Error> {
        let (mut fitting, mut room) = (Vec::new(), Room::default());
        while fitting.len() < limit
            && let Some(mut line) = lines.pop_front()
        {
            let place = self.place_in(number, Part::Ready, &line.head)?.ok_or_else(|| damaged("a turn"))?;
            let record = self.contents.get(&keys::of_message(number, Part::Message, &line.head)[..])?;
            let record = record.ok_or_else(|| damaged("a message"))?;
            if !room.takes(record.value().len()) {
                break;
            }
            fitting.push(Found { place, record: Bytes::copy_from_slice(record.value()) });
            if line.advance()? {
                lines.push_back(line);
            }
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
            let lines = self.view.preferred_lines(number, &state, prefer)?;
            if !lines.is_empty() {
                let next = self.view.take_turns(number, lines, limit)?;
                self.count(number, |state| state.passes += 1)?;
                return Ok(next);
            }
        }
        let next = self.view.take_turns(number, self.view.lines_in_turn(number, &state, limit)?, limit)?;
        if let Some(last) = next.last() {
            let turn = last.place.shard.unwrap_or(UNSHARDED) + 1;
            self.count(number, |state| (state.turn, state.passes) = (turn, 0))?;
        }
        Ok(next)
    }
}
