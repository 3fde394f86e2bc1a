//! Queues in pools: create, get, update, delete and pause.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::join;
use tokio::time::timeout;
use tracing::debug;

use super::PooledStore;
use super::search::{at, at_existing};
use crate::{Epoch, Error, LocatedCreation, Location, ProjectPage, QueueListing, QueuePage, QueueStore, UpdateOutcome};
use sukkal_domain::{
    Creation, Durability, Metadata, PoolName, ProjectId, Queue, QueueId, QueueKind, Revision, Summary,
};

/// Maximum number of attempts to create a queue, each of which follows a concurrent deletion or a
/// move.
const ATTEMPTS_MAX: usize = 32;
/// Maximum duration of an attempt to end the epoch of a refused queue in its pool. The location may
/// take three times as long to be removed.
const GIVE_BACK_MAX: Duration = Duration::from_millis(500);

#[async_trait]
impl QueueStore for PooledStore {
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        self.create_where_possible(queue, metadata, None).await
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
        let deadline = self.move_deadline();
        let mut location = self.0.management.find_location(queue).await?;
        for _ in 0..ATTEMPTS_MAX {
            let Some(known) = location else { return Ok(()) };
            match self.delete_at(queue, &known).await {
                // Also resolves what a move has left in the management store.
                Err(Error::NoQueue) => {
                    self.resolve(queue, known.pool.as_ref(), deadline).await?;
                    self.resolve(queue, None, deadline).await?;
                    location = self.0.management.find_location(queue).await?;
                    continue;
                }
                deleted => deleted?,
            }
            self.0.locations.remove(queue);
            // If a move was faster, the queue has another location.
            location = self.0.management.find_location(queue).await?;
            if location.as_ref().is_some_and(|location| !is_after_move(&known, location)) {
                return Ok(());
            }
        }
        Err(changes_too_often(queue))
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

    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing) -> Result<QueuePage, Error> {
        self.list_located_queues(project, listing).await
    }

    async fn count_queues(&self, project: &ProjectId, kind: Option<QueueKind>) -> Result<u64, Error> {
        self.0.management.count_queues(project, kind).await
    }

    async fn summarize_queues(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error> {
        self.summarize_located_queues(queues).await
    }

    async fn list_projects(&self, after: Option<&ProjectId>, examined_max: usize) -> Result<ProjectPage, Error> {
        self.0.management.list_projects(after, examined_max).await
    }
}

impl PooledStore {
    /// Creates the queue where a post to it can reach this level and that of the metadata. If it is
    /// located already, only the level of the post counts.
    pub(super) async fn create_where_possible(
        &self,
        queue: &QueueId,
        metadata: &Metadata,
        of_post: Option<Durability>,
    ) -> Result<Creation, Error> {
        let deadline = self.move_deadline();
        let mut refusal = None;
        for _ in 0..ATTEMPTS_MAX {
            let location = match self.0.management.find_location(queue).await? {
                Some(location) => {
                    self.confirm_pool(&location).await?;
                    if let Some(level) = of_post {
                        self.locate_at(queue, location.clone()).await?.check_durability(queue, level).await?;
                    }
                    location
                }
                None => match self.choose_pool(queue, metadata, of_post.or(metadata.durability())).await? {
                    Some(pool) if self.pool(&pool)?.refused_until.is_in_future() && refusal.is_some() => break,
                    Some(pool) => match self.locate_in(queue, pool).await? {
                        Some(location) => location,
                        None => continue,
                    },
                    None => Location { pool: None, epoch: Epoch(0) },
                },
            };
            match self.create_at(queue, metadata, &location).await {
                Ok(Some(Creation::Created)) => {
                    // If the pool seemed to refuse the queue to another process, it has another
                    // location.
                    let ((), now) = join(self.notify_of_location(queue), self.0.management.find_location(queue)).await;
                    if location.pool.is_none() || now?.is_some_and(|now| now.pool == location.pool) {
                        return Ok(Creation::Created);
                    }
                }
                Ok(Some(Creation::Existed)) => return Ok(Creation::Existed),
                Ok(None) => {
                    self.resolve(queue, location.pool.as_ref(), deadline).await?;
                }
                Err(error) => {
                    let may_retry = self.give_back(queue, &location).await
                        && matches!(error, Error::DiskFull(_) | Error::MemoryFull(_));
                    if !may_retry {
                        return Err(error);
                    }
                    refusal = Some(error);
                }
            }
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        Err(changes_too_often(queue))
    }

    /// Puts a new queue into this pool. Returns `None` if the pool was retired since it was chosen.
    ///
    /// A pool is retired before the catalogue is searched for its queues. So if it was not retired
    /// after the queue was located, it is not removed while it has the queue.
    async fn locate_in(&self, queue: &QueueId, pool: PoolName) -> Result<Option<Location>, Error> {
        let location = self.0.management.locate_queue(queue, &pool).await?;
        self.confirm_pool(&location).await?;
        if location.pool.as_ref() != Some(&pool) || self.accepts_queues(Some(&pool)) {
            return Ok(Some(location));
        }
        if self.is_listed(&pool) {
            let is_removed = self.remove_empty_location(queue, &location).await?;
            return Ok((!is_removed).then_some(location));
        }
        self.0.management.remove_location(queue, &location, 0).await?;
        Ok(None)
    }

    /// Makes sure that this process knows the address of the pool of a location, which was read
    /// from the catalogue before. The address does not change while the location is there: see
    /// `broker/pools.rs`.
    pub(super) async fn confirm_pool(&self, location: &Location) -> Result<(), Error> {
        if location.pool.is_some() { self.refresh_pools().await } else { Ok(()) }
    }

    /// Takes a queue out of the catalogue if its pool does not have it. Returns whether it is out.
    ///
    /// First the pool ends the epoch of the location. So a creation that is in progress needs
    /// another location.
    pub(super) async fn remove_empty_location(&self, queue: &QueueId, location: &Location) -> Result<bool, Error> {
        let Some(pool) = &location.pool else { return Ok(false) };
        self.confirm_pool(location).await?;
        match self.pool(pool)?.redis.end_absent_queue(queue, location.epoch).await {
            Ok(Some(last_number)) => {
                self.0.management.remove_location(queue, location, last_number).await?;
                Ok(true)
            }
            Ok(None) | Err(Error::NoQueue) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes a queue that its pool has refused to create out of the catalogue, so that the next
    /// attempt can choose another pool. Returns whether it is out.
    async fn give_back(&self, queue: &QueueId, location: &Location) -> bool {
        let Some(Ok(pool)) = location.pool.as_ref().map(|pool| self.pool(pool)) else { return false };
        let given_back = async {
            if let Ok(Ok(is_removed)) = timeout(GIVE_BACK_MAX, self.remove_empty_location(queue, location)).await {
                return Ok(is_removed);
            }
            // A pool that answers without the queue cannot write.
            if pool.redis.get_queue(queue).await?.is_some() {
                return Ok(false);
            }
            self.0.management.remove_location(queue, location, 0).await?;
            Ok::<_, Error>(true)
        };
        let is_given_back = timeout(3 * GIVE_BACK_MAX, given_back).await.is_ok_and(|outcome| outcome == Ok(true));
        if is_given_back {
            pool.refused_until.renew();
        }
        is_given_back
    }

    /// Deletes the queue at this location, and the location.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueue`] if a move of the queue must be resolved first.
    async fn delete_at(&self, queue: &QueueId, location: &Location) -> Result<(), Error> {
        self.confirm_pool(location).await?;
        let Some(store) = self.redis_at(location.pool.as_ref())? else {
            return self.0.management.delete_queue(queue).await;
        };
        let last_number = store.delete_located_queue(queue, location.epoch).await?;
        if location.pool.is_none() {
            Ok(())
        } else {
            self.0.management.remove_location(queue, location, last_number).await
        }
    }

    /// Creates the queue at this location. Returns `None` if it has another location by now, or if
    /// a move of it must be resolved first.
    async fn create_at(
        &self,
        queue: &QueueId,
        metadata: &Metadata,
        location: &Location,
    ) -> Result<Option<Creation>, Error> {
        let Some(pool) = &location.pool else {
            return match self.0.management.create_queue(queue, metadata).await {
                Err(Error::NoQueue) => Ok(None),
                created => created.map(Some),
            };
        };
        let created = match self.pool(pool)?.redis.create_located_queue(queue, metadata, location.epoch).await {
            Err(Error::NoQueue) => return Ok(None),
            created => created?,
        };
        match created {
            LocatedCreation::Done(creation) => {
                self.locate_at(queue, location.clone()).await?;
                Ok(Some(creation))
            }
            LocatedCreation::Ended(epoch) => {
                // The queue was deleted meanwhile, or a deletion was interrupted.
                self.0.management.replace_location(queue, location, Some(pool), Epoch(epoch.0 + 1)).await?;
                Ok(None)
            }
        }
    }

    /// Notifies the processes whose clients wait for messages of a queue, because it has another
    /// location now. A notification that is lost delays those clients, until they look again by
    /// themselves.
    pub(super) async fn notify_of_location(&self, queue: &QueueId) {
        if let Err(error) = self.0.management.notify_moved(queue).await {
            debug!(%queue, %error, "cannot notify of the location of a queue");
        }
    }
}

/// Returns whether a queue that had a known location has this one because it was moved, or a move
/// of it has begun or was undone.
fn is_after_move(known: &Location, location: &Location) -> bool {
    location.pool != known.pool || location.epoch.0 == known.epoch.0 + 1
}

fn changes_too_often(queue: &QueueId) -> Error {
    Error::Unavailable(format!("queue {queue} was deleted or moved during each of {ATTEMPTS_MAX} attempts"))
}
