//! Many stores behind one service. The *management store* has the catalogue, which says in which pool
//! each queue is, and the queues of the virtual pool. Each other pool is a Redis store of its own.
//!
//! A process remembers where queues are. This may be outdated, so a store that does not have the queue
//! refuses the operation, and the process asks the catalogue: see `search.rs`. So an operation on a
//! queue whose place is known needs no more round trips than without pools.
//!
//! A queue is put into the catalogue, then created in its pool under the epoch of its place. It is
//! deleted in its pool, then removed from the catalogue. Each step may be repeated. A crash in between
//! leaves a place without a queue, which the next creation uses.

mod claims;
mod deliveries;
mod destinations;
mod follow;
mod lists;
mod maintenance;
mod messages;
mod places;
mod pools;
mod queues;
mod search;
mod subscriptions;
mod tasks;
mod unplaced;
mod watch;

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex, broadcast};

use self::destinations::AllQueues;
use self::places::Places;
pub use self::pools::PoolState;
use self::pools::Pools;
use self::watch::Subscribed;
use super::deliveries::SIGNALS_MAX;
use super::embedded::{EmbeddedStore, OpenError};
use super::redis::{RedisPools, RedisStore};
use super::{DeliverySignal, Driver, PoolsVersion, Schedule, UriCipher};

/// The stores of a service with pools. Clones share them.
#[derive(Clone)]
pub struct PooledStore(Arc<Parts>);

struct Parts {
    /// The management store. Its operations answer for queues that do not exist.
    management: Arc<dyn Driver>,
    /// The management store as the virtual pool: its operations fail if the queue is not there.
    virtual_pool: Arc<dyn Driver>,
    /// An empty store, which answers for queues that do not exist.
    nowhere: Arc<EmbeddedStore>,
    options: Options,
    pools: Pools,
    places: Places,
    subscribed: Subscribed,
    all_queues: Arc<AllQueues>,
    signals: broadcast::Sender<DeliverySignal>,
    /// The version of the list of pools that this process uses. One task at a time reads the list.
    known_pools: Mutex<Option<PoolsVersion>>,
}

/// Options of a store with pools.
#[derive(Clone)]
pub struct Options {
    /// Whether a queue for which there is no pool is created in the management store.
    pub has_virtual_pool: bool,
    /// The schedule of the maintenance of each pool.
    pub schedule: Schedule,
    /// Connects to the pools.
    pub redis: RedisPools,
    /// Decrypts the URIs of pools, if there is a key.
    pub cipher: Option<Arc<dyn UriCipher>>,
}

impl fmt::Debug for PooledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PooledStore")
    }
}

impl PooledStore {
    /// Uses this store in Redis as the management store.
    pub fn over_redis(management: RedisStore, options: Options) -> Result<Self, OpenError> {
        let virtual_pool = Arc::new(management.requiring_queues());
        let this = Self::over(Arc::new(management.clone()), virtual_pool, options)?;
        management.set_destinations(this.destinations());
        Ok(this)
    }

    /// Uses this embedded store as the management store. It reads the catalogue and a queue in one
    /// transaction, so its operations fail if the queue is in a pool.
    pub fn over_embedded(management: EmbeddedStore, options: Options) -> Result<Self, OpenError> {
        let shared: Arc<dyn Driver> = Arc::new(management.clone());
        let this = Self::over(shared.clone(), shared, options)?;
        management.set_destinations(this.destinations());
        Ok(this)
    }

    /// Returns the management store. Its maintenance is the task of the caller; that of the pools is done.
    #[must_use]
    pub fn management(&self) -> Arc<dyn Driver> {
        self.0.management.clone()
    }

    fn over(management: Arc<dyn Driver>, virtual_pool: Arc<dyn Driver>, options: Options) -> Result<Self, OpenError> {
        let nowhere = Arc::new(EmbeddedStore::in_memory()?);
        let this = Self(Arc::new_cyclic(|parts| Parts {
            nowhere,
            pools: Pools::default(),
            places: Places::new(),
            subscribed: Subscribed::default(),
            all_queues: Arc::new(AllQueues(parts.clone())),
            signals: broadcast::Sender::new(SIGNALS_MAX),
            known_pools: Mutex::default(),
            management,
            virtual_pool,
            options,
        }));
        this.forward_signals();
        Ok(this)
    }
}
