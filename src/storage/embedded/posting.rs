//! Gives new messages their places in the feed and stores them: see `scripts/shared/posting.lua`.
//!
//! A message that is posted without delay is visible at once. One with a delay stands among the delayed at the rank at
//! which it is due. What is visible must never have something undue before it, so a post whose ranks would
//! reach that far waits too, behind it: as a rule for microseconds.

use super::holds::Hold;
use super::keys::{Key, Part};
use super::places::Place;
use super::writing::Writing;
use crate::storage::Error;
use crate::storage::key::{key, rank_of};

/// How many gaps between delayed messages are tried for a place in which a post is in one piece.
const GAPS_TRIED: usize = 16;
/// Later posts wait behind one that waits no longer than that, and not if it waits for a clock that has
/// stepped back.
const WAITED_FOR_US: u64 = 1_000_000;

/// A message to be stored.
pub(super) struct NewRecord {
    pub(super) nonce: [u8; 5],
    pub(super) delay_s: u32,
    pub(super) record: Vec<u8>,
    pub(super) end_s: u64,
    /// What a dead letter brings along.
    pub(super) hold: Option<Hold>,
}

impl Writing<'_> {
    /// Posts messages; their keys. Those of one delay are next to each other.
    pub(super) fn post(&mut self, number: u64, now_us: u64, messages: &[NewRecord]) -> Result<Vec<Key>, Error> {
        let mut groups: Vec<(u32, Vec<usize>)> = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            match groups.iter_mut().find(|(delay_s, _)| *delay_s == message.delay_s) {
                Some((_, group)) => group.push(place),
                None => groups.push((message.delay_s, vec![place])),
            }
        }
        let mut keys = vec![Key::default(); messages.len()];
        for (delay_s, group) in groups {
            let (ranks, set) = self.places(number, now_us, group.len() as u64, delay_s)?;
            for (place, rank) in group.into_iter().zip(ranks) {
                let message = &messages[place];
                keys[place] = key(rank, message.nonce);
                let at = Place { key: keys[place], set, hold: message.hold };
                self.add(number, &at, &message.record, message.end_s)?;
            }
        }
        Ok(keys)
    }

    /// Ranks for so many messages of one delay, and the set that they belong to.
    fn places(&mut self, number: u64, now_us: u64, count: u64, delay_s: u32) -> Result<(Vec<u64>, Part), Error> {
        let state = self.state(number)?;
        let mut rank = state.next_rank(now_us);
        let is_clear = state.delayed == 0;
        let waiting = if is_clear { 0 } else { state.waiting };
        let is_queued = waiting >= rank && waiting <= now_us + WAITED_FOR_US;
        if is_queued {
            rank = waiting + 1;
        }
        if delay_s > 0 {
            return Ok((self.free_ranks(number, rank + u64::from(delay_s) * 1_000_000, count)?, Part::Delayed));
        }
        if is_clear || !is_queued && self.room_at(number, rank, count)? == count {
            self.count(number, |state| state.last = rank + count - 1)?;
            return Ok(((rank..rank + count).collect(), Part::Ready));
        }
        let ranks = self.free_ranks(number, rank, count)?;
        self.count(number, |state| state.waiting = ranks.last().copied().unwrap_or(state.waiting))?;
        Ok((ranks, Part::Delayed))
    }

    /// Free ranks for so many messages, from this one on: next to each other if there is room for that near
    /// by, else in order.
    fn free_ranks(&self, number: u64, from: u64, count: u64) -> Result<Vec<u64>, Error> {
        let first = self.next_free(number, from)?;
        let mut rank = first;
        let mut room = self.room_at(number, rank, count)?;
        for _ in 0..GAPS_TRIED {
            if room == count {
                return Ok((rank..rank + count).collect());
            }
            rank = self.next_free(number, rank + room)?;
            room = self.room_at(number, rank, count)?;
        }
        let mut ranks = Vec::new();
        rank = first;
        loop {
            let wanted = count - ranks.len() as u64;
            let room = self.room_at(number, rank, wanted)?;
            ranks.extend(rank..rank + room);
            if room == wanted {
                return Ok(ranks);
            }
            rank = self.next_free(number, rank + room)?;
        }
    }

    /// The first rank from this one on that no delayed message has.
    fn next_free(&self, number: u64, from: u64) -> Result<u64, Error> {
        let mut free = from;
        for place in self.view.places(number, Part::Delayed, from)? {
            if rank_of(&place?.key) > free {
                break;
            }
            free += 1;
        }
        Ok(free)
    }

    /// The first rank from this one on that a delayed message has.
    fn next_taken(&self, number: u64, from: u64) -> Result<Option<u64>, Error> {
        let next = self.view.places(number, Part::Delayed, from)?.next().transpose()?;
        Ok(next.map(|next| rank_of(&next.key)))
    }

    /// How many ranks are free from this one on, as far as that matters.
    fn room_at(&self, number: u64, rank: u64, wanted: u64) -> Result<u64, Error> {
        let next_taken = self.next_taken(number, rank)?;
        Ok(next_taken.map_or(wanted, |next_taken| (next_taken - rank).min(wanted)))
    }
}
