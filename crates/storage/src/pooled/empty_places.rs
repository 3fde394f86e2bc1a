//! Places of queues that do not exist, which a crash or the loss of a pool leaves in the catalogue,
//! and queues that only a pool has.

use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

use super::PooledStore;
use super::place_walk::PlaceWalk;
use crate::catalogue::MoveState;
use crate::{Check, Driver, Error, Place, QueueStore};
use sukkal_domain::{PoolName, QueueId};

/// Time after which a creation in progress is assumed to have ended.
const CREATION_MAX: Duration = Duration::from_secs(1);

impl PooledStore {
    /// Takes a queue out of the catalogue if its pool does not have it, and did not have it in the
    /// walk before. So a pool that is reached at a wrong address for a while loses nothing.
    pub(super) async fn settle_place(&self, queue: &QueueId) -> Result<(), Error> {
        let Some(place) = self.0.management.find_queue(queue).await? else { return Ok(()) };
        let empty = &self.0.empty_places.0;
        if !self.is_up(place.pool.as_ref()) || !self.is_empty(queue, &place).await? {
            empty.remove(queue);
        } else if empty.get(queue) != Some(place.epoch) {
            empty.insert(queue.clone(), place.epoch);
        } else if self.remove_empty_place(queue, &place).await? {
            empty.remove(queue);
            warn!(%queue, "a queue was in the catalogue, and its pool did not have it; its name was removed");
        }
        Ok(())
    }

    /// Returns whether the place is in a pool that does not have the queue.
    async fn is_empty(&self, queue: &QueueId, place: &Place) -> Result<bool, Error> {
        let Some(pool) = &place.pool else { return Ok(false) };
        self.confirm_pool(place).await?;
        Ok(self.pool(pool)?.redis.move_state(queue).await? == MoveState::Absent)
    }

    /// Compares the catalogue with the pools, and repairs the catalogue if asked to.
    pub(super) async fn check_places(&self, check: &mut Check, must_repair: bool) -> Result<(), Error> {
        if let Some(name) = self.0.pools.all_unusable().keys().next() {
            self.pool(name)?;
        }
        let (mut walk, mut empty) = (PlaceWalk::default(), Vec::new());
        while let Some(queues) = walk.next(&*self.0.management).await? {
            for (queue, place) in queues {
                match &place.pool {
                    Some(pool) if !self.is_listed(pool) => {
                        check.add_finding(&queue, format!("the catalogue has it in pool {pool}, which does not exist"));
                    }
                    _ if self.is_empty(&queue, &place).await? => empty.push((queue, place)),
                    _ => {}
                }
            }
        }
        if !empty.is_empty() {
            sleep(CREATION_MAX).await;
        }
        for (queue, place) in empty {
            let is_same = self.0.management.find_queue(&queue).await?.as_ref() == Some(&place);
            if is_same && self.is_empty(&queue, &place).await? {
                let finding = "the catalogue has it in a pool that does not have it";
                if must_repair && self.remove_empty_place(&queue, &place).await? {
                    check.add_repair(&queue, finding);
                } else {
                    check.add_finding(&queue, finding);
                }
            }
        }
        for (name, pool) in &*self.0.pools.all() {
            let (store, mut walk): (&dyn Driver, _) = (&pool.redis, PlaceWalk::default());
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
        let place = self.0.management.find_queue(queue).await?;
        Ok(place.and_then(|place| place.pool).as_ref() != Some(pool))
    }
}
