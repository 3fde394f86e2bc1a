//! Turns: what is next in a fair queue. Its shards, and behind them the messages without one, have a turn each, round
//! and round, from behind the one that had the last. Only those that have something to give are looked at, however many
//! there are.

use std::collections::VecDeque;
use std::ops::{Bound, RangeInclusive};

use bytes::Bytes;
use redb::ReadableTable;

use super::ahead::READ_AT_ONCE;
use super::failure::damaged;
use super::keys::{self, Part, Slice, Table};
use super::located::{Found, Located};
use super::shards::UNSHARDED;
use super::state::{Row, State};
use super::tallies::Tally;
use super::view::{Room, View};
use super::writing::Writing;
use crate::domain::Shard;
use crate::storage::entry::Entry;
use crate::storage::key::rank_of;
use crate::storage::{Error, PREFERRED_IN_A_ROW_MAX};

/// The free messages of a shard, oldest first.
pub(super) struct Line<'a>(redb::Range<'a, Slice, Slice>);

impl Iterator for Line<'_> {
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
    /// The line of a shard, of which this is counted.
    pub(super) fn line(&self, number: u64, shard: u16, tally: Tally) -> Result<Line<'_>, Error> {
        let from = keys::of_shard(number, Part::Turn, shard, &tally.passed_to);
        let to = keys::of_shard(number, Part::Turn, shard + 1, &[]);
        Ok(Line(self.contents.range::<&[u8]>((Bound::Excluded(&*from), Bound::Excluded(&*to)))?))
    }

    /// The first free message from a rank on that has no shard, because it is not behind the boundary.
    pub(super) fn first_old(&self, number: u64, from: u64, boundary: u64) -> Result<Option<Located>, Error> {
        if boundary < from.max(1) {
            return Ok(None);
        }
        let first = self.entries(number, Part::Ready, from)?.next().transpose()?;
        Ok(first.filter(|located| rank_of(located.key()) <= boundary))
    }
}

impl Writing<'_> {
    /// The free messages that are next, as many as there is room for: they are about to be delivered, so in a fair queue
    /// they have had their turns.
    pub(super) fn next_messages(
        &mut self,
        row: &Row,
        limit: usize,
        prefer: &[Shard],
        room: &mut Room,
    ) -> Result<Vec<Found>, Error> {
        let (number, state) = (row.number, self.state(row.number)?);
        if !state.is_fair(&row.policy) {
            return self.view.free(number, limit, room);
        }
        if state.in_set(Part::Ready) == 0 {
            return Ok(Vec::new());
        }
        if state.passes < PREFERRED_IN_A_ROW_MAX {
            let positions = self.preferred_positions(number, prefer)?;
            if !positions.is_empty() {
                let next = self.hand_out(number, &state, positions, limit, room)?;
                self.count(number, |state| state.passes += u16::from(!next.is_empty()))?;
                return Ok(next);
            }
        }
        let positions = self.positions_in_turn(number, &state, limit)?;
        let next = self.hand_out(number, &state, positions, limit, room)?;
        if let Some(last) = next.last() {
            let turn = last.located.shard.unwrap_or(UNSHARDED) + 1;
            self.count(number, |state| (state.turn, state.passes) = (turn, 0))?;
        }
        Ok(next)
    }

    /// The positions that have free messages, in the order of their next turns, as many as it takes for so many messages.
    fn positions_in_turn(&mut self, number: u64, state: &State, limit: usize) -> Result<VecDeque<u16>, Error> {
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

    /// The first of these positions that has a free message.
    fn next_position(
        &mut self,
        number: u64,
        state: &State,
        positions: RangeInclusive<u16>,
    ) -> Result<Option<u16>, Error> {
        let busy = self.next_busy(number, *positions.start(), *positions.end())?;
        if busy.is_none() && positions.contains(&UNSHARDED) && self.view.first_old(number, 0, state.boundary)?.is_some()
        {
            return Ok(Some(UNSHARDED));
        }
        Ok(busy)
    }

    /// Those of the shards that have free messages, the one with the oldest first.
    fn preferred_positions(&mut self, number: u64, shards: &[Shard]) -> Result<VecDeque<u16>, Error> {
        let mut heads = Vec::with_capacity(shards.len());
        for shard in shards.iter().map(|shard| shard.number()) {
            heads.extend(self.first_of(number, shard)?.map(|head| (*head.key(), shard)));
        }
        heads.sort_unstable();
        heads.dedup();
        Ok(heads.into_iter().map(|(_, shard)| shard).collect())
    }

    /// The first free message of a shard.
    fn first_of(&mut self, number: u64, shard: u16) -> Result<Option<Located>, Error> {
        let known = self.ahead.first(number, shard);
        if known.is_some() {
            return Ok(known);
        }
        let tally = self.tally(number, shard)?;
        if tally.counts.free == 0 {
            return Ok(None);
        }
        let read = self.view.line(number, shard, tally)?.take(READ_AT_ONCE).collect::<Result<VecDeque<_>, _>>()?;
        let first = read.front().copied();
        self.ahead.know(number, shard, read);
        Ok(first)
    }

    /// Up to so many messages of these positions, one of each in turn, as many as there is room for; they have had their
    /// turns then.
    fn hand_out(
        &mut self,
        number: u64,
        state: &State,
        mut positions: VecDeque<u16>,
        limit: usize,
        room: &mut Room,
    ) -> Result<Vec<Found>, Error> {
        let (mut fitting, mut old_from) = (Vec::new(), 0);
        while fitting.len() < limit
            && let Some(position) = positions.pop_front()
        {
            let old = if position == UNSHARDED { self.view.first_old(number, old_from, state.boundary)? } else { None };
            let first = if old.is_some() { old } else { self.first_of(number, position)? };
            let Some(located) = first else {
                continue;
            };
            if !room.takes(&located) {
                break;
            }
            let record = self.view.contents.get(&keys::of_message(number, Part::Message, located.key())[..])?;
            let record = Bytes::copy_from_slice(record.ok_or_else(|| damaged("a message"))?.value());
            fitting.push(Found { located, record });
            match located.shard {
                Some(shard) => self.pass(number, shard, located.key())?,
                None => old_from = rank_of(located.key()) + 1,
            }
            positions.push_back(position);
        }
        Ok(fitting)
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::{MessageId, QueueId};
    use crate::storage::embedded::EmbeddedStore;
    use crate::storage::embedded::check_shards::tests::fair_queue;
    use crate::storage::embedded::failure::damaged;
    use crate::storage::embedded::view::Room;
    use crate::storage::embedded::writer::Step;
    use crate::storage::{ClaimStore, Error, MessageStore, Popped};

    async fn pop(store: &EmbeddedStore, queue: &QueueId) -> Popped {
        store.pop_messages(queue, 1).await.unwrap().remove(0)
    }

    /// The messages of a queue, which are taken out and put back.
    async fn all(store: &EmbeddedStore, queue: &QueueId) -> Vec<MessageId> {
        let popped = store.pop_messages(queue, 20).await.unwrap();
        store.restore_messages(queue, &popped).await.unwrap();
        popped.iter().map(|one| one.message.id).collect()
    }

    #[tokio::test]
    async fn what_was_read_ahead_is_read_again_when_it_has_changed() {
        let store = EmbeddedStore::in_memory().unwrap();
        let (queue, first) = fair_queue(&store, 20).await;
        let ids = all(&store, &queue).await;

        // The next ones are known once this one is taken.
        assert_eq!(pop(&store, &queue).await.message.id, ids[0]);
        store.delete_messages(&queue, &ids[1..3]).await.unwrap();
        let fourth = pop(&store, &queue).await;
        assert_eq!(fourth.message.id, ids[3]);
        assert_eq!(pop(&store, &queue).await.message.id, ids[4]);
        store.restore_messages(&queue, &[fourth]).await.unwrap();
        store.release_claim(&queue, first).await.unwrap();
        assert!(pop(&store, &queue).await.message.id < ids[0]);
        assert_eq!(all(&store, &queue).await, [&ids[3..4], &ids[5..]].concat());
    }

    #[tokio::test]
    async fn what_was_read_ahead_is_forgotten_when_a_transaction_is_given_up() {
        let store = EmbeddedStore::in_memory().unwrap();
        let (queue, _) = fair_queue(&store, 20).await;
        let ids = all(&store, &queue).await;
        pop(&store, &queue).await;

        let of = queue.clone();
        let given_up: Result<(), Error> = store
            .write(0, move |store| {
                let row = store.row(&of)?.expect("it is there");
                assert_eq!(store.next_messages(&row, 5, &[], &mut Room::default())?.len(), 5);
                Err::<Step<()>, _>(damaged("this one"))
            })
            .await;

        assert!(given_up.is_err());
        assert_eq!(all(&store, &queue).await, ids[1..]);
    }
}
