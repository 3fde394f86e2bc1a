//! The pools that a process uses, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::redis::RedisStore;
use crate::{Driver, Error, Processed};
use sukkal_domain::{FlavorName, Pool, PoolName};

/// For how long a pool that has refused a new queue counts as down for new queues.
const REFUSAL_TIME: Duration = Duration::from_secs(10);
/// Minimum time between two warnings that there is no pool, because clients may cause them.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// The pools of a process, by name.
#[derive(Default)]
pub(super) struct Pools {
    pub(super) live: RwLock<Arc<BTreeMap<PoolName, Arc<LivePool>>>>,
    /// The pools of the list that this process cannot open.
    pub(super) unusable: RwLock<Arc<BTreeMap<PoolName, UnusablePool>>>,
    /// What was processed in pools that are not used any more.
    pub(super) processed_before: RwLock<Processed>,
    /// When it was last logged that there is no pool for a queue.
    warned_at: Mutex<Option<Instant>>,
}

/// A pool of the list.
pub(super) struct ListedPool {
    /// The pool, with its complete URI if there is no failure.
    pub(super) config: Pool,
    /// Whether it gets no new queues at the moment, because its address is being changed.
    pub(super) is_closed: bool,
    /// Why its URI cannot be decrypted, if it cannot.
    pub(super) failure: Option<String>,
}

/// A pool that this process cannot open. It counts as down.
pub(super) struct UnusablePool {
    pub(super) config: Pool,
    pub(super) failure: String,
}

/// The end of the time for which a pool that has refused a new queue gets no other one.
#[derive(Default)]
pub(super) struct RefusedUntil(RwLock<Option<Instant>>);

/// A pool and what runs for it.
pub(super) struct LivePool {
    /// The pool, with its complete URI.
    pub(super) config: Pool,
    /// Whether it gets no new queues at the moment, because its address is being changed.
    pub(super) is_closed: bool,
    /// Until when it is chosen for a new queue only if there is no other pool.
    pub(super) refused_until: RefusedUntil,
    pub(super) redis: RedisStore,
    /// The same store, whose operations fail if they are on a queue that it does not have.
    pub(super) store: Arc<dyn Driver>,
    pub(super) failure: watch::Receiver<Option<String>>,
    pub(super) _tasks: [AbortOnDropHandle<()>; 3],
}

impl Pools {
    pub(super) fn all(&self) -> Arc<BTreeMap<PoolName, Arc<LivePool>>> {
        self.live.read().clone()
    }

    pub(super) fn all_unusable(&self) -> Arc<BTreeMap<PoolName, UnusablePool>> {
        self.unusable.read().clone()
    }

    /// Logs why a queue cannot be created, at most once a minute.
    pub(super) fn warn_of_missing(&self, error: &Error) {
        let mut warned_at = self.warned_at.lock();
        if warned_at.is_none_or(|warned_at| warned_at.elapsed() >= WARNING_PAUSE) {
            *warned_at = Some(Instant::now());
            warn!(%error, "cannot create a queue");
        }
    }
}

impl RefusedUntil {
    pub(super) fn renew(&self) {
        *self.0.write() = Some(Instant::now() + REFUSAL_TIME);
    }

    pub(super) fn is_in_future(&self) -> bool {
        self.0.read().is_some_and(|until| Instant::now() < until)
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
}

/// Returns whether new queues of this flavor may be in the pool.
pub(super) fn accepts(pool: &Pool, flavor: Option<&str>) -> bool {
    pool.weight > 0 && !pool.is_retired && pool.flavor.as_ref().map(FlavorName::as_str) == flavor
}
