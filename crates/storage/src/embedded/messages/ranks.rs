//! Assigns ranks to new messages and stores them: see `scripts/shared/posting.lua`.
//!
//! A message without delay is visible at once. A delayed message is in the set `DELAYED`, at the
//! rank that is its due time in the queue's logical time (see `rows/state.rs`). No delayed message
//! may come before a visible one. So if the ranks of a post without delay would reach a delayed
//! message, the post takes ranks after it and raises the logical time to them. This makes the
//! delayed message due now, microseconds before its time.

use std::sync::Arc;

use bytes::Bytes;

use crate::Error;
use crate::embedded::rows::keys::{Key, Part};
use crate::embedded::rows::located::Located;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::transaction::write::WriteTransaction;
use crate::entry::{Delivery, Entry, SizeClass};
use crate::key::{key, rank_of};
use sukkal_domain::ShardAssignment;
use sukkal_domain::client::Poster;

/// Maximum number of gaps between delayed messages that are tried to keep a post in one piece.
const GAPS_TRIED: usize = 16;

/// A message to store.
pub(crate) struct NewRecord {
    pub(crate) nonce: [u8; 5],
    pub(crate) delay_s: u32,
    pub(crate) record: Bytes,
    pub(crate) end_s: u32,
    pub(crate) poster: Poster,
    pub(crate) size: SizeClass,
    /// The delivery state that a dead letter keeps.
    pub(crate) delivery: Option<Delivery>,
    /// In a fair queue, the shards of the message's tenant.
    pub(crate) assignment: Option<Arc<ShardAssignment>>,
}

impl WriteTransaction<'_> {
    /// Stores messages and returns their keys. Messages with the same delay get adjacent ranks,
    /// where there is a gap for them.
    pub(crate) fn post(&mut self, row: &QueueRow, now_us: u64, messages: &[NewRecord]) -> Result<Vec<Key>, Error> {
        let number = row.number;
        self.update_logical_time(number, now_us)?;
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
                let shard = self.new_shard_at(row, rank, message.assignment.as_deref())?;
                let entry = Entry::fresh(keys[at], message.end_s, message.poster, message.size);
                let entry = Entry { delivery: message.delivery, ..entry };
                self.add(number, &Located { entry, set, shard }, &message.record)?;
            }
        }
        Ok(keys)
    }

    /// Returns ranks for messages without delay.
    fn visible_ranks(&mut self, number: u64, now_us: u64, count: u64) -> Result<Vec<u64>, Error> {
        let state = self.state(number)?;
        let first = state.next_rank(now_us);
        let ranks = self.free_ranks(number, first, count)?;
        let last = ranks.last().copied().unwrap_or(first);
        if state.delayed > 0 && self.next_taken(number, first)?.is_some_and(|taken| taken < last) {
            self.raise_logical_time(number, now_us, last)?;
        }
        self.change_state(number, |state| state.last = last)?;
        Ok(ranks)
    }

    /// Returns ranks for messages with the same delay, from their due time on.
    fn delayed_ranks(&mut self, number: u64, now_us: u64, count: u64, delay_s: u32) -> Result<Vec<u64>, Error> {
        let state = self.state(number)?;
        let logical_us = state.next_rank(now_us);
        self.raise_logical_time(number, now_us, logical_us)?;
        self.free_ranks(number, logical_us + u64::from(delay_s) * 1_000_000, count)
    }

    /// Returns free ranks from this one on: adjacent ones if there is a long enough gap nearby,
    /// else the next ones in order.
    fn free_ranks(&mut self, number: u64, from: u64, count: u64) -> Result<Vec<u64>, Error> {
        if self.state(number)?.delayed == 0 {
            return Ok((from..from + count).collect());
        }
        let first = self.next_free(number, from)?;
        let mut rank = first;
        let mut run = self.free_run_at(number, rank, count)?;
        for _ in 0..GAPS_TRIED {
            if run == count {
                return Ok((rank..rank + count).collect());
            }
            rank = self.next_free(number, rank + run)?;
            run = self.free_run_at(number, rank, count)?;
        }
        let mut ranks = Vec::new();
        rank = first;
        loop {
            let wanted = count - ranks.len() as u64;
            let run = self.free_run_at(number, rank, wanted)?;
            ranks.extend(rank..rank + run);
            if run == wanted {
                return Ok(ranks);
            }
            rank = self.next_free(number, rank + run)?;
        }
    }

    /// Returns a rank that no delayed message has: `from`, or one after the run of taken ranks that
    /// begins there.
    fn next_free(&self, number: u64, from: u64) -> Result<u64, Error> {
        free_rank_after(from, |rank| self.next_taken(number, rank))
    }

    /// Returns the first rank, from this one on, that a delayed message has.
    fn next_taken(&self, number: u64, from: u64) -> Result<Option<u64>, Error> {
        let next = self.view.entries(number, Part::Delayed, from)?.next().transpose()?;
        Ok(next.map(|next| rank_of(next.key())))
    }

    /// Returns how many ranks are free from this one on, at most `wanted`.
    fn free_run_at(&self, number: u64, rank: u64, wanted: u64) -> Result<u64, Error> {
        let next_taken = self.next_taken(number, rank)?;
        Ok(next_taken.map_or(wanted, |next_taken| (next_taken - rank).min(wanted)))
    }
}

/// Returns a free rank: `from`, or one that follows a taken rank. The search doubles its steps and
/// then halves them, because a run of taken ranks may be as long as the backlog. In a run without
/// gaps it finds the first free rank, so later posts do not come before earlier ones.
fn free_rank_after<E>(from: u64, mut next_taken: impl FnMut(u64) -> Result<Option<u64>, E>) -> Result<u64, E> {
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

    /// Returns the free rank found from 10 on, and the number of queries.
    fn free(taken: impl IntoIterator<Item = u64>) -> (u64, u32) {
        let (taken, mut queries) = (taken.into_iter().collect::<BTreeSet<u64>>(), 0);
        let found = free_rank_after(10, |rank| {
            queries += 1;
            Ok::<_, Infallible>(taken.range(rank..).next().copied())
        });
        (found.unwrap(), queries)
    }

    #[test]
    fn a_free_rank_is_the_first_one_after_a_run() {
        assert_eq!(free([]).0, 10);
        assert_eq!(free([9, 11]).0, 10);
        for length in 1..100 {
            assert_eq!(free(10..10 + length).0, 10 + length);
        }
    }

    #[test]
    fn in_a_run_with_gaps_the_rank_before_a_free_rank_is_taken() {
        for gap in 11..60 {
            let taken = (10..60).filter(|rank| *rank != gap).chain(64..90);
            let (found, _) = free(taken.clone());
            let taken: BTreeSet<u64> = taken.collect();
            assert!(!taken.contains(&found) && taken.contains(&(found - 1)), "{gap}: {found}");
        }
    }

    #[test]
    fn later_posts_get_higher_ranks_than_earlier_ones() {
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
    fn the_number_of_queries_grows_with_the_logarithm_of_the_run() {
        let (found, queries) = free(10..200_010);

        assert_eq!(found, 200_010);
        assert!(queries < 50, "{queries}");
    }
}
