//! Many stores behind one service. The *management store* has the catalogue, which says in which
//! pool each queue is, and the queues of the virtual pool. Each other pool is a Redis store of its
//! own.
//!
//! A process remembers where queues are. This may be outdated, so a store that does not have the
//! queue refuses the operation, and the process asks the catalogue: see `search.rs`. So an
//! operation on a queue whose location is known needs no more round trips than without pools.
//!
//! A queue is put into the catalogue, then created in its pool under the epoch of its location. It
//! is deleted in its pool, then removed from the catalogue. Each step may be repeated. A crash in
//! between leaves a location without a queue, which the next creation uses, or which the janitor
//! removes.
//!
//! A location names its pool, and the list of pools has the address. The address does not change
//! while the catalogue has a location in the pool. So an operation that changes anything at a
//! location, or concludes that a queue does not exist, refreshes the list after it has read the
//! location.

mod claims;
mod databases;
mod deliveries;
mod destinations;
mod empty_locations;
mod follow;
mod known_pools;
mod lists;
mod live_pools;
mod location_walk;
mod locations;
mod maintenance;
mod management_store;
mod messages;
mod moves;
mod open;
mod pools;
mod queues;
mod search;
mod subscriptions;
mod tasks;
mod watch;
mod weak;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::broadcast;

use self::known_pools::KnownPools;
use self::live_pools::Pools;
use self::locations::{Located, Subscribed};
use super::embedded::EmbeddedStore;
use super::redis::{RedisPools, RedisStore};
use super::{DeliverySignal, Destinations, Driver, Epoch, QueueUsage, Schedule, UriCipher};
use sukkal_domain::QueueId;

/// The stores of a service with pools. Clones share them.
#[derive(Clone)]
pub struct PooledStore(Arc<PoolParts>);

struct PoolParts {
    /// The management store. Its operations answer for queues that do not exist.
    management: Arc<dyn Driver>,
    /// The management store as the virtual pool: its operations fail if the queue is not there.
    virtual_pool: Arc<dyn Driver>,
    /// The management store, if it is in Redis.
    virtual_redis: Option<RedisStore>,
    /// An empty store, which answers for queues that do not exist.
    no_queues: Arc<EmbeddedStore>,
    options: Options,
    pools: Pools,
    /// The locations that a process remembers. They may be outdated.
    locations: Cache<QueueId, Located>,
    /// The locations that a walk has found to be empty, by queue.
    empty_locations: Cache<QueueId, Epoch>,
    /// The moves of queues that operations of this process wait for. A receiver is closed when its
    /// move has ended.
    running_moves: Mutex<HashMap<QueueId, tokio::sync::watch::Receiver<()>>>,
    subscribed: Subscribed,
    /// What queues in pools used when they were last measured, as far as this process remembers.
    last_usages: Cache<QueueId, QueueUsage>,
    /// All queues of the service, as the destinations of messages that leave a store.
    all_queues: Arc<dyn Destinations>,
    signals: broadcast::Sender<DeliverySignal>,
    known_pools: KnownPools,
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
    /// How long an operation waits for a queue that moves.
    pub wait_max: Duration,
    /// Decrypts the URIs of pools, if there is a key.
    pub cipher: Option<Arc<dyn UriCipher>>,
}

impl fmt::Debug for PooledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PooledStore")
    }
}
