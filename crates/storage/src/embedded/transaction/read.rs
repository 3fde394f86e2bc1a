//! Reads a consistent state of the store, in a read transaction or in a write transaction.

use std::ops::Bound;

use bytes::Bytes;
use redb::{AccessGuard, ReadOnlyTable, ReadTransaction};

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::{CONTENTS, REGISTRY, Slice, Table};
use crate::embedded::rows::claim::ClaimRow;
use crate::embedded::rows::keys::{self, Key, Part};
use crate::embedded::rows::located::{Entries, Found, Located, SETS};
use crate::embedded::rows::queue::{QueueRow, read_queue};
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::budget::RecordBudget;
use crate::key::{id_of, key, rank_of};
use crate::{Error, record};
use sukkal_domain::{ClaimId, Message, Queue, QueueId};

/// Both tables of the store, as one transaction sees them.
pub(crate) struct View<T> {
    pub(crate) registry: T,
    pub(crate) contents: T,
}

pub(crate) type ReadView = View<ReadOnlyTable<Slice, Slice>>;

impl ReadView {
    pub(crate) fn of(transaction: &ReadTransaction) -> Result<Self, Error> {
        Ok(Self { registry: transaction.open_table(REGISTRY)?, contents: transaction.open_table(CONTENTS)? })
    }
}

impl<T: Table> View<T> {
    /// Returns the queue without its metadata.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueue`] if the queue is in a pool.
    pub(crate) fn row(&self, queue: &QueueId) -> Result<Option<QueueRow>, Error> {
        match self.registry.get(&*keys::queue(queue))? {
            Some(row) => match QueueRow::decode(row.value()) {
                Ok((row, _)) if row.is_located() => Err(Error::NoQueue),
                Ok((row, _)) => Ok(Some(row)),
                Err(error) => Err(error.of(format_args!("queue {queue}"))),
            },
            None => Ok(None),
        }
    }

    /// Returns the numbers of a queue whose row cannot be read, without what its owner has set;
    /// `None` if not even they are there.
    pub(crate) fn head_of_row(&self, queue: &QueueId) -> Result<Option<QueueRow>, Error> {
        Ok(self.registry.get(&*keys::queue(queue))?.and_then(|row| QueueRow::decode_head(row.value())))
    }

    /// Returns the queue with its metadata. Fails as [`Self::row`] does.
    pub(crate) fn queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error> {
        let row = self.registry.get(&*keys::queue(queue))?;
        let read = row.map(|row| read_queue(row.value())).transpose();
        read.map_err(|error| error.of(format_args!("queue {queue}")))
    }

    pub(crate) fn stored_state(&self, number: u64) -> Result<QueueState, Error> {
        match self.contents.get(&*keys::part_prefix(number, Part::State))? {
            Some(state) => QueueState::decode(state.value()),
            None => Ok(QueueState::default()),
        }
    }

    pub(crate) fn claim(&self, number: u64, id: ClaimId) -> Result<Option<ClaimRow>, Error> {
        let claim = self.contents.get(&*keys::content(number, Part::Claim, id.as_bytes()))?;
        let decode = |claim: &[u8]| ClaimRow::decode(claim).map_err(|error| error.of(format_args!("claim {id}")));
        claim.map(|claim| decode(claim.value())).transpose()
    }

    /// Returns the rows of a part with a time up to this one: each time, and the rest of its key.
    pub(crate) fn until(&self, number: u64, part: Part, time: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let (from, to) = (keys::part_prefix(number, part), keys::timed(number, part, time.saturating_add(1), &[]));
        let mut found = Vec::new();
        for entry in self.contents.range::<&[u8]>(&*from..&*to)?.take(limit) {
            found.extend(keys::time_and_rest(entry?.0.value()).map(|(time, rest)| (time, rest.to_vec())));
        }
        Ok(found)
    }

    /// Returns the message, if it exists.
    pub(crate) fn located(&self, number: u64, state: &QueueState, key: &Key) -> Result<Option<Located>, Error> {
        for set in SETS.into_iter().filter(|set| state.in_set(*set) > 0) {
            if let Some(located) = self.located_in(number, set, key)? {
                return Ok(Some(located));
            }
        }
        Ok(None)
    }

    /// Returns the message if it is in this set.
    pub(crate) fn located_in(&self, number: u64, set: Part, key: &Key) -> Result<Option<Located>, Error> {
        match self.contents.get(&keys::message(number, set, key)[..])? {
            Some(entry) => Located::decode(key, set, entry.value()).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the messages of a set from a rank on, oldest first.
    pub(crate) fn entries(&self, number: u64, set: Part, from: u64) -> Result<Entries<'_>, Error> {
        let from = keys::message(number, set, &key(from, [0; 5]));
        let to = keys::prefix_end(&keys::part_prefix(number, set));
        let range = self.contents.range::<&[u8]>((Bound::Included(&from[..]), Bound::Excluded(&*to)))?;
        Ok(Entries::new(set, range))
    }

    /// Returns the messages of a set before a rank; all of them without one.
    pub(crate) fn entries_before(&self, number: u64, set: Part, rank: Option<u64>) -> Result<Entries<'_>, Error> {
        let prefix = keys::part_prefix(number, set);
        let to = rank
            .map_or_else(|| keys::prefix_end(&prefix), |rank| keys::message(number, set, &key(rank, [0; 5])).into());
        Ok(Entries::new(set, self.contents.range::<&[u8]>(&*prefix..&*to)?))
    }

    /// Returns the messages of each of the three sets.
    pub(crate) fn all_located(&self, number: u64) -> Result<Vec<Entries<'_>>, Error> {
        SETS.into_iter().map(|set| self.entries(number, set, 0)).collect()
    }

    /// Returns whether a lease, a message or a subscription has ended, or a delayed message is due.
    pub(crate) fn has_due_changes(&self, number: u64, state: &QueueState, now_us: u64) -> Result<bool, Error> {
        if !state.may_have_due_changes(now_us) {
            return Ok(false);
        }
        Ok(state.has_stepped_back(now_us) || self.first_due(number, state)?.first() <= now_us)
    }

    /// Returns the times at which the first lease, the first message and the first subscription
    /// end, and the first delayed message becomes due.
    pub(crate) fn first_due(&self, number: u64, state: &QueueState) -> Result<Due, Error> {
        let first_in =
            |number, part| Ok::<_, Error>(self.until(number, part, u64::MAX, 1)?.first().map(|(time, _)| *time));
        let second_us = |second: Option<u64>| second.map_or(u64::MAX, |second| second.saturating_mul(1_000_000));
        let delayed =
            if state.delayed == 0 { None } else { self.entries(number, Part::Delayed, 0)?.next().transpose()? };
        let subscription_end = match state.subscriptions {
            0 => None,
            subscriptions => first_in(subscriptions, Part::SubscriptionEnd)?,
        };
        Ok(Due {
            lease: first_in(number, Part::Lease)?.unwrap_or(u64::MAX),
            end: second_us(first_in(number, Part::Expiration)?),
            subscription_end: second_us(subscription_end),
            delay: delayed.map_or(u64::MAX, |delayed| rank_of(delayed.key()).saturating_sub(state.offset)),
        })
    }

    /// Returns these messages with their records.
    pub(crate) fn messages(
        &self,
        queue: &QueueId,
        number: u64,
        located: impl IntoIterator<Item = Located>,
        now_us: u64,
    ) -> Result<Vec<Message>, Error> {
        let mut records = Records::new(self, number);
        let show = |located: Located| {
            let record = Bytes::copy_from_slice(records.get(located.key())?.value());
            show(queue, &located, &record, now_us)
        };
        located.into_iter().map(show).collect()
    }

    /// Returns the oldest available messages, as many as the budget allows.
    pub(crate) fn oldest_available(
        &self,
        number: u64,
        limit: usize,
        budget: &mut RecordBudget,
    ) -> Result<Vec<Found>, Error> {
        let (mut fitting, mut records) = (Vec::new(), Records::new(self, number));
        for located in self.entries(number, Part::Ready, 0)?.take(limit) {
            let located = located?;
            if !budget.try_add(&located) {
                break;
            }
            let record = Bytes::copy_from_slice(records.get(located.key())?.value());
            fitting.push(Found { located, record });
        }
        Ok(fitting)
    }
}

/// Times of the next due changes in a queue, in microseconds; `u64::MAX` if there is none.
pub(crate) struct Due {
    pub(crate) lease: u64,
    pub(crate) end: u64,
    pub(crate) subscription_end: u64,
    pub(crate) delay: u64,
}

impl Due {
    pub(crate) fn first(&self) -> u64 {
        self.lease.min(self.end).min(self.subscription_end).min(self.delay)
    }
}

/// Decodes a message for a reader.
pub(crate) fn show(queue: &QueueId, located: &Located, record: &Bytes, now_us: u64) -> Result<Message, Error> {
    record::message(id_of(queue, located.key())?, &located.entry, record, now_us)
}

/// Reads records in the order of their keys. The next one usually needs no search.
pub(crate) struct Records<'a, T: Table> {
    view: &'a View<T>,
    number: u64,
    next: Option<redb::Range<'a, Slice, Slice>>,
}

impl<'a, T: Table> Records<'a, T> {
    pub(crate) fn new(view: &'a View<T>, number: u64) -> Self {
        Self { view, number, next: None }
    }

    /// Returns the record of a message, which must exist.
    pub(crate) fn get(&mut self, key: &Key) -> Result<AccessGuard<'a, Slice>, Error> {
        let wanted = keys::message(self.number, Part::Message, key);
        if let Some(record) = self.next_if(&wanted)? {
            return Ok(record);
        }
        self.next = Some(self.view.contents.range::<&[u8]>(&wanted[..]..)?);
        self.next_if(&wanted)?.ok_or_else(|| damaged("a message"))
    }

    /// Returns the next record if it is the wanted one.
    fn next_if(&mut self, wanted: &[u8]) -> Result<Option<AccessGuard<'a, Slice>>, Error> {
        let Some((key, record)) = self.next.as_mut().and_then(Iterator::next).transpose()? else {
            return Ok(None);
        };
        Ok((key.value() == wanted).then_some(record))
    }
}
