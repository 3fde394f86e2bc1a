//! The drivers under test: one function each, which opens a subject over a store that runs.

use std::sync::Arc;

use async_trait::async_trait;
use sukkal::domain::QueueId;
use sukkal::storage::Driver;
use sukkal::storage::embedded::{EmbeddedStore, Fsync};
use sukkal::storage::redis::RedisStore;
use tempfile::TempDir;

use super::subject::{Stage, Subject};
use crate::support::cluster::RedisCluster;
use crate::support::redis::RedisServer;

/// Over one Redis server.
pub(super) fn redis() -> Subject {
    redis_at(RedisServer::shared())
}

/// Over this Redis server.
pub(super) fn redis_at(server: Arc<RedisServer>) -> Subject {
    Subject::new(RedisStage { store: open(&server.url()), _servers: server })
}

/// Over a Redis Cluster of three masters.
pub(super) fn redis_cluster() -> Subject {
    let cluster = RedisCluster::shared();
    Subject::new(RedisStage { store: open(&cluster.url()), _servers: cluster })
}

/// In a file of its own.
pub(super) fn embedded() -> Subject {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("nobody else has the file");
    Subject::new(EmbeddedStage { store, _folder: Some(folder) })
}

/// In memory.
pub(super) fn memory() -> Subject {
    let store = EmbeddedStore::in_memory().expect("memory is there");
    Subject::new(EmbeddedStage { store, _folder: None })
}

struct RedisStage<S> {
    store: RedisStore,
    _servers: Arc<S>,
}

fn open(url: &str) -> RedisStore {
    let uri = url.parse().expect("the stage's address is one");
    RedisStore::open(&uri).expect("opening only begins to connect")
}

#[async_trait]
impl<S: Send + Sync> Stage for RedisStage<S> {
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

struct EmbeddedStage {
    store: EmbeddedStore,
    _folder: Option<TempDir>,
}

#[async_trait]
impl Stage for EmbeddedStage {
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
