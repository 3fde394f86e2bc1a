//! Queue operations of the store: create, get, update, delete, list, count. A queue and its name
//! are one row.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::{Buf, BufMut};
use redb::ReadableTable;

use crate::domain::{Creation, Metadata, ProjectId, Queue, QueueId, Revision};
use crate::storage::embedded::engine::clock;
use crate::storage::embedded::engine::error::damaged;
use crate::storage::embedded::engine::tables::Table;
use crate::storage::embedded::rows::keys;
use crate::storage::embedded::rows::queue::{QueueRow, read_queue};
use crate::storage::embedded::store::EmbeddedStore;
use crate::storage::embedded::transaction::read::View;
use crate::storage::embedded::transaction::write::WriteTransaction;
use crate::storage::embedded::transaction::writer::Step;
use crate::storage::{Error, QueueListing, QueuePage, QueueStore, UpdateOutcome, record};

/// How long the tombstone of a deleted queue is kept, in microseconds. It records the ranks that
/// the queue may have assigned.
const TOMBSTONE_KEPT_US: u64 = 24 * 3_600 * 1_000_000;

#[async_trait]
impl QueueStore for EmbeddedStore {
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        let (queue, metadata) = (queue.clone(), metadata.clone());
        self.write(0, move |store| store.create(&queue, &metadata).map(Step::Done)).await
    }

    async fn get_queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error> {
        let queue = queue.clone();
        self.read(move |view| view.queue(&queue)).await
    }

    async fn update_queue(
        &self,
        queue: &QueueId,
        last_known_revision: Revision,
        metadata: &Metadata,
    ) -> Result<UpdateOutcome, Error> {
        let (queue, metadata) = (queue.clone(), metadata.clone());
        self.write(0, move |store| store.update(&queue, last_known_revision, &metadata)).await
    }

    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error> {
        let queue = queue.clone();
        self.write(0, move |store| store.delete(&queue).map(Step::Done)).await
    }

    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing<'_>) -> Result<QueuePage, Error> {
        let of = keys::queues_prefix(project);
        let after = listing.after.map(|after| [&of[..], after.as_bytes()].concat());
        let (name_part, examined_max) = (listing.name_part.map(str::to_owned), listing.examined_max);
        self.read(move |view| {
            let listing = QueueListing { after: None, name_part: name_part.as_deref(), examined_max };
            view.list(&of, after.as_deref(), &listing)
        })
        .await
    }

    async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error> {
        let project = project.clone();
        self.read(move |view| view.count(&project)).await
    }
}

impl<T: Table> View<T> {
    /// Lists queues whose keys begin with `of` and follow the key `after`.
    fn list(&self, of: &[u8], after: Option<&[u8]>, listing: &QueueListing<'_>) -> Result<QueuePage, Error> {
        let from = after.map_or(Bound::Included(of), Bound::Excluded);
        let entries = self.registry.range::<&[u8]>((from, Bound::Excluded(&*keys::prefix_end(of))))?;
        let (mut page, mut examined) = (QueuePage::default(), 0);
        for entry in entries.take(listing.examined_max) {
            let (key, row) = entry?;
            let queue = keys::decode_queue(key.value()).ok_or_else(|| damaged("a queue's name"))?;
            let name = queue.name();
            examined += 1;
            if examined == listing.examined_max {
                page.reached = Some(name.to_string());
            }
            if listing.includes(name.as_str()) {
                page.queues.push((name.clone(), read_queue(row.value())?));
            }
        }
        Ok(page)
    }

    fn count(&self, project: &ProjectId) -> Result<u64, Error> {
        match self.registry.get(&*keys::project_count(project))? {
            Some(count) => count.value().try_get_u64().map_err(|_| damaged("the number of queues")),
            None => Ok(0),
        }
    }
}

impl WriteTransaction<'_> {
    /// Creates the queue unless it exists.
    pub(super) fn create(&mut self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        if self.view.row(queue)?.is_some() {
            return Ok(Creation::Existed);
        }
        let last = self.take_tombstone(queue)?;
        let revision = self.now_us(queue).max(last + 1);
        let number = self.new_number()?;
        self.change_state(number, |state| state.last = revision)?;
        self.put_row(queue, number, Revision(revision), metadata)?;
        let count = self.view.count(queue.project())? + 1;
        self.put_registry(&keys::project_count(queue.project()), &count.to_be_bytes())?;
        Ok(Creation::Created)
    }

    fn update(
        &mut self,
        queue: &QueueId,
        last_known_revision: Revision,
        metadata: &Metadata,
    ) -> Result<Step<UpdateOutcome>, Error> {
        let Some(row) = self.row(queue)?.filter(|row| row.revision == last_known_revision) else {
            return Ok(Step::Done(UpdateOutcome::Stale));
        };
        if metadata.sharding().is_some() && row.policy.sharding.is_none() {
            if self.apply_due_changes(&row, self.now_us(queue))? {
                return Ok(Step::Again);
            }
            self.become_fair(&row)?;
        }
        let next_rank = self.state(row.number)?.next_rank(self.now_us(queue));
        self.put_row(queue, row.number, Revision(next_rank.max(last_known_revision.0 + 1)), metadata)?;
        Ok(Step::Done(UpdateOutcome::Done))
    }

    /// Deletes the queue, if it exists. The next queue of that name starts after its last rank,
    /// even if the clock steps back.
    fn delete(&mut self, queue: &QueueId) -> Result<(), Error> {
        let Some(row) = self.view.row(queue)? else {
            return Ok(());
        };
        let next_rank = self.state(row.number)?.next_rank(self.now_us(queue));
        self.put_tombstone(queue, next_rank.max(row.revision.0 + 1) - 1)?;
        self.remove_registry(&keys::queue(queue))?;
        let (project, count) = (keys::project_count(queue.project()), self.view.count(queue.project())?);
        if count > 1 {
            self.put_registry(&project, &(count - 1).to_be_bytes())?;
        } else {
            self.remove_registry(&project)?;
        }
        self.discard_contents(row.number)
    }

    /// Discards all messages and claims of the queue, if it exists.
    pub(super) fn purge(&mut self, queue: &QueueId) -> Result<(), Error> {
        let Some(row) = self.view.row(queue)? else {
            return Ok(());
        };
        let before = self.state(row.number)?;
        let number = self.new_number()?;
        let key = keys::queue(queue);
        let renumbered = {
            let stored = self.view.registry.get(&*key)?.ok_or_else(|| damaged("a queue"))?;
            QueueRow::renumbered(stored.value(), number)
        };
        self.put_registry(&key, &renumbered)?;
        self.change_state(number, |state| *state = before.emptied())?;
        self.move_tenants(row.number, number)?;
        self.move_tasks(row.number, number)?;
        self.discard_contents(row.number)
    }

    fn put_row(&mut self, queue: &QueueId, number: u64, revision: Revision, metadata: &Metadata) -> Result<(), Error> {
        let row = QueueRow::encode(number, revision, &record::policy(metadata), &record::from_metadata(metadata));
        self.put_registry(&keys::queue(queue), &row)
    }

    fn put_tombstone(&mut self, queue: &QueueId, last: u64) -> Result<(), Error> {
        let end_us = clock::now_us() + TOMBSTONE_KEPT_US;
        let mut tombstone = Vec::new();
        tombstone.put_u64(end_us);
        tombstone.put_u64(last);
        self.put_registry_until(end_us, &keys::tombstone(queue), &tombstone)
    }

    /// Removes the tombstone. Returns the last rank that an earlier queue of that name may have
    /// assigned; 0 if there was none recently.
    fn take_tombstone(&mut self, queue: &QueueId) -> Result<u64, Error> {
        let key = keys::tombstone(queue);
        let Some(tombstone) = self.remove_registry(&key)? else {
            return Ok(0);
        };
        let mut tombstone = tombstone.as_slice();
        let (Ok(end_us), Ok(last)) = (tombstone.try_get_u64(), tombstone.try_get_u64()) else {
            return Err(damaged("a tombstone"));
        };
        self.remove_registry(&keys::expiry(end_us, &key))?;
        Ok(last)
    }
}
