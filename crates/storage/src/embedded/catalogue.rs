//! The catalogue of queues in the embedded store. A queue that is in a pool has a row like that of
//! a queue, without contents: see `QueueRow::located`.

use std::ops::Bound;

use async_trait::async_trait;

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::{Catalogue, Epoch, Error, Location, LocationPage, NameRange, unless_unreadable};
use sukkal_domain::{PoolName, ProjectId, QueueId};

#[async_trait]
impl Catalogue for EmbeddedStore {
    async fn find_location(&self, queue: &QueueId) -> Result<Option<Location>, Error> {
        let queue = queue.clone();
        self.read(move |view| view.location(&queue)).await
    }

    async fn locate_queue(&self, queue: &QueueId, pool: &PoolName) -> Result<Location, Error> {
        let (queue, pool) = (queue.clone(), pool.clone());
        self.write(0, move |store| store.locate(&queue, &pool).map(Step::Done)).await
    }

    async fn replace_location(
        &self,
        queue: &QueueId,
        known: &Location,
        pool: Option<&PoolName>,
        lowest: Epoch,
    ) -> Result<Option<Location>, Error> {
        let (queue, known, pool) = (queue.clone(), known.clone(), pool.cloned());
        self.write(0, move |store| store.replace(&queue, &known, pool.as_ref(), lowest).map(Step::Done)).await
    }

    async fn remove_location(&self, queue: &QueueId, known: &Location, last_number: u64) -> Result<(), Error> {
        let (queue, known) = (queue.clone(), known.clone());
        self.write(0, move |store| {
            if store.view.location(&queue)?.as_ref() == Some(&known) && known.pool.is_some() {
                store.put_tombstone(&queue, known.epoch.0.max(last_number))?;
                store.remove_row(&queue)?;
            }
            Ok(Step::Done(()))
        })
        .await
    }

    async fn list_locations(
        &self,
        project: &ProjectId,
        names: &NameRange,
        examined_max: usize,
    ) -> Result<LocationPage, Error> {
        let prefix = keys::of_project(keys::QUEUES, project);
        let names = names.clone();
        self.read(move |view| view.locations(&prefix, &names, examined_max)).await
    }

    async fn notify_moved(&self, queue: &QueueId) -> Result<(), Error> {
        self.parts.watchers.notify_all(queue);
        Ok(())
    }
}

impl<T: Table> View<T> {
    /// Returns the location of the queue; `None` if it is not in the catalogue.
    fn location(&self, queue: &QueueId) -> Result<Option<Location>, Error> {
        self.registry.get(&*keys::queue(queue))?.map(|row| location_of(row.value())).transpose()
    }

    fn locations(&self, prefix: &[u8], names: &NameRange, examined_max: usize) -> Result<LocationPage, Error> {
        let (mut page, mut examined) = (LocationPage::default(), 0);
        let Some((from, end)) = keys::in_range(prefix, names) else {
            return Ok(page);
        };
        let range = (from.as_ref().map(Vec::as_slice), Bound::Excluded(&*end));
        for entry in self.registry.range::<&[u8]>(range)?.take(examined_max) {
            let (key, row) = entry?;
            let queue = keys::decode_queue(key.value()).ok_or_else(|| damaged("a queue's name"))?;
            examined += 1;
            page.reached = Some(queue.name().clone()).filter(|_| examined == examined_max);
            let location = location_of(row.value()).map_err(|error| error.of(format_args!("queue {queue}")));
            page.queues.extend(unless_unreadable(location)?.map(|location| (queue.name().clone(), location)));
        }
        Ok(page)
    }
}

fn location_of(row: &[u8]) -> Result<Location, Error> {
    let (row, pool) = QueueRow::decode(row)?;
    let pool = row.is_located().then(|| str::from_utf8(pool).ok().and_then(|pool| pool.parse().ok()));
    match pool {
        Some(None) => Err(damaged("the location of a queue")),
        pool => Ok(Location { pool: pool.flatten(), epoch: Epoch(row.revision.0) }),
    }
}

impl WriteTransaction<'_> {
    fn locate(&mut self, queue: &QueueId, pool: &PoolName) -> Result<Location, Error> {
        if let Some(location) = self.view.location(queue)? {
            return Ok(location);
        }
        let epoch = Epoch(self.now_us(queue).max(self.take_tombstone(queue)? + 1));
        self.add_row(queue, &QueueRow::located(epoch.0, pool))?;
        Ok(Location { pool: Some(pool.clone()), epoch })
    }

    fn replace(
        &mut self,
        queue: &QueueId,
        known: &Location,
        pool: Option<&PoolName>,
        lowest: Epoch,
    ) -> Result<Option<Location>, Error> {
        let location = self.view.location(queue)?;
        if location.as_ref() != Some(known) {
            return Ok(location);
        }
        let (Some(_), Some(pool)) = (&known.pool, pool) else {
            return Err(Error::Unavailable("a queue of the embedded store cannot move to a pool".to_owned()));
        };
        let epoch = Epoch(lowest.0.max(known.epoch.0 + 1));
        self.put_registry(&keys::queue(queue), &QueueRow::located(epoch.0, pool))?;
        Ok(Some(Location { pool: Some(pool.clone()), epoch }))
    }
}
