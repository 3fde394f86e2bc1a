//! The drivers under test: one function each, which opens a test store.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Map;
use sukkal_domain::{Pool, QueueId};
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use sukkal_storage::pooled::{self, PooledStore};
use sukkal_storage::redis::{Clock, RedisPools, RedisStore, TlsFiles};
use sukkal_storage::{Destinations, Driver, Maintenance, Schedule};
use tempfile::TempDir;

use super::subject::{Subject, TestBackend};
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::test_bed::open_movable;

/// Opens a store over a shared Redis server.
pub(in crate::conformance) fn redis() -> Subject {
    redis_at(RedisServer::shared_movable())
}

/// Opens a store over this Redis server.
pub(in crate::conformance) fn redis_at(server: Arc<RedisServer>) -> Subject {
    Subject::new(RedisBackend { store: open_movable(&server.url()), _servers: server })
}

/// Opens a store at this address of these servers.
pub(in crate::conformance) fn redis_with_url<S: Send + Sync + 'static>(url: &str, servers: Arc<S>) -> Subject {
    Subject::new(RedisBackend { store: open_movable(url), _servers: servers })
}

/// Opens a store over a Redis Cluster of three masters.
pub(in crate::conformance) fn redis_cluster() -> Subject {
    let cluster = RedisCluster::shared_movable();
    Subject::new(RedisBackend { store: open_movable(&cluster.url()), _servers: cluster })
}

/// Opens a store in a new file.
pub(in crate::conformance) fn embedded() -> Subject {
    embedded_in(Arc::new(tempfile::tempdir().expect("a temporary folder can be created")))
}

/// Opens the store in this folder.
pub(in crate::conformance) fn embedded_in(folder: Arc<TempDir>) -> Subject {
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("the file is not in use");
    Subject::new(EmbeddedBackend { store, _folder: Some(folder) })
}

/// Opens a store in memory.
pub(in crate::conformance) fn memory() -> Subject {
    let store = EmbeddedStore::in_memory().expect("an in-memory store opens");
    Subject::new(EmbeddedBackend { store, _folder: None })
}

/// Opens a store with pools: a management store in Redis, and two pools.
pub(in crate::conformance) fn pooled_redis() -> Subject {
    let [server, ..] = RedisServer::shared_movable_others();
    let store = PooledStore::over_redis(&open_movable(&server.url()), pooled_options()).expect("an empty store opens");
    pooled(store, Management::Redis(Box::new(open_movable(&server.url())), server))
}

/// Opens a store with pools: an embedded management store, and two pools.
pub(in crate::conformance) fn pooled_embedded() -> Subject {
    let management = EmbeddedStore::in_memory().expect("an in-memory store opens");
    let store = PooledStore::over_embedded(&management, pooled_options()).expect("an empty store opens");
    pooled(store, Management::Embedded(management))
}

fn pooled_options() -> pooled::Options {
    let schedule = Schedule { pause: Duration::from_secs(3_600), walk: Duration::from_secs(3_600) };
    let (redis, wait_max) = (RedisPools::new(TlsFiles::default(), Clock::Movable), Duration::from_secs(10));
    pooled::Options { has_virtual_pool: true, schedule, redis, wait_max, cipher: None }
}

fn pooled(store: PooledStore, management: Management) -> Subject {
    let [_management, servers @ ..] = RedisServer::shared_movable_others();
    let pool = |(name, server): (&str, &Arc<RedisServer>)| Pool {
        name: name.parse().expect("the name is valid"),
        uri: server.url().parse().expect("the URI is valid"),
        weight: 1,
        flavor: None,
        options: Map::new(),
        is_retired: false,
    };
    store.set_pools(["one", "other"].into_iter().zip(&servers).map(pool).collect());
    let pools = servers.each_ref().map(|server| open_movable(&server.url()));
    Subject::new(PooledBackend { store, management, pools, _servers: servers })
}

/// The management store, as tests move its clock.
enum Management {
    Redis(Box<RedisStore>, #[expect(dead_code, reason = "the server runs as long as this exists")] Arc<RedisServer>),
    Embedded(EmbeddedStore),
}

struct PooledBackend {
    store: PooledStore,
    management: Management,
    pools: [RedisStore; 2],
    _servers: [Arc<RedisServer>; 2],
}

#[async_trait]
impl TestBackend for PooledBackend {
    fn store(&self) -> &dyn Driver {
        &self.store
    }

    fn maintained(&self) -> Vec<&dyn Driver> {
        let [one, other] = &self.pools;
        vec![&self.store, one, other]
    }

    fn set_destinations(&self, _destinations: Weak<dyn Destinations>) {
        unreachable!("the store has its own destinations");
    }

    async fn set_clock(&self, queue: &QueueId, offset_us: i64) {
        match &self.management {
            Management::Redis(store, _) => store.set_clock(queue, offset_us).await.expect("the store answers"),
            Management::Embedded(store) => store.set_clock(queue, offset_us),
        }
        for pool in &self.pools {
            pool.set_clock(queue, offset_us).await.expect("the pool answers");
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn is_ready(&self) -> bool {
        let [one, other] = &self.pools;
        self.store.ping().await.is_ok() && one.ping().await.is_ok() && other.ping().await.is_ok()
    }
}

struct RedisBackend<S> {
    store: RedisStore,
    _servers: Arc<S>,
}

#[async_trait]
impl<S: Send + Sync> TestBackend for RedisBackend<S> {
    fn store(&self) -> &dyn Driver {
        &self.store
    }

    async fn set_clock(&self, queue: &QueueId, offset_us: i64) {
        self.store.set_clock(queue, offset_us).await.expect("the store answers");
    }

    fn set_destinations(&self, destinations: Weak<dyn Destinations>) {
        self.store.set_destinations(destinations);
    }

    fn is_shared(&self) -> bool {
        true
    }
}

struct EmbeddedBackend {
    store: EmbeddedStore,
    _folder: Option<Arc<TempDir>>,
}

#[async_trait]
impl TestBackend for EmbeddedBackend {
    fn store(&self) -> &dyn Driver {
        &self.store
    }

    async fn set_clock(&self, queue: &QueueId, offset_us: i64) {
        self.store.set_clock(queue, offset_us);
    }

    fn set_destinations(&self, destinations: Weak<dyn Destinations>) {
        self.store.set_destinations(destinations);
    }

    fn is_shared(&self) -> bool {
        false
    }
}
