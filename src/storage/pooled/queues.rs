//! Queues in pools: create, get, update, delete and pause.

use async_trait::async_trait;
use tracing::debug;

use super::PooledStore;
use super::search::{at, at_existing};
use crate::domain::{Creation, Metadata, PoolName, ProjectId, Queue, QueueId, Revision, Summary};
use crate::storage::{
    Epoch, Error, Place, PlacedCreation, ProjectPage, QueueListing, QueuePage, QueueStore, UpdateOutcome,
};

/// Maximum number of attempts to create a queue, each of which follows a concurrent deletion or a
/// move.
const ATTEMPTS_MAX: usize = 32;

#[async_trait]
impl QueueStore for PooledStore {
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let place = match self.0.management.find_queue(queue).await? {
                Some(place) => place,
                None => match self.choose_pool(metadata)? {
                    Some(pool) => match self.place_in(queue, pool).await? {
                        Some(place) => place,
                        None => continue,
                    },
                    None => Place { pool: None, epoch: Epoch(0) },
                },
            };
            if let Some(creation) = self.create_at(queue, metadata, &place).await? {
                if creation == Creation::Created {
                    self.announce(queue).await;
                }
                return Ok(creation);
            }
        }
        Err(changes_too_often(queue))
    }

    async fn get_queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error> {
        match at_existing!(self, queue, store => async { store.get_queue(queue).await?.ok_or(Error::NoQueue) }) {
            Err(Error::NoQueue) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn update_queue(
        &self,
        queue: &QueueId,
        last_known_revision: Revision,
        metadata: &Metadata,
    ) -> Result<UpdateOutcome, Error> {
        at!(self, queue, store => store.update_queue(queue, last_known_revision, metadata))
    }

    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error> {
        let Some(place) = self.0.management.find_queue(queue).await? else {
            return Ok(());
        };
        match &place.pool {
            None => self.0.management.delete_queue(queue).await?,
            Some(pool) => {
                let last_number = self.pool(pool)?.redis.delete_placed_queue(queue, place.epoch).await?;
                self.0.management.remove_place(queue, &place, last_number).await?;
            }
        }
        self.0.places.forget(queue);
        Ok(())
    }

    async fn pause_queue(&self, queue: &QueueId) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            match at_existing!(self, queue, store => store.pause_queue(queue)) {
                Err(Error::NoQueue) => self.create_queue(queue, &Metadata::default()).await?,
                paused => return paused,
            };
        }
        Err(changes_too_often(queue))
    }

    async fn resume_queue(&self, queue: &QueueId) -> Result<(), Error> {
        at!(self, queue, store => store.resume_queue(queue))
    }

    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing<'_>) -> Result<QueuePage, Error> {
        self.list_placed_queues(project, listing).await
    }

    async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error> {
        self.0.management.count_queues(project).await
    }

    async fn summarize_queues(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error> {
        self.summarize_placed_queues(queues).await
    }

    async fn list_projects(&self, after: Option<&ProjectId>, examined_max: usize) -> Result<ProjectPage, Error> {
        self.0.management.list_projects(after, examined_max).await
    }
}

impl PooledStore {
    /// Puts a new queue into this pool. Returns `None` if the pool was retired since it was chosen.
    ///
    /// A pool is retired before the catalogue is searched for its queues. So if it was not retired
    /// after the queue was placed, it is not removed while it has the queue.
    async fn place_in(&self, queue: &QueueId, pool: PoolName) -> Result<Option<Place>, Error> {
        let place = self.0.management.place_queue(queue, &pool).await?;
        self.refresh_pools().await?;
        if place.pool != Some(pool) || self.accepts_queues(place.pool.as_ref()) {
            return Ok(Some(place));
        }
        self.0.management.remove_place(queue, &place, 0).await?;
        Ok(None)
    }

    /// Creates the queue at this place. Returns `None` if it has another place by now.
    async fn create_at(&self, queue: &QueueId, metadata: &Metadata, place: &Place) -> Result<Option<Creation>, Error> {
        let Some(pool) = &place.pool else {
            return match self.0.management.create_queue(queue, metadata).await {
                Err(Error::NoQueue) => Ok(None),
                created => created.map(Some),
            };
        };
        match self.pool(pool)?.redis.create_placed_queue(queue, metadata, place.epoch).await? {
            PlacedCreation::Done(creation) => {
                self.locate_at(queue, place.clone()).await?;
                Ok(Some(creation))
            }
            PlacedCreation::Ended(epoch) => {
                // The queue was deleted meanwhile, or a deletion was interrupted.
                self.0.management.replace_place(queue, place, pool, Epoch(epoch.0 + 1)).await?;
                Ok(None)
            }
        }
    }

    /// Notifies the processes whose clients wait for messages of a queue, because it has another place
    /// now. A notification that is lost delays those clients, until they look again by themselves.
    pub(super) async fn announce(&self, queue: &QueueId) {
        if let Err(error) = self.0.management.announce_place(queue).await {
            debug!(%queue, %error, "cannot announce the place of a queue");
        }
    }
}

fn changes_too_often(queue: &QueueId) -> Error {
    Error::Unavailable(format!("queue {queue} was deleted or moved during each of {ATTEMPTS_MAX} attempts"))
}
