//! Gives new messages their ranks and stores them: see `scripts/shared/posting.lua`.
//!
//! A message that is posted without delay is visible at once. A delayed one stands in the set `DELAYED` at the rank at
//! which it is due, in the queue's logical time (see `state.rs`). A visible message must never have one before it that
//! is not due. So a post without delay whose ranks would reach a delayed message takes ranks behind it and raises the
//! logical time to them, which makes that message due now: microseconds before its time.

use std::sync::Arc;

use bytes::Bytes;

use super::keys::{Key, Part};
use super::located::Located;
use super::state::Row;
use super::writing::Writing;
use crate::domain::Lot;
use crate::domain::client::Poster;
use crate::storage::Error;
use crate::storage::entry::{Delivery, Entry, SizeClass};
use crate::storage::key::{key, rank_of};

/// How many gaps between delayed messages are tried for one in which a post is in one piece.
const GAPS_TRIED: usize = 16;

/// A message to be stored.
pub(super) struct NewRecord {
    pub(super) nonce: [u8; 5],
    pub(super) delay_s: u32,
    pub(super) record: Bytes,
    pub(super) end_s: u32,
    pub(super) poster: Poster,
    pub(super) size: SizeClass,
    /// The delivery state that a dead letter brings along.
    pub(super) delivery: Option<Delivery>,
    /// In a fair queue, the shards of the tenant that the message is for.
    pub(super) lot: Option<Arc<Lot>>,
}

impl Writing<'_> {
    /// Posts messages; their keys. Those of one delay are next to each other.
    pub(super) fn post(&mut self, row: &Row, now_us: u64, messages: &[NewRecord]) -> Result<Vec<Key>, Error> {
        let number = row.number;
        self.keep_logical_time(number, now_us)?;
        let mut groups: Vec<(u32, Vec<usize>)> = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            match groups.iter_mut().find(|(delay_s, _)| *delay_s == message.delay_s) {
                Some((_, group)) => group.push(at),
                None => groups.push((message.delay_s, vec![at])),
            }
        }
        let mut keys = vec![Key::default(); messages.len()];
        for (delay_s, group) in groups {
            let count = group.len() as u64;
            let (ranks, set) = match delay_s {
                0 => (self.visible_ranks(number, now_us, count)?, Part::Ready),
                delay_s => (self.delayed_ranks(number, now_us, count, delay_s)?, Part::Delayed),
            };
            for (at, rank) in group.into_iter().zip(ranks) {
                let message = &messages[at];
                keys[at] = key(rank, message.nonce);
                let shard = self.new_shard_at(row, rank, message.lot.as_deref())?;
                let entry = Entry::fresh(keys[at], message.end_s, message.poster, message.size);
                let entry = Entry { delivery: message.delivery, ..entry };
                self.add(number, &Located { entry, set, shard }, &message.record)?;
            }
        }
        Ok(keys)
    }

    /// Ranks for so many messages without delay.
    fn visible_ranks(&mut self, number: u64, now_us: u64, count: u64) -> Result<Vec<u64>, Error> {
        let state = self.state(number)?;
        let first = state.next_rank(now_us);
        let ranks = self.free_ranks(number, first, count)?;
        let last = ranks.last().copied().unwrap_or(first);
        if state.delayed > 0 && self.next_taken(number, first)?.is_some_and(|taken| taken < last) {
            self.raise_logical_time(number, now_us, last)?;
        }
        self.count(number, |state| state.last = last)?;
        Ok(ranks)
    }

    /// Ranks for so many messages of one delay: where they are due.
    fn delayed_ranks(&mut self, number: u64, now_us: u64, count: u64, delay_s: u32) -> Result<Vec<u64>, Error> {
        let state = self.state(number)?;
        let logical_us = state.next_rank(now_us);
        self.raise_logical_time(number, now_us, logical_us)?;
        self.free_ranks(number, logical_us + u64::from(delay_s) * 1_000_000, count)
    }

    /// Free ranks for so many messages, from this one on: next to each other if there is room for that near
    /// by, else in order.
    fn free_ranks(&mut self, number: u64, from: u64, count: u64) -> Result<Vec<u64>, Error> {
        if self.state(number)?.delayed == 0 {
            return Ok((from..from + count).collect());
        }
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

    /// A rank that no delayed message has: this one, or one behind a run of those that begins here.
    fn next_free(&self, number: u64, from: u64) -> Result<u64, Error> {
        free_behind(from, |rank| self.next_taken(number, rank))
    }

    /// The first rank from this one on that a delayed message has.
    fn next_taken(&self, number: u64, from: u64) -> Result<Option<u64>, Error> {
        let next = self.view.entries(number, Part::Delayed, from)?.next().transpose()?;
        Ok(next.map(|next| rank_of(next.key())))
    }

    /// How many ranks are free from this one on, as far as that matters.
    fn room_at(&self, number: u64, rank: u64, wanted: u64) -> Result<u64, Error> {
        let next_taken = self.next_taken(number, rank)?;
        Ok(next_taken.map_or(wanted, |next_taken| (next_taken - rank).min(wanted)))
    }
}

/// A free rank: this one, or one with a taken one before it. In steps that double, and then halve, because a run may be
/// as long as the backlog; so it is the first one if the run has no gaps, and later posts do not come before earlier ones.
fn free_behind<E>(from: u64, mut next_taken: impl FnMut(u64) -> Result<Option<u64>, E>) -> Result<u64, E> {
    let mut is_taken = |rank| Ok::<_, E>(next_taken(rank)? == Some(rank));
    if !is_taken(from)? {
        return Ok(from);
    }
    let (mut taken, mut free) = (from, from + 1);
    while is_taken(free)? {
        (taken, free) = (free, free + 2 * (free - from));
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        *(if is_taken(middle)? { &mut taken } else { &mut free }) = middle;
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use super::*;

    /// The free rank from 10 on beside those that are taken, and after how many looks.
    fn free(taken: impl IntoIterator<Item = u64>) -> (u64, u32) {
        let (taken, mut looks) = (taken.into_iter().collect::<BTreeSet<u64>>(), 0);
        let found = free_behind(10, |rank| {
            looks += 1;
            Ok::<_, Infallible>(taken.range(rank..).next().copied())
        });
        (found.unwrap(), looks)
    }

    #[test]
    fn a_free_rank_is_the_first_behind_a_run() {
        assert_eq!(free([]).0, 10);
        assert_eq!(free([9, 11]).0, 10);
        for length in 1..100 {
            assert_eq!(free(10..10 + length).0, 10 + length);
        }
    }

    #[test]
    fn a_free_rank_behind_a_run_with_gaps_is_free_and_behind_one_that_is_taken() {
        for gap in 11..60 {
            let taken = (10..60).filter(|rank| *rank != gap).chain(64..90);
            let (found, _) = free(taken.clone());
            let taken: BTreeSet<u64> = taken.collect();
            assert!(!taken.contains(&found) && taken.contains(&(found - 1)), "{gap}: {found}");
        }
    }

    #[test]
    fn later_posts_stand_behind_earlier_ones() {
        let mut taken: BTreeSet<u64> = (10..40).filter(|rank| rank % 7 != 0).collect();
        let mut last = 0;
        for _ in 0..100 {
            let (found, _) = free(taken.iter().copied());
            assert!(found > last, "{found} after {last}");
            last = found;
            taken.insert(found);
        }
    }

    #[test]
    fn a_long_run_costs_no_more_looks_than_its_length_has_digits() {
        let (found, looks) = free(10..200_010);

        assert_eq!(found, 200_010);
        assert!(looks < 50, "{looks}");
    }
}
