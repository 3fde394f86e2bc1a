//! What a caller may do, one method an operation: limits, defaults and order of steps are decided
//! here, and nothing below decides again.

pub mod cipher;
pub mod claims;
pub mod error;
pub mod feed;
pub mod health;
mod looks;
pub mod messages;
pub mod queues;
mod sealing;
mod shares;
pub mod taken;
mod waiting;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use quick_cache::sync::Cache;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use cipher::Cipher;
pub use error::Error;

use self::looks::Looks;
use self::queues::FilterTurns;
use self::sealing::Sealing;
use self::shares::Shares;
use crate::auth::Caller;
use crate::domain::{Limits, ProjectId, Queue, QueueId};
use crate::metrics::Metrics;
use crate::request_id::in_current_request;
use crate::storage::{self, Admission, Driver, Permit};

/// How many queues' metadata a process remembers.
const REMEMBERED_QUEUES_MAX: usize = 10_000;

/// The service behind the API. Cheap to clone.
#[derive(Clone)]
pub struct Broker(Arc<Parts>);

/// What all clones of a broker have in common.
pub struct Parts {
    store: Arc<dyn Driver>,
    limits: Limits,
    metrics: Arc<Metrics>,
    /// Queues as last seen. A post says which revision it was made for and is told if that is not
    /// the queue's any more, so what is remembered here may be old but never wrong.
    seen: Cache<QueueId, Arc<Queue>>,
    sealing: Sealing,
    writes: TaskTracker,
    looks: Looks,
    filter_turns: FilterTurns,
    waits: Shares,
    streams: Shares,
    /// The last one, which may be under way.
    probe: Mutex<Option<Probe>>,
    /// Nobody waits any more.
    closing: CancellationToken,
}

/// One attempt to write that several callers wait for.
type Probe = Shared<BoxFuture<'static, Result<(), storage::Error>>>;

/// The store for one operation, which is in flight for as long as this exists.
struct Admitted {
    store: Arc<dyn Driver>,
    _permit: Permit,
}

impl Deref for Admitted {
    type Target = dyn Driver;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broker")
    }
}

impl Deref for Broker {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Broker {
    /// A broker over a store. Without a cipher no queue can begin to encrypt.
    #[must_use]
    pub fn new(store: Arc<dyn Driver>, limits: Limits, cipher: Option<Cipher>, metrics: Arc<Metrics>) -> Self {
        let waits = Shares::new("requests that wait", limits.max_waits_per_project);
        let streams = Shares::new("event streams", limits.max_streams_per_project);
        Self(Arc::new(Parts {
            store,
            limits,
            waits,
            streams,
            metrics,
            seen: Cache::new(REMEMBERED_QUEUES_MAX),
            sealing: Sealing::new(cipher),
            writes: TaskTracker::new(),
            looks: Looks::default(),
            filter_turns: FilterTurns::default(),
            probe: Mutex::default(),
            closing: CancellationToken::new(),
        }))
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Succeeds if the store answers.
    pub async fn ping(&self, caller: &Caller) -> Result<(), Error> {
        Ok(self.admitted_to_list(&caller.project).await?.ping().await?)
    }

    /// Succeeds if the store answers and can write. Callers that come together share one attempt, because nobody has to say
    /// who they are to ask for it.
    pub async fn probe(&self) -> Result<(), Error> {
        let probe = {
            let mut last = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
            if last.as_ref().is_none_or(|probe| probe.peek().is_some()) {
                let store = self.store.clone();
                *last = Some(async move { store.probe().await }.boxed().shared());
            }
            last.clone().expect("there is one now")
        };
        Ok(probe.await?)
    }

    /// The same as [`Self::ping`] for a client whose request names an id that can be nobody's: no client is told what a store holds that
    /// cannot be reached.
    async fn ping_for(&self, queue: &QueueId) -> Result<(), Error> {
        Ok(self.admitted(queue).await?.ping().await?)
    }

    /// Returns the store for one operation on this queue, when it is the turn of the queue's project. Whatever a
    /// client's request does in the store goes through this; [`Parts::store`] is for what Sukkal does by itself.
    async fn admitted(&self, queue: &QueueId) -> Result<Admitted, storage::Error> {
        self.admitted_by(&self.store.queue_admission(queue), queue.project()).await
    }

    /// The same for one operation on the project's list of queues.
    async fn admitted_to_list(&self, project: &ProjectId) -> Result<Admitted, storage::Error> {
        self.admitted_by(&self.store.project_admission(project), project).await
    }

    async fn admitted_by(&self, admission: &Arc<Admission>, project: &ProjectId) -> Result<Admitted, storage::Error> {
        let wait_max = Duration::from_secs(self.limits.max_queueing.into());
        let permit = admission.enter(project, wait_max).await?;
        Ok(Admitted { store: self.store.clone(), _permit: permit })
    }

    /// The metrics of the process, as they are now.
    #[must_use]
    pub fn metrics(&self) -> String {
        let load = self.store.load();
        self.metrics.store_load(load.in_flight, load.waiting);
        self.metrics.store_disk_full(self.store.has_full_disk());
        self.metrics.exposition()
    }

    /// Waits until every write that has begun is at its end.
    pub async fn drain(&self) {
        self.writes.close();
        self.writes.wait().await;
    }

    /// Runs a write in a task of its own: the caller may go away at any moment, and what has begun
    /// in the store must not stop half-way then.
    async fn to_the_end<T: Send + 'static>(&self, write: impl Future<Output = T> + Send + 'static) -> T {
        match self.writes.spawn(in_current_request(write)).await {
            Ok(outcome) => outcome,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Checks a number that a request names against its range.
fn check_range(what: &str, value: i64, min: u32, max: u32) -> Result<u32, Error> {
    match u32::try_from(value) {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(Error::Limit(format!("{what} is {value}; it must be between {min} and {max}"))),
    }
}
