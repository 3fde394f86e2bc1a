//! What can be read of the store at one moment: by a transaction that reads, or one that writes.

use std::ops::Bound;

use bytes::Bytes;
use redb::{AccessGuard, StorageError};

use super::claims::ClaimRow;
use super::holds::Hold;
use super::keys::{self, Key, Part, Slice, Table};
use super::state::{Row, State};
use crate::domain::{ClaimId, Message, Queue, QueueId};
use crate::storage::key::{id_of, key};
use crate::storage::{Error, record};

/// An answer has this many bytes of records at most, or one message.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

/// Both tables of the store, as one transaction sees them.
pub(super) struct View<T> {
    pub(super) registry: T,
    pub(super) contents: T,
}

impl<T: Table> View<T> {
    /// The queue, without its metadata.
    pub(super) fn row(&self, queue: &QueueId) -> Result<Option<Row>, Error> {
        match self.registry.get(&*keys::queue(queue))? {
            Some(row) => Ok(Some(Row::decode(row.value())?.0)),
            None => Ok(None),
        }
    }

    /// The queue as its owner sees it.
    pub(super) fn queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error> {
        self.registry.get(&*keys::queue(queue))?.map(|row| read_queue(row.value())).transpose()
    }

    pub(super) fn stored_state(&self, number: u64) -> Result<State, Error> {
        match self.contents.get(&*keys::part(number, Part::State))? {
            Some(state) => State::decode(state.value()),
            None => Ok(State::default()),
        }
    }

    pub(super) fn record(&self, number: u64, key: &Key) -> Result<Option<Bytes>, Error> {
        let record = self.contents.get(&*keys::content(number, Part::Message, key))?;
        Ok(record.map(|record| Bytes::copy_from_slice(record.value())))
    }

    pub(super) fn exists(&self, number: u64, key: &Key) -> Result<bool, Error> {
        Ok(self.contents.get(&*keys::content(number, Part::Message, key))?.is_some())
    }

    pub(super) fn hold(&self, number: u64, key: &Key) -> Result<Option<Hold>, Error> {
        let hold = self.contents.get(&*keys::content(number, Part::Hold, key))?;
        hold.map(|hold| Hold::decode(hold.value())).transpose()
    }

    /// The claim that the message is under.
    pub(super) fn holder(&self, number: u64, key: &Key) -> Result<Option<ClaimId>, Error> {
        Ok(self.hold(number, key)?.and_then(|hold| hold.holder()))
    }

    pub(super) fn claim(&self, number: u64, id: ClaimId) -> Result<Option<ClaimRow>, Error> {
        let claim = self.contents.get(&*keys::content(number, Part::Claim, id.as_bytes()))?;
        claim.map(|claim| ClaimRow::decode(claim.value())).transpose()
    }

    /// The messages of a set from a rank on, oldest first.
    pub(super) fn keys(&self, number: u64, set: Part, from: u64) -> Result<Keys<'_>, Error> {
        let from = keys::content(number, set, &key(from, [0; 5]));
        let to = keys::behind(&keys::part(number, set));
        Ok(Keys(self.contents.range::<&[u8]>((Bound::Included(&*from), Bound::Excluded(&*to)))?))
    }

    /// The entries of a part that have a time up to this one: the times, and what follows them.
    pub(super) fn until(&self, number: u64, part: Part, time: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let (from, to) = (keys::part(number, part), keys::timed(number, part, time.saturating_add(1), &[]));
        let mut found = Vec::new();
        for entry in self.contents.range::<&[u8]>(&*from..&*to)?.take(limit) {
            found.extend(keys::time_and_rest(entry?.0.value()).map(|(time, rest)| (time, rest.to_vec())));
        }
        Ok(found)
    }

    /// Whether a claim is over, a message has ended or one is due.
    pub(super) fn is_unsettled(&self, number: u64, state: &State, now_us: u64) -> Result<bool, Error> {
        if !self.until(number, Part::Lease, now_us, 1)?.is_empty()
            || !self.until(number, Part::End, now_us / 1_000_000, 1)?.is_empty()
        {
            return Ok(true);
        }
        if state.delayed == 0 {
            return Ok(false);
        }
        let first = self.keys(number, Part::Delayed, 0)?.next().transpose()?;
        Ok(first.is_some_and(|first| crate::storage::key::rank_of(&first) <= now_us.max(state.last)))
    }

    /// The message with that key, if it is there.
    pub(super) fn message(
        &self,
        queue: &QueueId,
        number: u64,
        key: &Key,
        now_us: u64,
    ) -> Result<Option<Message>, Error> {
        let record = self.record(number, key)?;
        record.map(|record| self.message_of(queue, number, key, &record, now_us)).transpose()
    }

    /// The message with that key and record.
    pub(super) fn message_of(
        &self,
        queue: &QueueId,
        number: u64,
        key: &Key,
        record: &Bytes,
        now_us: u64,
    ) -> Result<Message, Error> {
        let hold = self.contents.get(&*keys::content(number, Part::Hold, key))?;
        let hold = record::hold(hold.as_ref().map_or(&[], AccessGuard::value))?;
        record::message(id_of(queue, key)?, record, hold, now_us)
    }

    /// The messages with those keys, without those that are gone.
    pub(super) fn messages(
        &self,
        queue: &QueueId,
        number: u64,
        keys: &[Key],
        now_us: u64,
    ) -> Result<Vec<Message>, Error> {
        let mut messages = Vec::with_capacity(keys.len());
        for key in keys {
            messages.extend(self.message(queue, number, key, now_us)?);
        }
        Ok(messages)
    }

    /// The oldest free messages, as many as fit into one answer.
    pub(super) fn free(&self, number: u64, limit: usize) -> Result<Vec<Key>, Error> {
        let (mut fitting, mut room) = (Vec::new(), Room::default());
        for key in self.keys(number, Part::Ready, 0)?.take(limit) {
            let key = key?;
            let record = self.contents.get(&*keys::content(number, Part::Message, &key))?;
            if !room.takes(record.map_or(0, |record| record.value().len())) {
                break;
            }
            fitting.push(key);
        }
        Ok(fitting)
    }
}

/// The room for records in an answer.
#[derive(Debug, Default)]
pub(super) struct Room {
    bytes: usize,
}

impl Room {
    /// Whether a further record fits. The first one does.
    pub(super) fn takes(&mut self, bytes: usize) -> bool {
        let is_first = self.bytes == 0;
        self.bytes += bytes;
        is_first || self.bytes <= ANSWER_BYTES_MAX
    }
}

/// Keys of messages.
pub(super) struct Keys<'a>(redb::Range<'a, Slice, Slice>);

impl Iterator for Keys<'_> {
    type Item = Result<Key, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(read_key)
    }
}

impl DoubleEndedIterator for Keys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(read_key)
    }
}

fn read_key(entry: Result<(AccessGuard<'_, Slice>, AccessGuard<'_, Slice>), StorageError>) -> Result<Key, Error> {
    let (entry, _) = entry?;
    keys::rest(entry.value()).try_into().map_err(|_| super::failure::damaged("a message's key"))
}

/// The queue that a row of the registry holds.
pub(super) fn read_queue(row: &[u8]) -> Result<Queue, Error> {
    let (row, metadata) = Row::decode(row)?;
    Ok(Queue { metadata: record::metadata(metadata)?, revision: row.revision })
}
