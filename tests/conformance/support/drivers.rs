//! The drivers under test: one function each, which opens a test store.

use std::sync::Arc;

use async_trait::async_trait;
use sukkal::domain::QueueId;
use sukkal::storage::Driver;
use sukkal::storage::embedded::{EmbeddedStore, Fsync};
use sukkal::storage::redis::RedisStore;
use tempfile::TempDir;

use super::subject::{Subject, TestBackend};
use crate::support::cluster::RedisCluster;
use crate::support::redis::RedisServer;

/// Opens a store over a shared Redis server.
pub(in crate::conformance) fn redis() -> Subject {
    redis_at(RedisServer::shared())
}

/// Opens a store over this Redis server.
pub(in crate::conformance) fn redis_at(server: Arc<RedisServer>) -> Subject {
    Subject::new(RedisBackend { store: open(&server.url()), _servers: server })
}

/// Opens a store at this address of these servers.
pub(in crate::conformance) fn redis_with_url<S: Send + Sync + 'static>(url: &str, servers: Arc<S>) -> Subject {
    Subject::new(RedisBackend { store: open(url), _servers: servers })
}

/// Opens a store over a Redis Cluster of three masters.
pub(in crate::conformance) fn redis_cluster() -> Subject {
    let cluster = RedisCluster::shared();
    Subject::new(RedisBackend { store: open(&cluster.url()), _servers: cluster })
}

/// Opens a store in a new file.
pub(in crate::conformance) fn embedded() -> Subject {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("the new file is not in use");
    Subject::new(EmbeddedBackend { store, _folder: Some(folder) })
}

/// Opens a store in memory.
pub(in crate::conformance) fn memory() -> Subject {
    let store = EmbeddedStore::in_memory().expect("an in-memory store opens");
    Subject::new(EmbeddedBackend { store, _folder: None })
}

struct RedisBackend<S> {
    store: RedisStore,
    _servers: Arc<S>,
}

fn open(url: &str) -> RedisStore {
    let uri = url.parse().expect("the URL is valid");
    RedisStore::open(&uri).expect("opening a store does not wait for the connection")
}

#[async_trait]
impl<S: Send + Sync> TestBackend for RedisBackend<S> {
    fn store(&self) -> &dyn Driver {
        &self.store
    }

    async fn set_clock(&self, queue: &QueueId, offset_us: i64) {
        self.store.set_clock(queue, offset_us).await.expect("the store answers");
    }

    fn is_shared(&self) -> bool {
        true
    }
}

struct EmbeddedBackend {
    store: EmbeddedStore,
    _folder: Option<TempDir>,
}

#[async_trait]
impl TestBackend for EmbeddedBackend {
    fn store(&self) -> &dyn Driver {
        &self.store
    }

    async fn set_clock(&self, queue: &QueueId, offset_us: i64) {
        self.store.set_clock(queue, offset_us);
    }

    fn is_shared(&self) -> bool {
        false
    }
}
