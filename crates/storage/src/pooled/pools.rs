//! The pools that a process uses: their stores, their states, and the choice of one for a new
//! queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::PooledStore;
use super::databases;
use super::live_pools::{ListedPool, LivePool, RefusedUntil, UnusablePool, accepts};
use crate::redis::RedisStore;
use crate::{DeliveryStore, Driver, Error, Maintenance, Monitoring, PoolState, Processed, Schedule};
use sukkal_domain::{Durability, Metadata, Pool, PoolName, QueueId};

/// Time between two requests that show whether a pool is up.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

impl PooledStore {
    /// Uses exactly these pools from now on. Their URIs are complete.
    pub fn set_pools(&self, pools: Vec<Pool>) {
        let listed = |config| ListedPool { config, is_closed: false, failure: None };
        self.use_pools(pools.into_iter().map(listed).collect());
    }

    /// Uses exactly the pools of the list from now on.
    pub(super) fn use_pools(&self, listed: Vec<ListedPool>) {
        let before = self.0.pools.all();
        let (mut live, mut unusable) = (BTreeMap::new(), BTreeMap::new());
        for ListedPool { config, is_closed, failure } in listed {
            let name = config.name.clone();
            let open = before.get(&name).filter(|pool| pool.config.uri == config.uri);
            let is_same = |pool: &&Arc<LivePool>| pool.config == config && pool.is_closed == is_closed;
            let opened = match (failure, open) {
                (Some(failure), _) => Err(failure),
                (None, Some(pool)) if is_same(&pool) => Ok(pool.clone()),
                (None, pool) => {
                    let pool = self.open_pool(config.clone(), is_closed, pool.map(|pool| pool.redis.clone()));
                    pool.map(Arc::new).map_err(|error| error.reason().to_owned())
                }
            };
            match opened {
                Ok(pool) => drop(live.insert(name, pool)),
                Err(failure) => {
                    warn!(pool = %name, reason = failure, "cannot use a pool");
                    unusable.insert(name, UnusablePool { config, failure });
                }
            }
        }
        for (name, pool) in &*before {
            let is_used = live.get(name).is_some_and(|now| now.config.uri == pool.config.uri);
            if !is_used {
                debug!(pool = %name, "a connection to a pool is not used any more");
                pool.redis.close();
                let mut processed = self.0.pools.processed_before.write();
                *processed += pool.redis.processed();
            }
        }
        let is_reopened = |(name, pool): &(&PoolName, &Arc<LivePool>)| {
            live.get(*name).is_some_and(|now| now.config.uri != pool.config.uri)
        };
        let reopened: Vec<PoolName> = before.iter().filter(is_reopened).map(|(name, _)| name.clone()).collect();
        *self.0.pools.live.write() = Arc::new(live);
        *self.0.pools.unusable.write() = Arc::new(unusable);
        self.0.locations.clear();
        for pool in &reopened {
            self.follow_reopened_pool(pool);
        }
    }

    /// Opens a pool, over the store that is open already if there is one.
    fn open_pool(&self, config: Pool, is_closed: bool, open: Option<RedisStore>) -> Result<LivePool, Error> {
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
            tokio::spawn(watch_pool(config.name.clone(), redis.clone(), self.0.virtual_redis.clone(), report)),
            tokio::spawn(maintain_pool(config.name.clone(), redis.clone(), self.0.options.schedule)),
            tokio::spawn(self.forwarder(redis.delivery_signals())),
        ];
        let store = Arc::new(redis.requiring_queues());
        Ok(LivePool {
            config,
            is_closed,
            refused_until: RefusedUntil::default(),
            redis,
            store,
            failure,
            _tasks: tasks.map(AbortOnDropHandle::new),
        })
    }

    /// Returns the pool with this name.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if this process does not know the pool, or cannot open it.
    pub(super) fn pool(&self, name: &PoolName) -> Result<Arc<LivePool>, Error> {
        let pool = self.0.pools.all().get(name).cloned();
        pool.ok_or_else(|| match self.0.pools.all_unusable().get(name) {
            Some(pool) => Error::Unavailable(format!("the pool {name} cannot be used: {}", pool.failure)),
            None => Error::Unavailable(format!("this process does not know the pool {name} yet")),
        })
    }

    /// Succeeds if this process can use all pools in the list.
    pub(super) fn check_usable(&self) -> Result<(), Error> {
        self.0.pools.all_unusable().keys().next().map_or(Ok(()), |name| self.pool(name).map(drop))
    }

    /// Returns whether the pool is in the list that this process uses.
    pub(super) fn is_listed(&self, name: &PoolName) -> bool {
        self.0.pools.all().contains_key(name) || self.0.pools.all_unusable().contains_key(name)
    }

    /// Returns whether a pool can be used, as far as this process knows.
    pub(super) fn is_up(&self, pool: Option<&PoolName>) -> bool {
        pool.is_none_or(|name| self.0.pools.all().get(name).is_some_and(|pool| pool.is_up()))
    }

    /// Returns whether new queues may be in this pool.
    pub(super) fn accepts_queues(&self, pool: Option<&PoolName>) -> bool {
        pool.is_none_or(|name| {
            self.0.pools.all().get(name).is_some_and(|pool| !pool.config.is_retired && !pool.is_closed)
        })
    }

    /// Returns all stores: the management store, and the pools in the order of their names.
    pub(super) fn stores(&self) -> Vec<Arc<dyn Driver>> {
        let pools = self.0.pools.all();
        let pools = pools.values().map(|pool| Arc::new(pool.redis.clone()) as Arc<dyn Driver>);
        [self.0.management.clone()].into_iter().chain(pools).collect()
    }

    /// Returns the states of the pools, in the order of their names.
    pub(super) fn states(&self) -> Vec<PoolState> {
        let (pools, unusable) = (self.0.pools.all(), self.0.pools.all_unusable());
        let live = pools.iter().map(|(name, pool)| (name, pool.failure()));
        let unusable = unusable.iter().map(|(name, pool)| (name, Some(pool.failure.clone())));
        let mut states: Vec<_> =
            live.chain(unusable).map(|(name, failure)| PoolState { name: name.clone(), failure }).collect();
        states.sort_by(|one, other| one.name.cmp(&other.name));
        states
    }

    /// Returns what this process has processed in all stores.
    pub(super) fn processed_in_all(&self) -> Processed {
        let mut sum = *self.0.pools.processed_before.read();
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

    /// Chooses a pool for a new queue, at random by the weights; `None` for the virtual pool. A
    /// queue gets a pool of its flavor, or one without a flavor if it asks for none.
    ///
    /// # Errors
    ///
    /// [`Error::NoPool`] if there is no pool for the queue, and [`Error::Unavailable`] if all of
    /// them are down or excluded.
    fn choose_among(&self, metadata: &Metadata, excluded: &[PoolName]) -> Result<Option<PoolName>, Error> {
        let flavor = metadata.flavor();
        let pools = self.0.pools.all();
        let eligible: Vec<&Arc<LivePool>> = pools.values().filter(|pool| accepts(&pool.config, flavor)).collect();
        let are_unusable = self.0.pools.all_unusable().values().any(|pool| accepts(&pool.config, flavor));
        if eligible.is_empty() && !are_unusable {
            let of_flavor = match flavor {
                None if self.0.options.has_virtual_pool => return Ok(None),
                None => String::new(),
                Some(flavor) => format!(" of the flavor {flavor}"),
            };
            let error = Error::NoPool(format!("new queues{of_flavor}"));
            self.0.pools.warn_of_missing(&error);
            return Err(error);
        }
        let is_eligible =
            |pool: &&Arc<LivePool>| pool.is_up() && !pool.is_closed && !excluded.contains(&pool.config.name);
        let mut up: Vec<_> = eligible.into_iter().filter(is_eligible).collect();
        if up.iter().any(|pool| !pool.refused_until.is_in_future()) {
            up.retain(|pool| !pool.refused_until.is_in_future());
        }
        let weighted: Vec<(u64, &PoolName)> =
            up.iter().map(|pool| (u64::from(pool.config.weight), &pool.config.name)).collect();
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

/// Reports whether a pool can be used, until it is dropped. It must not have the database of the
/// management store, with which it is compared once.
async fn watch_pool(
    name: PoolName,
    redis: RedisStore,
    mut management: Option<RedisStore>,
    report: watch::Sender<Option<String>>,
) {
    let unusable = async {
        let reason = redis.becomes_unusable().await;
        warn!(pool = %name, reason, "this release cannot use a pool");
        reason
    };
    let probing = async {
        loop {
            let mut failure = redis.ping().await.err().map(|error| error.reason().to_owned());
            if let (None, Some(other)) = (&failure, &management) {
                match databases::misuse(&redis, other).await {
                    Ok(None) => management = None,
                    Ok(misuse) => failure = misuse,
                    Err(error) => debug!(pool = %name, %error, "cannot compare the databases of two stores"),
                }
            }
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
