//! Upkeep: what has ended in queues that nobody touches, what is kept for a while only, and what purges and
//! deletions have let go.

use std::ops::Bound;

use async_trait::async_trait;
use redb::ReadableTable;

use super::EmbeddedStore;
use super::clock;
use super::failure::damaged;
use super::keys::{self, EXPIRIES, QUEUES, TRASH, Table};
use super::view::View;
use super::writer::Step;
use super::writing::Writing;
use crate::domain::QueueId;
use crate::storage::{Check, Error, Upkeep};

/// How much room shows that the disk is not full any more: more than the largest post that is allowed by default, in pieces that
/// find room between others.
const PROBE_VALUES: u8 = 128;
const PROBE_VALUE_BYTES: usize = 4_000;
const QUEUES_PER_STEP: usize = 16;
/// How much one step reclaims: it must not keep others waiting.
const RECLAIMED_PER_STEP: usize = 500;
/// How many steps one visit takes: what is left then is left to the next.
const STEPS_MAX: usize = 10_000;

#[async_trait]
impl Upkeep for EmbeddedStore {
    /// Succeeds if the store can be read and its writer works.
    async fn ping(&self) -> Result<(), Error> {
        self.read(|view| view.row_after(&[QUEUES]).map(|_| ())).await
    }

    async fn probe(&self) -> Result<(), Error> {
        if !self.has_full_disk() {
            return self.write(0, |_store| Ok(Step::Done(()))).await;
        }
        self.write(0, |store| store.try_room(PROBE_VALUES, PROBE_VALUE_BYTES).map(Step::Done)).await?;
        self.parts.engine.has_room();
        Ok(())
    }

    fn has_full_disk(&self) -> bool {
        self.parts.engine.has_full_disk()
    }

    async fn check(&self) -> Result<Check, Error> {
        self.read_at_length(View::check).await
    }

    async fn tidy(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error> {
        for _ in 0..STEPS_MAX {
            if !self.read(View::has_leftovers).await? {
                break;
            }
            self.write(0, |store| store.reclaim().map(Step::Done)).await?;
        }
        let after = after.map_or_else(|| vec![QUEUES], keys::queue);
        let mut queues = self.read(move |view| view.queues_after(&after, QUEUES_PER_STEP)).await?;
        // A step ends with its project.
        let others = queues.iter().position(|queue| queue.project() != queues[0].project());
        queues.truncate(others.unwrap_or(QUEUES_PER_STEP));
        for queue in &queues {
            match self.read_settled(queue, |_view, _number, _now_us| Ok(())).await {
                // One queue that cannot be read must not keep the janitor from all behind it.
                Err(Error::Corrupt(reason)) => tracing::warn!(%queue, reason, "the janitor passes over a queue"),
                outcome => drop(outcome?),
            }
        }
        Ok(queues.last().cloned())
    }
}

impl<T: Table> View<T> {
    fn row_after(&self, after: &[u8]) -> Result<Option<QueueId>, Error> {
        Ok(self.queues_after(after, 1)?.pop())
    }

    fn queues_after(&self, after: &[u8], limit: usize) -> Result<Vec<QueueId>, Error> {
        let end = keys::behind(&[QUEUES]);
        let mut queues = Vec::new();
        for entry in self.registry.range::<&[u8]>((Bound::Excluded(after), Bound::Excluded(&*end)))?.take(limit) {
            queues.push(keys::queue_of(entry?.0.value()).ok_or_else(|| damaged("a queue's name"))?);
        }
        Ok(queues)
    }

    /// Whether something is to be reclaimed that belongs to no queue.
    fn has_leftovers(&self) -> Result<bool, Error> {
        Ok(!self.over(1)?.is_empty() || self.first_trash()?.is_some())
    }

    /// The keys that say of others that they are kept no longer.
    fn over(&self, limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        let until = keys::expiry(clock::now_us().saturating_add(1), &[]);
        let range = self.registry.range::<&[u8]>(&[EXPIRIES][..]..&*until)?;
        range.take(limit).map(|entry| Ok(entry?.0.value().to_vec())).collect()
    }

    fn first_trash(&self) -> Result<Option<u64>, Error> {
        let end = keys::behind(&[TRASH]);
        match self.registry.range::<&[u8]>(&[TRASH][..]..&*end)?.next() {
            Some(entry) => keys::trashed(entry?.0.value()).map(Some).ok_or_else(|| damaged("a number")),
            None => Ok(None),
        }
    }
}

impl Writing<'_> {
    /// Keeps an entry of the registry, whose value begins with that time, until then.
    pub(super) fn keep_until(&mut self, end_us: u64, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if let Some(before_us) = self.take_registry(key)?.and_then(|before| kept_until(&before)) {
            self.take_registry(&keys::expiry(before_us, key))?;
        }
        self.put_registry(key, value)?;
        self.put_registry(&keys::expiry(end_us, key), &[])
    }

    /// Reclaims some of what belongs to no queue.
    fn reclaim(&mut self) -> Result<(), Error> {
        for expiry in self.view.over(RECLAIMED_PER_STEP)? {
            self.take_registry(keys::expiring(&expiry))?;
            self.take_registry(&expiry)?;
        }
        let Some(number) = self.view.first_trash()? else {
            return Ok(());
        };
        let (from, to) = (number.to_be_bytes(), (number + 1).to_be_bytes());
        let mut left = RECLAIMED_PER_STEP;
        while left > 0 {
            let Some(key) = self.view.contents.range::<&[u8]>(&from[..]..&to[..])?.next() else {
                self.take_registry(&keys::trash(number))?;
                return Ok(());
            };
            let key = key?.0.value().to_vec();
            self.take(&key)?;
            left -= 1;
        }
        Ok(())
    }
}

/// Until when (µs) an entry of the registry is kept whose value begins with that.
pub(super) fn kept_until(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|end| u64::from_be_bytes(*end))
}
