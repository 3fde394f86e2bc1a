//! Opens a store with pools over its management store.

use std::sync::Arc;

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::broadcast;

use super::known_pools::KnownPools;
use super::live_pools::Pools;
use super::locations::{EMPTY_LOCATIONS_MAX, LOCATIONS_MAX};
use super::weak::WeakStore;
use super::{Options, PoolParts, PooledStore};
use crate::Driver;
use crate::deliveries::SIGNALS_MAX;
use crate::embedded::{EmbeddedStore, OpenError};
use crate::redis::RedisStore;

impl PooledStore {
    /// Uses this store in Redis as the management store.
    pub fn over_redis(management: &RedisStore, options: Options) -> Result<Self, OpenError> {
        let virtual_pool = Arc::new(management.requiring_queues());
        let this = Self::over(Arc::new(management.clone()), virtual_pool, Some(management.clone()), options)?;
        management.set_destinations(this.destinations());
        Ok(this)
    }

    /// Uses this embedded store as the management store. It reads the catalogue and a queue in one
    /// transaction, so its operations fail if the queue is in a pool.
    pub fn over_embedded(management: &EmbeddedStore, options: Options) -> Result<Self, OpenError> {
        let shared: Arc<dyn Driver> = Arc::new(management.clone());
        let this = Self::over(shared.clone(), shared, None, options)?;
        management.set_destinations(this.destinations());
        Ok(this)
    }

    /// Returns the management store. Its maintenance is the task of the caller; that of the pools
    /// is done.
    #[must_use]
    pub fn management(&self) -> Arc<dyn Driver> {
        self.0.management.clone()
    }

    fn over(
        management: Arc<dyn Driver>,
        virtual_pool: Arc<dyn Driver>,
        virtual_redis: Option<RedisStore>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let no_queues = Arc::new(EmbeddedStore::in_memory()?);
        let this = Self(Arc::new_cyclic(|parts| PoolParts {
            no_queues,
            pools: Pools::default(),
            locations: Cache::new(LOCATIONS_MAX),
            empty_locations: Cache::new(EMPTY_LOCATIONS_MAX),
            running_moves: Mutex::default(),
            subscribed: Mutex::default(),
            last_usages: Cache::new(LOCATIONS_MAX),
            all_queues: Arc::new(WeakStore(parts.clone())),
            signals: broadcast::Sender::new(SIGNALS_MAX),
            known_pools: KnownPools::default(),
            management,
            virtual_pool,
            virtual_redis,
            options,
        }));
        this.forward_signals();
        Ok(this)
    }
}
