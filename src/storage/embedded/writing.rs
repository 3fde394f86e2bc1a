//! A transaction that writes: what several operations do to the store.

use std::collections::HashMap;

use redb::{ReadableTable, Table, WriteTransaction};

use super::clock::Clock;
use super::failure::damaged;
use super::holds::Hold;
use super::keys::{self, CONTENTS, Key, Part, REGISTRY, ROOM, Slice};
use super::state::{Row, State};
use super::view::View;
use crate::domain::QueueId;
use crate::storage::Error;

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
    states: HashMap<u64, Counted>,
    /// The queues that were looked at, by the numbers of their contents.
    names: HashMap<u64, QueueId>,
    /// How many messages have become free under a number; 0 if something may be due sooner than it was.
    freed: HashMap<u64, u64>,
    clock: &'t Clock,
    is_changed: bool,
}

/// What is to be told once it is committed: so many messages of a queue have become free.
pub(super) type News = Vec<(QueueId, u64)>;

struct Counted {
    state: State,
    is_changed: bool,
}

impl<'t> Writing<'t> {
    pub(super) fn begin(transaction: &'t WriteTransaction, clock: &'t Clock) -> Result<Self, Error> {
        let view = View { registry: transaction.open_table(REGISTRY)?, contents: transaction.open_table(CONTENTS)? };
        let (states, names, freed) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Self { view, states, names, freed, clock, is_changed: false })
    }

    /// Writes what was counted, without which the transaction must not be committed. What is to be told then; `None` if
    /// there is nothing to commit.
    pub(super) fn finish(mut self) -> Result<Option<News>, Error> {
        for (number, counted) in std::mem::take(&mut self.states) {
            if counted.is_changed {
                self.put(&keys::part(number, Part::State), &counted.state.encode())?;
            }
        }
        let mut names = self.names;
        let news = self.freed.into_iter().filter_map(|(number, freed)| Some((names.remove(&number)?, freed)));
        Ok(self.is_changed.then(|| news.collect()))
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
        *self.freed.entry(number).or_default() += freed;
    }

    pub(super) fn now_us(&self, queue: &QueueId) -> u64 {
        self.clock.now_us(queue)
    }

    pub(super) fn state(&mut self, number: u64) -> Result<State, Error> {
        if let Some(counted) = self.states.get(&number) {
            return Ok(counted.state);
        }
        let state = self.view.stored_state(number)?;
        self.states.insert(number, Counted { state, is_changed: false });
        Ok(state)
    }

    /// Changes what is counted of a queue.
    pub(super) fn count(&mut self, number: u64, change: impl FnOnce(&mut State)) -> Result<(), Error> {
        let mut state = self.state(number)?;
        change(&mut state);
        self.states.insert(number, Counted { state, is_changed: true });
        Ok(())
    }

    /// Lets what has this number go, in bounded time: it is reclaimed later.
    pub(super) fn let_go(&mut self, number: u64) -> Result<(), Error> {
        self.states.remove(&number);
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

    /// Takes an entry out; whether it was there.
    pub(super) fn take(&mut self, key: &[u8]) -> Result<bool, Error> {
        let was_there = self.view.contents.remove(key)?.is_some();
        self.is_changed |= was_there;
        Ok(was_there)
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

    pub(super) fn put_hold(&mut self, number: u64, key: &Key, hold: &Hold) -> Result<(), Error> {
        self.put(&keys::content(number, Part::Hold, key), &hold.encode())
    }

    /// The hold of a message, or what it is before the first claim.
    pub(super) fn hold_or_new(&self, number: u64, key: &Key) -> Result<Hold, Error> {
        if let Some(hold) = self.view.hold(number, key)? {
            return Ok(hold);
        }
        let record = self.view.contents.get(&*keys::content(number, Part::Message, key))?;
        Hold::of_record(record.ok_or_else(|| damaged("a message"))?.value())
    }

    /// Notes that a message ends then.
    pub(super) fn note_end(&mut self, number: u64, key: &Key, end_s: u64) -> Result<(), Error> {
        self.put(&keys::timed(number, Part::End, end_s, key), &[])
    }

    /// Moves a message from one of the three sets to another.
    pub(super) fn move_to(&mut self, number: u64, key: &Key, from: Part, to: Part) -> Result<(), Error> {
        if self.take(&keys::content(number, from, key))? {
            self.put(&keys::content(number, to, key), &[])?;
            self.tell(number, u64::from(to == Part::Ready));
            self.count(number, |state| {
                leave(state, from);
                enter(state, to);
            })?;
        }
        Ok(())
    }

    /// Puts a new message into one of the three sets.
    pub(super) fn add(&mut self, number: u64, key: &Key, set: Part, record: &[u8], end_s: u64) -> Result<(), Error> {
        self.put(&keys::content(number, Part::Message, key), record)?;
        self.put(&keys::content(number, set, key), &[])?;
        self.note_end(number, key, end_s)?;
        self.tell(number, u64::from(set == Part::Ready));
        self.count(number, |state| {
            state.total += 1;
            enter(state, set);
        })
    }

    /// Removes a message with all that is kept about it, if it is there.
    pub(super) fn remove(&mut self, number: u64, key: &Key) -> Result<(), Error> {
        let fresh = match self.view.contents.remove(&*keys::content(number, Part::Message, key))? {
            Some(record) => Hold::of_record(record.value())?,
            None => return Ok(()),
        };
        self.is_changed = true;
        let hold = match self.view.contents.remove(&*keys::content(number, Part::Hold, key))? {
            Some(hold) => Hold::decode(hold.value())?,
            None => fresh,
        };
        self.take(&keys::timed(number, Part::End, hold.end_s, key))?;
        for set in [Part::Ready, Part::Held, Part::Delayed] {
            if self.take(&keys::content(number, set, key))? {
                return self.count(number, |state| {
                    state.total = state.total.saturating_sub(1);
                    leave(state, set);
                });
            }
        }
        Err(damaged("the place of a message"))
    }

    pub(super) fn remove_all(&mut self, number: u64, keys: &[Key]) -> Result<(), Error> {
        keys.iter().try_for_each(|key| self.remove(number, key))
    }
}

fn enter(state: &mut State, set: Part) {
    match set {
        Part::Held => state.held += 1,
        Part::Delayed => state.delayed += 1,
        _ => {}
    }
}

fn leave(state: &mut State, set: Part) {
    match set {
        Part::Held => state.held = state.held.saturating_sub(1),
        Part::Delayed => state.delayed = state.delayed.saturating_sub(1),
        _ => {}
    }
}
