//! Maintenance: applies due changes in unused queues, finds work that no process does, and reclaims
//! expired rows of the registry and the contents that purges and deletions have discarded.

use std::ops::Bound;

use async_trait::async_trait;
use redb::ReadableTable;

use crate::embedded::backup;
use crate::embedded::engine::clock;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::{self, DISCARDED, EXPIRIES, QUEUES};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::maintenance::check_lists;
use crate::outbox;
use crate::{BackupStart, Check, Error, Maintenance};
use sukkal_domain::QueueId;

/// Number of values that must fit on the disk before it is no longer considered full. Together they
/// are larger than the largest post that is allowed by default. Each is small enough to fit between
/// other values.
const PROBE_VALUES: u8 = 128;
const PROBE_VALUE_BYTES: usize = 4_000;
const QUEUES_PER_STEP: usize = 16;
/// Maximum number of rows reclaimed in one step, so that a step does not block other operations.
const RECLAIMED_PER_STEP: usize = 500;
/// Maximum number of steps in one run. The next run continues.
const STEPS_MAX: usize = 10_000;

#[async_trait]
impl Maintenance for EmbeddedStore {
    /// Succeeds if the store can be read and its writer thread runs.
    async fn ping(&self) -> Result<(), Error> {
        self.read(|view| view.queue_after(&[QUEUES]).map(|_| ())).await
    }

    async fn probe(&self) -> Result<(), Error> {
        if !self.has_full_disk() {
            return self.write(0, |_store| Ok(Step::Done(()))).await;
        }
        self.write(0, |store| store.probe_space(PROBE_VALUES, PROBE_VALUE_BYTES).map(Step::Done)).await?;
        self.parts.engine.space_recovered();
        Ok(())
    }

    fn has_full_disk(&self) -> bool {
        self.parts.engine.has_full_disk()
    }

    async fn check(&self) -> Result<Check, Error> {
        let mut check = self.read_on_blocking_thread(View::check).await?;
        check_lists(self, &mut check).await?;
        Ok(check)
    }

    async fn repair(&self) -> Result<Check, Error> {
        self.set_unreadable_aside().await
    }

    fn begin_backup(&self) -> Result<BackupStart, Error> {
        let begun = |records| BackupStart::Begun(Box::new(backup::BackupParts::new(records)));
        Ok(self.parts.engine.records()?.map_or(BackupStart::Running, begun))
    }

    async fn maintain_step(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error> {
        for _ in 0..STEPS_MAX {
            if !self.read(View::has_expired_or_discarded).await? {
                break;
            }
            self.write(0, |store| store.reclaim().map(Step::Done)).await?;
        }
        let after_key = after.map_or_else(|| vec![QUEUES], keys::queue);
        let mut queues = self.read(move |view| view.queues_after(&after_key, QUEUES_PER_STEP)).await?;
        // A step covers queues of one project only.
        let others = queues.iter().position(|queue| queue.project() != queues[0].project());
        queues.truncate(others.unwrap_or(QUEUES_PER_STEP));
        for queue in &queues {
            let work = self.read_up_to_date(queue, |view, row, state, now_us| {
                Ok((view.abandoned_task(row.number, now_us)?, view.has_due_deliveries(state, now_us)?))
            });
            match work.await {
                Ok(Some((task, has_due_deliveries))) => {
                    if let Some(task) = task {
                        self.continue_redrive(queue, task);
                    }
                    if has_due_deliveries {
                        self.signal_deliveries(queue);
                    }
                }
                // A queue that cannot be read must not prevent maintenance of all queues after it.
                Err(Error::Corrupt(reason)) => {
                    tracing::warn!(%queue, reason, "cannot maintain a damaged queue; skipping it");
                }
                // It is in a pool, which maintains it.
                Err(Error::NoQueue) => {
                    if let Err(error) = self.parts.other_stores.destinations(self)?.resolve_location(queue).await {
                        tracing::debug!(%queue, %error, "cannot find out whether a queue is in its pool");
                    }
                }
                outcome => drop(outcome?),
            }
        }
        self.forward_outboxes(after, queues.last()).await?;
        Ok(queues.last().cloned())
    }
}

impl EmbeddedStore {
    /// Forwards the messages of the outboxes of these queues, some of which may be deleted.
    async fn forward_outboxes(&self, after: Option<&QueueId>, last: Option<&QueueId>) -> Result<(), Error> {
        let (after, last) = (after.cloned(), last.cloned());
        let sources = self.read(move |view| view.queues_with_outbox(after.as_ref(), last.as_ref())).await?;
        for source in &sources {
            // The receiving queue may be unreachable, and other work must go on.
            if let Err(error) = outbox::forward(self, source).await {
                tracing::warn!(queue = %source, %error, "cannot forward dead letters; the janitor tries again later");
            }
        }
        Ok(())
    }
}

impl<T: Table> View<T> {
    fn queue_after(&self, after: &[u8]) -> Result<Option<QueueId>, Error> {
        Ok(self.queues_after(after, 1)?.pop())
    }

    fn queues_after(&self, after: &[u8], limit: usize) -> Result<Vec<QueueId>, Error> {
        let end = keys::prefix_end(&[QUEUES]);
        let mut queues = Vec::new();
        for entry in self.registry.range::<&[u8]>((Bound::Excluded(after), Bound::Excluded(&*end)))?.take(limit) {
            queues.push(keys::decode_queue(entry?.0.value()).ok_or_else(|| damaged("a queue's name"))?);
        }
        Ok(queues)
    }

    /// Returns whether there are expired rows or discarded contents.
    fn has_expired_or_discarded(&self) -> Result<bool, Error> {
        Ok(!self.expired_registry_keys(1)?.is_empty() || self.first_discarded()?.is_some())
    }

    /// Returns the expiry keys of expired rows.
    fn expired_registry_keys(&self, limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        let until = keys::ending(keys::EXPIRIES, clock::now_us().saturating_add(1), &[]);
        let range = self.registry.range::<&[u8]>(&[EXPIRIES][..]..&*until)?;
        range.take(limit).map(|entry| Ok(entry?.0.value().to_vec())).collect()
    }

    fn first_discarded(&self) -> Result<Option<u64>, Error> {
        let end = keys::prefix_end(&[DISCARDED]);
        match self.registry.range::<&[u8]>(&[DISCARDED][..]..&*end)?.next() {
            Some(entry) => {
                keys::discarded_number(entry?.0.value()).map(Some).ok_or_else(|| damaged("a contents number"))
            }
            None => Ok(None),
        }
    }
}

impl WriteTransaction<'_> {
    /// Reclaims a part of the expired rows and discarded contents.
    fn reclaim(&mut self) -> Result<(), Error> {
        for expiry in self.view.expired_registry_keys(RECLAIMED_PER_STEP)? {
            self.remove_registry(keys::expiring_key(&expiry))?;
            self.remove_registry(&expiry)?;
        }
        let Some(number) = self.view.first_discarded()? else {
            return Ok(());
        };
        let (from, to) = (number.to_be_bytes(), (number + 1).to_be_bytes());
        let mut left = RECLAIMED_PER_STEP;
        while left > 0 {
            let Some(key) = self.view.contents.range::<&[u8]>(&from[..]..&to[..])?.next() else {
                self.remove_registry(&keys::discarded(number))?;
                return Ok(());
            };
            let key = key?.0.value().to_vec();
            self.remove_key(&key)?;
            left -= 1;
        }
        Ok(())
    }
}
