//! Moves a queue to another pool.
//!
//! The catalogue decides where the queue is at each moment. A move gives its location a new epoch,
//! the *label* of the move, pauses the queue in the store that it leaves, copies it, and then gives
//! it the location in the other pool under the next epoch. If instead its old location gets the
//! next epoch, the move is undone. Each store compares its label with the epoch of the catalogue:
//! so every process knows which of the two stores has the queue, and can end or undo the move of
//! one that has died (`resolve.rs`). Operations wait meanwhile (`waiting.rs`).

mod resolve;
mod waiting;

use std::sync::Arc;

use tracing::{debug, warn};

use super::PooledStore;
use super::live_pools::LivePool;
use crate::redis::RedisStore;
use crate::{Epoch, Error, Location, Maintenance, MessageStore, Moved, QueueStore, StoredPool};
use sukkal_domain::{PoolName, Queue, QueueId};

/// Maximum number of attempts to move a queue, each of which follows a concurrent deletion or move.
const ATTEMPTS_MAX: usize = 8;

impl PooledStore {
    /// Moves the queue to this pool: see [`crate::PoolStore::move_queue`].
    pub(super) async fn move_to(&self, queue: &QueueId, pool: &PoolName) -> Result<Moved, Error> {
        match self.try_to_move(queue, pool).await {
            Err(error @ (Error::Unavailable(_) | Error::NotSent(_))) => {
                Err(self.pool_down_in_move(queue, pool).await.map_or(error, Error::PoolOfMoveDown))
            }
            outcome => outcome,
        }
    }

    /// Returns the pool of a failed move that is down, if one is.
    async fn pool_down_in_move(&self, queue: &QueueId, target: &PoolName) -> Option<PoolName> {
        let source = self.0.management.find_location(queue).await.ok().flatten().and_then(|location| location.pool);
        for name in [Some(target.clone()), source].into_iter().flatten() {
            if let Ok(pool) = self.pool(&name)
                && pool.redis.ping().await.is_err()
            {
                return Some(name);
            }
        }
        None
    }

    async fn try_to_move(&self, queue: &QueueId, pool: &PoolName) -> Result<Moved, Error> {
        for _ in 0..ATTEMPTS_MAX {
            self.refresh_pools().await?;
            let Some(target) =
                self.0.pools.all().get(pool).filter(|pool| !pool.config.is_retired && !pool.is_closed).cloned()
            else {
                return Ok(Moved::NoPool);
            };
            // This waits for the end of another move, and undoes one whose process has died.
            let Some(Queue { metadata, .. }) = self.get_queue(queue).await? else { return Ok(Moved::NoQueue) };
            let Some(location) = self.0.management.find_location(queue).await? else { return Ok(Moved::NoQueue) };
            if location.pool.as_ref() == Some(pool) {
                return Ok(Moved::Done);
            }
            let Some(source) = self.redis_at(location.pool.as_ref())? else { return Ok(Moved::CannotLeave) };
            if source.needs_upgrade().await? != target.redis.needs_upgrade().await? {
                let reason = "the pools have different layouts; run `sukkal upgrade` first";
                return Err(Error::Unsupported(reason.to_owned()));
            }
            let database = target.redis.database_id().await?;
            if source.database_id().await? == database {
                return Ok(Moved::SameDatabase);
            }
            if self.is_management_store(&database).await? {
                return Ok(Moved::IsManagementStore);
            }
            if let Some(level) = metadata.durability() {
                match target.redis.check_durability(queue, level).await {
                    Err(Error::Unsupported(_) | Error::TooFewReplicas { .. }) => return Ok(Moved::OutOfReach(level)),
                    checked => checked?,
                }
            }
            let label = Epoch(location.epoch.0 + 1);
            let begun = Location { pool: location.pool.clone(), epoch: label };
            if self.give_location(queue, &location, &begun).await? {
                return Move { pooled: self, queue, begun, source, target }.run().await;
            }
        }
        Err(Error::Unavailable(format!("queue {queue} was deleted or moved during each of {ATTEMPTS_MAX} attempts")))
    }

    /// Replaces the location of a queue in the catalogue by exactly this one, if it still is the
    /// known one. Returns whether the queue has the new location then.
    async fn give_location(&self, queue: &QueueId, known: &Location, location: &Location) -> Result<bool, Error> {
        let now = self.0.management.replace_location(queue, known, location.pool.as_ref(), location.epoch).await?;
        Ok(now.as_ref() == Some(location))
    }

    /// Returns the store of a pool; `None` if it is the embedded management store.
    pub(super) fn redis_at(&self, pool: Option<&PoolName>) -> Result<Option<RedisStore>, Error> {
        match pool {
            None => Ok(self.0.virtual_redis.clone()),
            Some(pool) => Ok(Some(self.pool(pool)?.redis.clone())),
        }
    }
}

/// A move that has begun.
struct Move<'a> {
    pooled: &'a PooledStore,
    queue: &'a QueueId,
    /// The location that the queue leaves, with the label of the move as its epoch.
    begun: Location,
    source: RedisStore,
    target: Arc<LivePool>,
}

impl Move<'_> {
    async fn run(self) -> Result<Moved, Error> {
        let Self { pooled, queue, begun, target, .. } = &self;
        let label = begun.epoch;
        if let Err(error) = self.copy().await {
            self.undo().await;
            return if error == Error::NoQueue { Ok(Moved::NoQueue) } else { Err(error) };
        }
        let located = Location { pool: Some(target.config.name.clone()), epoch: Epoch(label.0 + 1) };
        // If the outcome is not known, the next operation on the queue finds it out.
        if !pooled.give_location(queue, begun, &located).await? {
            target.redis.discard_move(queue, label).await?;
            return Err(Error::Unavailable(format!("queue {queue} was deleted or moved elsewhere meanwhile")));
        }
        self.keep_pool().await?;
        target.redis.end_move(queue, located.epoch).await?;
        pooled.locate_at(queue, located).await?;
        pooled.notify_of_location(queue).await;
        if let Err(error) = self.source.discard_move(queue, label).await {
            warn!(%queue, %error, "cannot remove a queue from the pool that it has left; maintenance tries again");
        }
        if let Err(error) = target.redis.maintain_queue(queue).await {
            debug!(%queue, %error, "cannot apply what is due in a queue that has moved; maintenance tries again");
        }
        Ok(Moved::Done)
    }

    async fn copy(&self) -> Result<(), Error> {
        let Self { queue, begun, source, target, .. } = self;
        let label = begun.epoch;
        target.redis.begin_copy(queue, label).await?;
        let frozen = source.freeze_queue(queue, label).await?;
        source.copy_frozen(queue, label, &frozen, &target.redis).await?;
        let name = &target.config.name;
        self.pooled.refresh_pools().await?;
        // A pool that was removed from the list comes back: see `keep_pool`.
        match self.pooled.pool(name) {
            Ok(now) if now.is_closed || !now.config.uri.is_same_store(&target.config.uri) => {
                Err(Error::Unavailable(format!("the address of pool {name} has changed meanwhile")))
            }
            _ => Ok(()),
        }
    }

    /// Undoes the move. If this fails, the next operation on the queue does it, or maintenance.
    async fn undo(&self) {
        let Self { pooled, queue, begun, source, target } = self;
        let undone = Location { pool: begun.pool.clone(), epoch: Epoch(begun.epoch.0 + 1) };
        let outcome = async {
            if pooled.give_location(queue, begun, &undone).await? {
                source.end_move(queue, undone.epoch).await?;
                pooled.notify_of_location(queue).await;
            }
            target.redis.discard_move(queue, begun.epoch).await
        };
        if let Err(error) = outcome.await {
            debug!(%queue, %error, "cannot undo a move; it is undone later");
        }
    }

    /// Keeps the pool that has the queue from now on in the list of pools, if it was retired and
    /// removed just before it got the queue.
    async fn keep_pool(&self) -> Result<(), Error> {
        let (pooled, config) = (self.pooled, &self.target.config);
        loop {
            let Some(mut list) = pooled.0.management.load_pools(None).await? else { return Ok(()) };
            if list.pools.iter().any(|stored| stored.pool.name == config.name) {
                return Ok(());
            }
            let mut config = config.clone();
            config.is_retired = true;
            let stored = StoredPool::new(config, pooled.0.options.cipher.as_deref());
            list.pools.push(stored.map_err(|error| Error::Unavailable(error.to_string()))?);
            list.pools.sort_by(|one, other| one.pool.name.cmp(&other.pool.name));
            if pooled.0.management.replace_pools(list.version.clone().as_ref(), &list).await? {
                return pooled.refresh_pools().await;
            }
        }
    }
}
