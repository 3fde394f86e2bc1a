//! Queue operations of the store: create, get, update, delete, list, count. A queue and its name
//! are one row.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::{Buf, BufMut};
use redb::ReadableTable;

use crate::embedded::engine::clock;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::messages::summary;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::queue::{QueueRow, read_queue};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::{
    Error, ProjectPage, QueueListing, QueuePage, QueueStore, UpdateOutcome, policy, record, unless_unreadable,
};
use sukkal_domain::{Creation, Metadata, ProjectId, Queue, QueueId, QueueKind, Revision, Summary};

/// How long the tombstone of a deleted queue is kept, in microseconds. It records the ranks and
/// fences that the queue may have assigned.
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
        let deleted = queue.clone();
        self.write(0, move |store| store.delete(&deleted).map(Step::Done)).await?;
        // Readers that follow the queue find that it is gone.
        self.parts.watchers.notify(queue, 1, None);
        Ok(())
    }

    async fn pause_queue(&self, queue: &QueueId) -> Result<(), Error> {
        let queue = queue.clone();
        self.write(0, move |store| store.pause(&queue).map(Step::Done)).await
    }

    async fn resume_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.write_up_to_date(queue, (), |store, row, _now_us| {
            let state = store.state(row.number)?;
            if state.is_paused {
                store.change_state(row.number, |state| state.is_paused = false)?;
                store.notify(row.number, state.in_set(Part::Ready));
            }
            Ok(())
        })
        .await
    }

    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing) -> Result<QueuePage, Error> {
        let (prefix, listing) = (keys::of_project(keys::QUEUES, project), listing.clone());
        self.read(move |view| view.list(&prefix, &listing)).await
    }

    async fn count_queues(&self, project: &ProjectId, kind: Option<QueueKind>) -> Result<u64, Error> {
        let project = project.clone();
        self.read(move |view| view.count(&project, kind)).await
    }

    async fn summarize_queues(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error> {
        summary::summarize_queues(self, queues).await
    }

    async fn list_projects(&self, after: Option<&ProjectId>, examined_max: usize) -> Result<ProjectPage, Error> {
        let after = after.map_or_else(|| vec![keys::PROJECTS], keys::project_count);
        self.read(move |view| view.list_projects(&after, examined_max)).await
    }
}

impl<T: Table> View<T> {
    /// Lists queues of the project whose keys begin with `prefix`.
    fn list(&self, prefix: &[u8], listing: &QueueListing) -> Result<QueuePage, Error> {
        let (mut page, mut examined, mut bytes) = (QueuePage::default(), 0, 0);
        let Some((from, end)) = keys::in_range(prefix, &listing.names) else {
            return Ok(page);
        };
        let range = (from.as_ref().map(Vec::as_slice), Bound::Excluded(&*end));
        let entries = self.registry.range::<&[u8]>(range)?;
        for entry in entries {
            let (key, row) = entry?;
            let queue = keys::decode_queue(key.value()).ok_or_else(|| damaged("a queue's name"))?;
            let name = queue.name();
            examined += 1;
            if listing.includes(name) {
                bytes += row.value().len();
                let found = match read_queue(row.value()) {
                    // It is in a pool.
                    Err(Error::NoQueue) => None,
                    read => unless_unreadable(read.map_err(|error| error.of(format_args!("queue {queue}"))))?,
                };
                page.queues.extend(found.map(|found| (name.clone(), found)));
            }
            if examined == listing.examined_max || bytes >= listing.bytes {
                page.reached = Some(name.clone());
                break;
            }
        }
        Ok(page)
    }

    fn count(&self, project: &ProjectId, kind: Option<QueueKind>) -> Result<u64, Error> {
        let (all, topics) = (keys::project_count(project), keys::topic_count(project));
        Ok(match kind {
            None => self.stored_count(&all)?,
            Some(QueueKind::Topic) => self.stored_count(&topics)?,
            Some(QueueKind::Queue) => self.stored_count(&all)?.saturating_sub(self.stored_count(&topics)?),
        })
    }

    fn stored_count(&self, key: &[u8]) -> Result<u64, Error> {
        match self.registry.get(key)? {
            Some(count) => count.value().try_get_u64().map_err(|_| damaged("the number of queues")),
            None => Ok(0),
        }
    }

    /// Lists projects with the number of their queues, whose keys follow this one.
    fn list_projects(&self, after: &[u8], examined_max: usize) -> Result<ProjectPage, Error> {
        let end = keys::prefix_end(&[keys::PROJECTS]);
        let mut page = ProjectPage::default();
        let counts = self.registry.range::<&[u8]>((Bound::Excluded(after), Bound::Excluded(&*end)))?;
        for entry in counts.take(examined_max) {
            let (key, count) = entry?;
            let project = keys::decode_project(key.value()).ok_or_else(|| damaged("a project's id"))?;
            let count = count.value().try_get_u64().map_err(|_| damaged("the number of queues"))?;
            page.projects.push((project, count));
        }
        let last = page.projects.last().filter(|_| page.projects.len() == examined_max);
        page.reached = last.map(|(project, _)| project.clone());
        Ok(page)
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
        self.change_state(number, |state| (state.last, state.fence) = (revision, revision))?;
        self.add_row(queue, &encode_row(number, Revision(revision), metadata))?;
        Ok(Creation::Created)
    }

    /// Adds the row of a queue to its project.
    pub(super) fn add_row(&mut self, queue: &QueueId, row: &[u8]) -> Result<(), Error> {
        self.put_registry(&keys::queue(queue), row)?;
        for key in counts_with(queue) {
            let count = self.view.stored_count(&key)? + 1;
            self.put_registry(&key, &count.to_be_bytes())?;
        }
        Ok(())
    }

    /// Removes the row of a queue from its project.
    pub(super) fn remove_row(&mut self, queue: &QueueId) -> Result<(), Error> {
        self.remove_registry(&keys::queue(queue))?;
        for key in counts_with(queue) {
            let count = self.view.stored_count(&key)?;
            if count > 1 {
                self.put_registry(&key, &(count - 1).to_be_bytes())?;
            } else {
                self.remove_registry(&key)?;
            }
        }
        Ok(())
    }

    pub(super) fn update(
        &mut self,
        queue: &QueueId,
        last_known_revision: Revision,
        metadata: &Metadata,
    ) -> Result<Step<UpdateOutcome>, Error> {
        let Some(row) = self.row(queue)?.filter(|row| row.revision == last_known_revision) else {
            return Ok(Step::Done(UpdateOutcome::Stale));
        };
        // Due changes decide which messages have a shard when the queue becomes fair, and whether
        // it still has such messages when it becomes plain.
        let was_fair = row.policy.sharding.is_some();
        if metadata.sharding().is_some() != was_fair {
            if self.apply_due_changes(&row, self.now_us(queue))? {
                return Ok(Step::Again);
            }
            if !was_fair {
                self.become_fair(&row)?;
            }
        }
        let next_rank = self.state(row.number)?.next_rank(self.now_us(queue));
        let revision = Revision(next_rank.max(last_known_revision.0 + 1));
        self.put_registry(&keys::queue(queue), &encode_row(row.number, revision, metadata))?;
        Ok(Step::Done(UpdateOutcome::Done))
    }

    /// Pauses the queue, and creates it if it does not exist.
    fn pause(&mut self, queue: &QueueId) -> Result<(), Error> {
        self.create(queue, &Metadata::default())?;
        let row = self.row(queue)?.ok_or_else(|| damaged("a queue"))?;
        if self.state(row.number)?.is_paused {
            return Ok(());
        }
        self.change_state(row.number, |state| state.is_paused = true)
    }

    /// Deletes the queue, if it exists. The next queue of that name starts after its last rank and
    /// its last fence, even if the clock steps back.
    fn delete(&mut self, queue: &QueueId) -> Result<(), Error> {
        let row = match self.view.row(queue) {
            Ok(None) => return Ok(()),
            Err(Error::Corrupt(_)) => self.view.head_of_row(queue)?,
            row => row?,
        };
        let Some(row) = row else {
            self.put_tombstone(queue, self.now_us(queue))?;
            return self.remove_row(queue);
        };
        let state = self.state(row.number)?;
        let last = state.next_rank(self.now_us(queue)) - 1;
        self.put_tombstone(queue, last.max(row.revision.0).max(state.fence))?;
        self.remove_row(queue)?;
        if state.subscriptions > 0 {
            self.discard_contents(state.subscriptions)?;
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
        let emptied = before.emptied();
        self.change_state(number, |state| *state = emptied)?;
        let first_due = self.view.first_due(number, &emptied)?.first();
        self.note_due(number, first_due)?;
        self.move_tenants(row.number, number)?;
        self.move_tasks(row.number, number)?;
        self.discard_contents(row.number)
    }

    pub(super) fn put_tombstone(&mut self, queue: &QueueId, last: u64) -> Result<(), Error> {
        let end_us = clock::now_us() + TOMBSTONE_KEPT_US;
        let mut tombstone = Vec::new();
        tombstone.put_u64(end_us);
        tombstone.put_u64(last);
        self.put_registry_until(end_us, &keys::tombstone(queue), &tombstone)
    }

    /// Removes the tombstone. Returns the last rank or fence that an earlier queue of that name may
    /// have assigned; 0 if there was none recently.
    pub(super) fn take_tombstone(&mut self, queue: &QueueId) -> Result<u64, Error> {
        let key = keys::tombstone(queue);
        let Some(tombstone) = self.remove_registry(&key)? else {
            return Ok(0);
        };
        let mut tombstone = tombstone.as_slice();
        let (Ok(end_us), Ok(last)) = (tombstone.try_get_u64(), tombstone.try_get_u64()) else {
            return Err(damaged("a tombstone"));
        };
        self.remove_registry(&keys::ending(keys::EXPIRIES, end_us, &key))?;
        Ok(last)
    }
}

/// Returns the keys of the numbers of queues and of topics that include this queue.
pub(super) fn counts_with(queue: &QueueId) -> impl Iterator<Item = Vec<u8>> {
    let topics = queue.name().topic().map(|_| keys::topic_count(queue.project()));
    [keys::project_count(queue.project())].into_iter().chain(topics)
}

pub(super) fn encode_row(number: u64, revision: Revision, metadata: &Metadata) -> Vec<u8> {
    QueueRow::encode(number, revision, &policy::encode(metadata), &record::from_metadata(metadata))
}
