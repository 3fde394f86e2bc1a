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
pub mod taken;
mod waiting;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use quick_cache::sync::Cache;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

pub use cipher::Cipher;
pub use error::Error;

use self::looks::Looks;
use self::queues::FilterTurns;
use self::sealing::Sealing;
use crate::domain::{Limits, Queue, QueueId};
use crate::metrics::Metrics;
use crate::storage::Driver;

/// How many queues' metadata a process remembers.
const REMEMBERED_QUEUES_MAX: usize = 10_000;

/// The service behind the API. Cheap to clone.
#[derive(Clone)]
pub struct Broker(Arc<Shared>);

/// What all clones of a broker have in common.
pub struct Shared {
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
    /// Nobody waits any more.
    closing: CancellationToken,
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broker")
    }
}

impl Deref for Broker {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Broker {
    /// A broker over a store. Without a cipher no queue can begin to encrypt.
    #[must_use]
    pub fn new(store: Arc<dyn Driver>, limits: Limits, cipher: Option<Cipher>, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Shared {
            store,
            limits,
            metrics,
            seen: Cache::new(REMEMBERED_QUEUES_MAX),
            sealing: Sealing::new(cipher),
            writes: TaskTracker::new(),
            looks: Looks::default(),
            filter_turns: FilterTurns::default(),
            closing: CancellationToken::new(),
        }))
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Succeeds if the store answers. Also done where an id can name nothing, because no caller shall
    /// be told what a store holds that cannot be reached.
    pub async fn ping(&self) -> Result<(), Error> {
        Ok(self.store.ping().await?)
    }

    /// Waits until every write that has begun is at its end.
    pub async fn drain(&self) {
        self.writes.close();
        self.writes.wait().await;
    }

    /// Runs a write in a task of its own: the caller may go away at any moment, and what has begun
    /// in the store must not stop half-way then.
    async fn to_the_end<T: Send + 'static>(&self, write: impl Future<Output = T> + Send + 'static) -> T {
        match self.writes.spawn(write.in_current_span()).await {
            Ok(outcome) => outcome,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Checks a number that a request names against its range.
fn check_range(what: &str, value: i64, min: u32, max: u32) -> Result<u32, Error> {
    match u32::try_from(value) {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(Error::Limit(format!("{what} is {value}, it must be {min} to {max}"))),
    }
}
