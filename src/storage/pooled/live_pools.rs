//! The pools that a process uses, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::domain::{FlavorName, Pool, PoolName};
use crate::storage::redis::RedisStore;
use crate::storage::{Driver, Processed};

/// The pools of a process, by name.
#[derive(Default)]
pub(super) struct Pools {
    pub(super) live: RwLock<Arc<BTreeMap<PoolName, Arc<LivePool>>>>,
    /// What was processed in pools that are not used any more.
    pub(super) processed_before: RwLock<Processed>,
}

/// A pool and what runs for it.
pub(super) struct LivePool {
    /// The pool, with its complete URI.
    pub(super) config: Pool,
    pub(super) redis: RedisStore,
    /// The same store, whose operations fail if they are on a queue that it does not have.
    pub(super) store: Arc<dyn Driver>,
    pub(super) failure: watch::Receiver<Option<String>>,
    pub(super) _tasks: [AbortOnDropHandle<()>; 3],
}

impl Pools {
    pub(super) fn all(&self) -> Arc<BTreeMap<PoolName, Arc<LivePool>>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LivePool {
    /// Returns why the pool cannot be used; `None` if it can.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    pub(super) fn is_up(&self) -> bool {
        self.failure.borrow().is_none()
    }

    /// Returns whether new queues of this flavor may be in the pool.
    pub(super) fn accepts(&self, flavor: Option<&str>) -> bool {
        let Pool { weight, flavor: own, is_retired, .. } = &self.config;
        *weight > 0 && !is_retired && own.as_ref().map(FlavorName::as_str) == flavor
    }
}
