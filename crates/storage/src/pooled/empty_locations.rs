//! Locations of queues that do not exist, which a crash or the loss of a pool leaves in the
//! catalogue, and queues that only a pool has.

use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

use super::PooledStore;
use super::location_walk::LocationWalk;
use crate::catalogue::MoveState;
use crate::{Check, Driver, Error, Location, QueueStore};
use sukkal_domain::{PoolName, QueueId};

/// Time after which a creation in progress is assumed to have ended.
const CREATION_MAX: Duration = Duration::from_secs(1);

impl PooledStore {
    /// Takes a queue out of the catalogue if its pool does not have it, and did not have it in the
    /// walk before. So a pool that is reached at a wrong address for a while loses nothing.
    pub(super) async fn resolve_location(&self, queue: &QueueId) -> Result<(), Error> {
        let Some(location) = self.0.management.find_location(queue).await? else { return Ok(()) };
        let empty = &self.0.empty_locations;
        if !self.is_up(location.pool.as_ref()) || !self.is_empty(queue, &location).await? {
            empty.remove(queue);
        } else if empty.get(queue) != Some(location.epoch) {
            empty.insert(queue.clone(), location.epoch);
        } else if self.remove_empty_location(queue, &location).await? {
            empty.remove(queue);
            warn!(%queue, "a queue was in the catalogue, and its pool did not have it; its name was removed");
        }
        Ok(())
    }

    /// Returns whether the location is in a pool that does not have the queue.
    async fn is_empty(&self, queue: &QueueId, location: &Location) -> Result<bool, Error> {
        let Some(pool) = &location.pool else { return Ok(false) };
        self.confirm_pool(location).await?;
        Ok(self.pool(pool)?.redis.move_state(queue).await? == MoveState::Absent)
    }

    /// Compares the catalogue with the pools, and repairs the catalogue if asked to.
    pub(super) async fn check_places(&self, check: &mut Check, must_repair: bool) -> Result<(), Error> {
        self.check_usable()?;
        let (mut walk, mut empty) = (LocationWalk::default(), Vec::new());
        while let Some(queues) = walk.next(&*self.0.management).await? {
            for (queue, location) in queues {
                match &location.pool {
                    Some(pool) if !self.is_listed(pool) => {
                        check.add_finding(&queue, format!("the catalogue has it in pool {pool}, which does not exist"));
                    }
                    _ if self.is_empty(&queue, &location).await? => empty.push((queue, location)),
                    _ => {}
                }
            }
        }
        if !empty.is_empty() {
            sleep(CREATION_MAX).await;
        }
        for (queue, location) in empty {
            let is_same = self.0.management.find_location(&queue).await?.as_ref() == Some(&location);
            if is_same && self.is_empty(&queue, &location).await? {
                let finding = "the catalogue has it in a pool that does not have it";
                if must_repair && self.remove_empty_location(&queue, &location).await? {
                    check.add_repair(&queue, finding);
                } else {
                    check.add_finding(&queue, finding);
                }
            }
        }
        for (name, pool) in &*self.0.pools.all() {
            let (store, mut walk): (&dyn Driver, _) = (&pool.redis, LocationWalk::default());
            while let Some(queues) = walk.next(store).await? {
                for (queue, _place) in queues {
                    let exists = pool.redis.get_queue(&queue).await?.is_some();
                    if exists && self.is_missing(&queue, name).await? && pool.redis.get_queue(&queue).await?.is_some() {
                        check.add_finding(&queue, format!("pool {name} has it, but the catalogue does not"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether the catalogue does not have the queue in this pool.
    async fn is_missing(&self, queue: &QueueId, pool: &PoolName) -> Result<bool, Error> {
        let location = self.0.management.find_location(queue).await?;
        Ok(location.and_then(|location| location.pool).as_ref() != Some(pool))
    }
}
