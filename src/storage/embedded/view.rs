//! What can be read of the store at one moment: by a transaction that reads, or one that writes.

use bytes::Bytes;

use super::claims::ClaimRow;
use super::keys::{self, Part, Table};
use super::located::{Found, Located, Records};
use super::state::{Row, State};
use crate::domain::{ClaimId, Message, Queue, QueueId};
use crate::storage::key::{id_of, rank_of};
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

    pub(super) fn claim(&self, number: u64, id: ClaimId) -> Result<Option<ClaimRow>, Error> {
        let claim = self.contents.get(&*keys::content(number, Part::Claim, id.as_bytes()))?;
        claim.map(|claim| ClaimRow::decode(claim.value())).transpose()
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
        if !state.may_be_unsettled(now_us) {
            return Ok(false);
        }
        Ok(state.has_stepped_back(now_us) || self.first_due(number, state)?.first() <= now_us)
    }

    /// When the first lease is over, the first message ends and the first delayed one is due.
    pub(super) fn first_due(&self, number: u64, state: &State) -> Result<Due, Error> {
        let first = |part| Ok::<_, Error>(self.until(number, part, u64::MAX, 1)?.first().map(|(time, _)| *time));
        let delayed =
            if state.delayed == 0 { None } else { self.entries(number, Part::Delayed, 0)?.next().transpose()? };
        Ok(Due {
            lease: first(Part::Lease)?.unwrap_or(u64::MAX),
            end: first(Part::Expiration)?.map_or(u64::MAX, |second| second.saturating_mul(1_000_000)),
            delay: delayed.map_or(u64::MAX, |delayed| rank_of(delayed.key()).saturating_sub(state.offset)),
        })
    }

    /// These messages with their records.
    pub(super) fn messages(
        &self,
        queue: &QueueId,
        number: u64,
        located: impl IntoIterator<Item = Located>,
        now_us: u64,
    ) -> Result<Vec<Message>, Error> {
        let mut records = Records::new(self, number);
        let show = |located: Located| {
            let record = Bytes::copy_from_slice(records.of(located.key())?.value());
            show(queue, &located, &record, now_us)
        };
        located.into_iter().map(show).collect()
    }

    /// The oldest free messages, as many as there is room for.
    pub(super) fn free(&self, number: u64, limit: usize, room: &mut Room) -> Result<Vec<Found>, Error> {
        let (mut fitting, mut records) = (Vec::new(), Records::new(self, number));
        for located in self.entries(number, Part::Ready, 0)?.take(limit) {
            let located = located?;
            if !room.takes(&located) {
                break;
            }
            let record = Bytes::copy_from_slice(records.of(located.key())?.value());
            fitting.push(Found { located, record });
        }
        Ok(fitting)
    }
}

/// When things are due in a queue, in microseconds; at the end of time if there is nothing.
pub(super) struct Due {
    pub(super) lease: u64,
    pub(super) end: u64,
    pub(super) delay: u64,
}

impl Due {
    pub(super) fn first(&self) -> u64 {
        self.lease.min(self.end).min(self.delay)
    }
}

/// The room for records in an answer, or in what one step moves.
#[derive(Debug, Default)]
pub(super) struct Room {
    bytes: usize,
}

impl Room {
    /// Whether a further message fits, by its size class. The first one does.
    pub(super) fn takes(&mut self, located: &Located) -> bool {
        let bytes = self.bytes + located.entry.size.bytes_max();
        if self.bytes > 0 && bytes > ANSWER_BYTES_MAX {
            return false;
        }
        self.bytes = bytes;
        true
    }
}

/// A message as it is shown.
pub(super) fn show(queue: &QueueId, located: &Located, record: &Bytes, now_us: u64) -> Result<Message, Error> {
    record::message(id_of(queue, located.key())?, &located.entry, record, now_us)
}

/// The queue that a row of the registry holds.
pub(super) fn read_queue(row: &[u8]) -> Result<Queue, Error> {
    let (row, metadata) = Row::decode(row)?;
    Ok(Queue { metadata: record::metadata(metadata)?, revision: row.revision })
}
