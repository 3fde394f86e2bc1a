//! A transaction that writes: what several operations do to the store.

use std::collections::BTreeMap;

use redb::{ReadableTable, Table, WriteTransaction};

use super::ahead::Ahead;
use super::clock::Clock;
use super::failure::damaged;
use super::keys::{self, CONTENTS, Key, Part, REGISTRY, ROOM, Slice};
use super::located::Located;
use super::settle::SETTLED_PER_TRANSACTION;
use super::shards::Fair;
use super::state::{Row, State};
use super::view::View;
use crate::domain::{QueueId, Rank};
use crate::storage::Error;
use crate::storage::key::rank_of;

/// More than a commit needs for the engine's own records, in bytes.
const COMMIT_BYTES: usize = 250_000;

/// Makes the engine take room from the disk now, where nothing is lost yet, rather than while it commits.
pub(super) fn make_room(transaction: &WriteTransaction) -> Result<(), Error> {
    transaction.open_table(ROOM)?.insert_reserve(&b""[..], COMMIT_BYTES)?;
    transaction.delete_table(ROOM)?;
    Ok(())
}

/// The store, in a transaction that writes. What it counts of queues is kept here until the end.
pub(super) struct Writing<'t> {
    pub(super) view: View<Table<'t, Slice, Slice>>,
    states: BTreeMap<u64, Counted<State>>,
    /// The same of queues that are fair, by the numbers of their contents.
    pub(super) fair: BTreeMap<u64, Fair>,
    /// What was read of their lines before it is needed.
    pub(super) ahead: Ahead,
    /// The queues that were looked at, by the numbers of their contents.
    names: BTreeMap<u64, QueueId>,
    /// How many messages have become free under a number, 0 if something may be due sooner than it was; and the lowest
    /// position of those that did not become available behind all others.
    freed: BTreeMap<u64, (u64, Option<Rank>)>,
    clock: &'t Clock,
    is_changed: bool,
    /// How much more is released or removed in this transaction because it is due.
    settling_left: usize,
}

/// What is to be told once it is committed: so many messages of a queue have become free, and the lowest position of
/// those among them that readers may have passed.
pub(super) type News = Vec<(QueueId, u64, Option<Rank>)>;

/// What is stored at the end if it has changed.
pub(super) struct Counted<T> {
    pub(super) value: T,
    pub(super) is_changed: bool,
}

impl<'t> Writing<'t> {
    pub(super) fn begin(transaction: &'t WriteTransaction, clock: &'t Clock, ahead: Ahead) -> Result<Self, Error> {
        let view = View { registry: transaction.open_table(REGISTRY)?, contents: transaction.open_table(CONTENTS)? };
        let (states, fair) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self {
            view,
            states,
            fair,
            ahead,
            names: BTreeMap::new(),
            freed: BTreeMap::new(),
            clock,
            is_changed: false,
            settling_left: SETTLED_PER_TRANSACTION,
        })
    }

    /// Writes what was counted, without which the transaction must not be committed. What is to be told then, `None` if
    /// there is nothing to commit; and what was read ahead.
    pub(super) fn finish(mut self) -> Result<(Option<News>, Ahead), Error> {
        for (number, counted) in std::mem::take(&mut self.states) {
            if counted.is_changed {
                self.put(&keys::part(number, Part::State), &counted.value.encode())?;
            }
        }
        for (number, fair) in std::mem::take(&mut self.fair) {
            self.put_fair(number, fair)?;
        }
        let mut names = self.names;
        let news =
            self.freed.into_iter().filter_map(|(number, (freed, older))| Some((names.remove(&number)?, freed, older)));
        Ok((self.is_changed.then(|| news.collect()), self.ahead))
    }

    /// The queue, without its metadata.
    pub(super) fn row(&mut self, queue: &QueueId) -> Result<Option<Row>, Error> {
        let row = self.view.row(queue)?;
        if let Some(row) = &row {
            self.names.insert(row.number, queue.clone());
        }
        Ok(row)
    }

    /// Has those who wait told that so many messages have become free; with 0 that something is delayed or leased that
    /// may be due sooner than what they know of.
    pub(super) fn tell(&mut self, number: u64, freed: u64) {
        self.freed.entry(number).or_default().0 += freed;
    }

    /// Has readers told that this message became available, although they may have passed its position.
    pub(super) fn tell_older(&mut self, number: u64, key: &Key) {
        let rank = Rank::new(rank_of(key)).unwrap_or_default();
        let (_, older) = self.freed.entry(number).or_default();
        *older = Some(older.map_or(rank, |older| older.min(rank)));
    }

    pub(super) fn now_us(&self, queue: &QueueId) -> u64 {
        self.clock.now_us(queue)
    }

    pub(super) fn state(&mut self, number: u64) -> Result<State, Error> {
        if let Some(counted) = self.states.get(&number) {
            return Ok(counted.value);
        }
        let state = self.view.stored_state(number)?;
        self.states.insert(number, Counted { value: state, is_changed: false });
        Ok(state)
    }

    /// Changes what is counted of a queue.
    pub(super) fn count(&mut self, number: u64, change: impl FnOnce(&mut State)) -> Result<(), Error> {
        let mut state = self.state(number)?;
        change(&mut state);
        self.states.insert(number, Counted { value: state, is_changed: true });
        Ok(())
    }

    /// How much more may be released or removed in this transaction because it is due.
    pub(super) fn settling_left(&self) -> usize {
        self.settling_left
    }

    pub(super) fn count_settled(&mut self, settled: usize) {
        self.settling_left = self.settling_left.saturating_sub(settled);
    }

    /// Notes the logical time: with the next change, or at once if the clock has stepped back.
    pub(super) fn keep_logical_time(&mut self, number: u64, now_us: u64) -> Result<(), Error> {
        if self.state(number)?.has_stepped_back(now_us) {
            self.raise_logical_time(number, now_us, 0)?;
        } else if let Some(counted) = self.states.get_mut(&number)
            && counted.value.delayed > 0
        {
            counted.value.raise_logical_time(now_us, 0);
        }
        Ok(())
    }

    /// Lets logical time be at least that (µs).
    pub(super) fn raise_logical_time(&mut self, number: u64, now_us: u64, to_us: u64) -> Result<(), Error> {
        self.count(number, |state| state.raise_logical_time(now_us, to_us))
    }

    /// Notes that nothing is due before then, which is told to others with the next change.
    pub(super) fn put_off(&mut self, number: u64, due: u64) {
        if let Some(counted) = self.states.get_mut(&number) {
            counted.value.due = due;
        }
    }

    /// Lets what has this number go, in bounded time: it is reclaimed later.
    pub(super) fn let_go(&mut self, number: u64) -> Result<(), Error> {
        self.states.remove(&number);
        self.fair.remove(&number);
        self.put_registry(&keys::trash(number), &[])
    }

    /// A number that nothing in this store has had.
    pub(super) fn new_number(&mut self) -> Result<u64, Error> {
        let last = match self.view.registry.get(keys::LAST_NUMBER)? {
            Some(last) => u64::from_be_bytes(last.value().try_into().map_err(|_| damaged("the last number"))?),
            None => 0,
        };
        self.put_registry(keys::LAST_NUMBER, &(last + 1).to_be_bytes())?;
        Ok(last + 1)
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.is_changed = true;
        self.view.contents.insert(key, value)?;
        Ok(())
    }

    /// Takes room for so many values of a size from the disk, and gives it back.
    pub(super) fn try_room(&mut self, values: u8, bytes: usize) -> Result<(), Error> {
        // No other key is so short.
        for key in 0..values {
            self.view.contents.insert_reserve(&[key][..], bytes)?;
        }
        for key in 0..values {
            self.view.contents.remove(&[key][..])?;
        }
        Ok(())
    }

    /// Takes an entry out; whether it was there.
    pub(super) fn take(&mut self, key: &[u8]) -> Result<bool, Error> {
        let was_there = self.view.contents.remove(key)?.is_some();
        self.is_changed |= was_there;
        Ok(was_there)
    }

    /// Takes out all entries between these keys, which go too.
    pub(super) fn take_range(&mut self, first: &[u8], last: &[u8]) -> Result<(), Error> {
        self.is_changed = true;
        self.view.contents.retain_in::<&[u8], _>(first..=last, |_, _| false)?;
        Ok(())
    }

    pub(super) fn put_registry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.is_changed = true;
        self.view.registry.insert(key, value)?;
        Ok(())
    }

    /// Takes an entry out of the registry, and gives what it held.
    pub(super) fn take_registry(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let taken = self.view.registry.remove(key)?.map(|value| value.value().to_vec());
        self.is_changed |= taken.is_some();
        Ok(taken)
    }

    /// Stores a message's entry in its set.
    pub(super) fn put_entry(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        self.put(&keys::of_message(number, located.set, located.key()), &located.encode())
    }

    /// Moves a message to another of the three sets.
    pub(super) fn move_to(&mut self, number: u64, from: &Located, to: &Located) -> Result<(), Error> {
        if !self.take(&keys::of_message(number, from.set, from.key()))? {
            return Err(damaged("the entry of a message"));
        }
        self.leave_shard(number, from)?;
        self.put_entry(number, to)?;
        self.enter_shard(number, to)?;
        self.tell(number, u64::from(to.set == Part::Ready));
        if from.set == Part::InFlight && to.set == Part::Ready {
            self.tell_older(number, to.key());
        }
        self.count(number, |state| {
            enter(state, to);
            leave(state, from);
        })
    }

    /// Notes that something is due then (µs).
    pub(super) fn note_due(&mut self, number: u64, due: u64) -> Result<(), Error> {
        if due < self.state(number)?.due {
            self.count(number, |state| state.due = due)?;
        }
        Ok(())
    }

    /// Notes that a message ends then.
    pub(super) fn note_expiration(&mut self, number: u64, key: &Key, end_s: u32) -> Result<(), Error> {
        self.note_due(number, u64::from(end_s) * 1_000_000)?;
        self.put(&keys::timed(number, Part::Expiration, end_s.into(), key), &[])
    }

    /// Notes that a message ends at another time than it was noted.
    pub(super) fn move_expiration(&mut self, number: u64, key: &Key, from_s: u32, to_s: u32) -> Result<(), Error> {
        if from_s == to_s {
            return Ok(());
        }
        self.take(&keys::timed(number, Part::Expiration, from_s.into(), key))?;
        self.note_expiration(number, key, to_s)
    }

    /// Puts a new message into one of the three sets.
    pub(super) fn add(&mut self, number: u64, located: &Located, record: &[u8]) -> Result<(), Error> {
        let key = located.key();
        self.put(&keys::of_message(number, Part::Message, key), record)?;
        self.put_entry(number, located)?;
        self.enter_shard(number, located)?;
        self.note_expiration(number, key, located.entry.ends_s())?;
        if located.set == Part::Delayed {
            let offset = self.state(number)?.offset;
            self.note_due(number, rank_of(key).saturating_sub(offset))?;
        }
        self.tell(number, u64::from(located.set == Part::Ready));
        self.count(number, |state| {
            state.total += 1;
            enter(state, located);
        })
    }

    /// Removes a message with all that is kept about it.
    pub(super) fn remove(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        self.remove_but_its_expiration(number, located)?;
        self.take(&keys::timed(number, Part::Expiration, located.entry.ends_s().into(), located.key()))?;
        Ok(())
    }

    /// The same but for the key that says when it ends.
    pub(super) fn remove_but_its_expiration(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        self.take(&keys::of_message(number, located.set, located.key()))?;
        self.leave_shard(number, located)?;
        if !self.take(&keys::of_message(number, Part::Message, located.key()))? {
            return Err(damaged("a message"));
        }
        self.count(number, |state| {
            state.total = state.total.saturating_sub(1);
            leave(state, located);
        })
    }

    /// Removes those of the messages that are there.
    pub(super) fn remove_all(&mut self, number: u64, keys: &[Key]) -> Result<(), Error> {
        for key in keys {
            let state = self.state(number)?;
            if let Some(located) = self.view.located(number, &state, key)? {
                self.remove(number, &located)?;
            }
        }
        Ok(())
    }
}

fn enter(state: &mut State, located: &Located) {
    state.sharded += u64::from(located.shard.is_some());
    match located.set {
        Part::InFlight => state.in_flight += 1,
        Part::Delayed => state.delayed += 1,
        _ => {}
    }
}

fn leave(state: &mut State, located: &Located) {
    state.sharded = state.sharded.saturating_sub(u64::from(located.shard.is_some()));
    match located.set {
        Part::InFlight => state.in_flight = state.in_flight.saturating_sub(1),
        Part::Delayed => state.delayed = state.delayed.saturating_sub(1),
        _ => {}
    }
    if state.delayed == 0 {
        (state.offset, state.logical) = (0, 0);
    }
}
