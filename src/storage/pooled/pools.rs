//! The pools that a process uses: their stores, their states, and the choice of one for a new queue.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::PooledStore;
use super::live_pools::LivePool;
use crate::domain::{Durability, Metadata, Pool, PoolName, QueueId};
use crate::storage::redis::RedisStore;
use crate::storage::{DeliveryStore, Driver, Error, Maintenance, Monitoring, PoolState, Processed, Schedule};

/// Time between two requests that show whether a pool is up.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

impl PooledStore {
    /// Uses exactly these pools from now on. Their URIs are complete.
    pub fn set_pools(&self, pools: Vec<Pool>) {
        let before = self.0.pools.all();
        let mut live = BTreeMap::new();
        for config in pools {
            let name = config.name.clone();
            match before.get(&name).filter(|pool| pool.config.uri == config.uri) {
                Some(pool) if pool.config == config => drop(live.insert(name, pool.clone())),
                pool => match self.open_pool(config, pool.map(|pool| pool.redis.clone())) {
                    Ok(pool) => drop(live.insert(name, Arc::new(pool))),
                    Err(error) => warn!(pool = %name, %error, "cannot use a pool"),
                },
            }
        }
        for (name, pool) in &*before {
            let is_used = live.get(name).is_some_and(|now| now.config.uri == pool.config.uri);
            if !is_used {
                debug!(pool = %name, "a connection to a pool is not used any more");
                pool.redis.close();
                let mut processed = self.0.pools.processed_before.write().unwrap_or_else(PoisonError::into_inner);
                *processed += pool.redis.processed();
            }
        }
        let is_reopened = |(name, pool): &(&PoolName, &Arc<LivePool>)| {
            live.get(*name).is_some_and(|now| now.config.uri != pool.config.uri)
        };
        let reopened: Vec<PoolName> = before.iter().filter(is_reopened).map(|(name, _)| name.clone()).collect();
        *self.0.pools.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
        self.0.places.clear();
        for pool in &reopened {
            self.follow_reopened_pool(pool);
        }
    }

    /// Opens a pool, over the store that is open already if there is one.
    fn open_pool(&self, config: Pool, open: Option<RedisStore>) -> Result<LivePool, Error> {
        let redis = if let Some(redis) = open {
            redis
        } else {
            let watchers = self.0.management.watchers().clone();
            let redis = self.0.options.redis.open_sharing(&config.uri, watchers).map_err(Error::Unavailable)?;
            redis.set_destinations(self.destinations());
            redis
        };
        let (report, failure) = watch::channel(None);
        let tasks = [
            tokio::spawn(watch_pool(config.name.clone(), redis.clone(), report)),
            tokio::spawn(maintain_pool(config.name.clone(), redis.clone(), self.0.options.schedule)),
            tokio::spawn(self.forwarder(redis.delivery_signals())),
        ];
        let store = Arc::new(redis.requiring_queues());
        Ok(LivePool { config, redis, store, failure, _tasks: tasks.map(AbortOnDropHandle::new) })
    }

    /// Returns the pool with this name.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if this process does not know the pool.
    pub(super) fn pool(&self, name: &PoolName) -> Result<Arc<LivePool>, Error> {
        let pool = self.0.pools.all().get(name).cloned();
        pool.ok_or_else(|| Error::Unavailable(format!("this process does not know the pool {name} yet")))
    }

    /// Returns whether a pool can be used, as far as this process knows.
    pub(super) fn is_up(&self, pool: Option<&PoolName>) -> bool {
        pool.is_none_or(|name| self.0.pools.all().get(name).is_some_and(|pool| pool.is_up()))
    }

    /// Returns whether new queues may be in this pool.
    pub(super) fn accepts_queues(&self, pool: Option<&PoolName>) -> bool {
        pool.is_none_or(|name| self.0.pools.all().get(name).is_some_and(|pool| !pool.config.is_retired))
    }

    /// Returns the pools that get no new queues.
    pub(super) fn retired_pools(&self) -> Vec<PoolName> {
        let pools = self.0.pools.all();
        pools.iter().filter(|(_, pool)| pool.config.is_retired).map(|(name, _)| name.clone()).collect()
    }

    /// Returns all stores: the management store, and the pools in the order of their names.
    pub(super) fn stores(&self) -> Vec<Arc<dyn Driver>> {
        let pools = self.0.pools.all();
        let pools = pools.values().map(|pool| Arc::new(pool.redis.clone()) as Arc<dyn Driver>);
        [self.0.management.clone()].into_iter().chain(pools).collect()
    }

    /// Returns the states of the pools, in the order of their names.
    pub(super) fn states(&self) -> Vec<PoolState> {
        let pools = self.0.pools.all();
        pools.iter().map(|(name, pool)| PoolState { name: name.clone(), failure: pool.failure() }).collect()
    }

    /// Returns what this process has processed in all stores.
    pub(super) fn processed_in_all(&self) -> Processed {
        let mut sum = *self.0.pools.processed_before.read().unwrap_or_else(PoisonError::into_inner);
        for store in self.stores() {
            sum += store.processed();
        }
        sum
    }

    /// Chooses a pool for a new queue; `None` for the virtual pool. With a level of durability,
    /// chooses only among the pools where posts can reach it at present.
    ///
    /// # Errors
    ///
    /// Those of [`Self::choose_among`], and those of `check_durability` if no pool can reach the
    /// level.
    pub(super) async fn choose_pool(
        &self,
        queue: &QueueId,
        metadata: &Metadata,
        level: Option<Durability>,
    ) -> Result<Option<PoolName>, Error> {
        let (mut excluded, mut refusal) = (Vec::new(), None::<Error>);
        loop {
            let pool = match self.choose_among(metadata, &excluded) {
                Ok(pool) => pool,
                Err(error) => return Err(refusal.unwrap_or(error)),
            };
            let Some(level) = level else { return Ok(pool) };
            let error = match self.store_of(pool.as_ref())?.check_durability(queue, level).await {
                Ok(()) => return Ok(pool),
                Err(error) => error,
            };
            let Some(pool) = pool else { return Err(error) };
            // If any pool may be able to reach the level later, so may a retry.
            refusal = Some(refusal.filter(Error::is_transient).unwrap_or(error));
            excluded.push(pool);
        }
    }

    /// Chooses a pool for a new queue, at random by the weights; `None` for the virtual pool. A queue
    /// gets a pool of its flavor, or one without a flavor if it asks for none.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if there is no pool for the queue, or if all of them are down or
    /// excluded.
    fn choose_among(&self, metadata: &Metadata, excluded: &[PoolName]) -> Result<Option<PoolName>, Error> {
        let flavor = metadata.flavor();
        let pools = self.0.pools.all();
        let eligible: Vec<&Arc<LivePool>> = pools.values().filter(|pool| pool.accepts(flavor)).collect();
        if eligible.is_empty() {
            return match flavor {
                None if self.0.options.has_virtual_pool => Ok(None),
                None => Err(Error::Unavailable("there is no pool for new queues".to_owned())),
                Some(flavor) => Err(Error::Unavailable(format!("flavor {flavor} has no pool for new queues"))),
            };
        }
        let up = eligible.into_iter().filter(|pool| pool.is_up() && !excluded.contains(&pool.config.name));
        let weighted: Vec<(u64, &PoolName)> =
            up.map(|pool| (u64::from(pool.config.weight), &pool.config.name)).collect();
        let total: u64 = weighted.iter().map(|(weight, _)| weight).sum();
        if total == 0 {
            return Err(Error::Unavailable("all pools for this queue are down".to_owned()));
        }
        let mut left = fastrand::u64(..total);
        for (weight, name) in weighted {
            if left < weight {
                return Ok(Some(name.clone()));
            }
            left -= weight;
        }
        unreachable!("the number is less than the sum of the weights")
    }
}

/// Reports whether a pool can be used, until it is dropped.
async fn watch_pool(name: PoolName, redis: RedisStore, report: watch::Sender<Option<String>>) {
    let unusable = async {
        let reason = redis.becomes_unusable().await;
        warn!(pool = %name, reason, "this release cannot use a pool");
        reason
    };
    let probing = async {
        loop {
            let failure = redis.ping().await.err().map(|error| error.reason().to_owned());
            report.send_if_modified(|known| {
                let is_changed = known.is_some() != failure.is_some();
                match (&failure, is_changed) {
                    (Some(reason), true) => warn!(pool = %name, reason, "a pool is down"),
                    (None, true) => info!(pool = %name, "a pool is up again"),
                    (_, false) => {}
                }
                *known = failure;
                is_changed
            });
            sleep(PROBE_INTERVAL).await;
        }
    };
    tokio::select! {
        reason = unusable => {
            let _no_receiver = report.send(Some(reason));
            std::future::pending::<()>().await;
        }
        () = probing => {}
    }
}

/// Maintains a pool until it is dropped.
async fn maintain_pool(name: PoolName, redis: RedisStore, schedule: Schedule) {
    loop {
        sleep(schedule.pause).await;
        if let Err(error) = redis.maintain(&schedule).await {
            if error.is_transient() {
                debug!(pool = %name, %error, "maintenance waits for a pool");
            } else {
                warn!(pool = %name, %error, "maintenance of a pool could not finish a round");
            }
        }
        if redis.has_full_disk() {
            let _shown_by_metrics = redis.probe().await;
        }
    }
}
