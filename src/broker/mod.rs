//! The operations of the service, one method each. The broker checks the caller's authorization and
//! the limits, applies defaults and fixes the order of steps; no layer below decides these again.
//!
//! Every operation takes its caller first and states its action: see `access.rs`.

mod access;
mod action;
mod backup;
pub mod cached;
pub mod claims;
mod confirmations;
mod connected;
pub mod deliveries;
mod encryption;
pub mod error;
pub mod feed;
pub mod flavors;
pub mod health;
pub mod in_use;
mod known_pools;
pub mod messages;
mod monitor;
mod monitoring;
mod name_check;
pub mod pooling;
pub mod pools;
pub mod projects;
pub mod queues;
pub mod quotas;
mod range;
mod sharing;
pub mod subscriptions;
mod summaries;
pub mod tasks;
#[cfg(test)]
mod test_options;
pub mod tokens;
pub mod undelivered;
mod waiting;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

pub use action::Action;
pub use encryption::Cipher;
pub use encryption::rekey::{Rekeyed, rekey};
pub use error::{Error, StoreError};

use self::access::{GuardedStore, Resource, require_client};
use self::cached::Cached;
use self::confirmations::Confirmations;
use self::connected::ConnectedSubscriptions;
use self::encryption::Encryption;
use self::in_use::InUse;
use self::known_pools::KnownPools;
use self::monitor::Monitor;
use self::name_check::NameCheck;
use self::pooling::Pooling;
use self::quotas::{ConcurrencyLimit, ConcurrencyUnit, Quotas};
use self::waiting::{SharedReads, Waiting};
use crate::auth::policy::Policy;
use crate::auth::{Caller, Trusts};
use crate::observability::metrics::Metrics;
use crate::observability::request_id::in_current_request;
use sukkal_domain::{
    ConfirmationRequest, Limits, MailRules, MonitoredQueues, ProjectId, PushConfig, Queue, QueueId, Quota, QuotaConfig,
};
use sukkal_storage::Driver;

/// Maximum number of claims and pops that are being withdrawn.
const WITHDRAWALS_MAX: usize = 10_000;

/// Number of queues that a process usually knows.
const KNOWN_QUEUES: usize = 10_000;
/// Maximum size of all queues that a process knows, in bytes.
const KNOWN_QUEUES_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Size of a known queue without its metadata, in bytes: its id, and what the cache adds.
const KNOWN_QUEUE_BYTES: u64 = 512;

/// The service behind the API. Clones share their state.
#[derive(Clone)]
pub struct Broker(Arc<BrokerParts>);

/// The state that all clones of a broker share.
pub struct BrokerParts {
    store: GuardedStore,
    limits: Limits,
    push: PushConfig,
    /// The rules for mails; `None` if no mail is sent.
    mail: Option<MailRules>,
    name_check: NameCheck,
    /// Creates trusts for subscriptions, if there is a Keystone.
    trusts: OnceLock<Arc<dyn Trusts>>,
    confirmations: Confirmations,
    /// Subscriptions of WebSocket connections of this process.
    connected: ConnectedSubscriptions,
    metrics: Arc<Metrics>,
    /// Queues at their last known revisions. A post names the revision that it was prepared for,
    /// and the store rejects it if the queue has changed. An outdated entry therefore does no harm.
    known_queues: Cache<QueueId, Arc<Queue>, KnownQueueWeight>,
    encryption: Encryption,
    /// The writes that are running.
    writes: TaskTracker,
    /// Limits the number of claims and pops that are being withdrawn.
    withdrawals: Semaphore,
    shared_reads: SharedReads,
    /// The locks of the projects that list queues with a filter, one list at a time. Requests wait
    /// in the order in which they arrived. None is refused: the requests in front of it are
    /// bounded, and one whose client disconnects stops waiting.
    filter_locks: InUse<ProjectId, Mutex<()>>,
    waiting: Waiting,
    quotas: Arc<Quotas>,
    streams: ConcurrencyLimit,
    redrives: ConcurrencyLimit,
    socket_requests: ConcurrencyLimit,
    /// The last probe of the store. Only callers that wait at the same time share it.
    last_probe: Cached<Result<(), sukkal_storage::Error>>,
    monitor: Monitor,
    /// How pools are managed; `None` without pooling.
    pooling: Option<Pooling>,
    known_pools: KnownPools,
}

/// Options of a broker that have defaults.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What clients may do.
    pub policy: Policy,
    /// The queues that the metrics include.
    pub monitored_queues: Vec<MonitoredQueues>,
    /// The quotas of projects.
    pub quotas: QuotaConfig,
    /// How pools are managed; `None` without pooling.
    pub pooling: Option<Pooling>,
    /// Maximum number of requests over WebSockets that one project has in progress; `None` for no
    /// limit.
    pub socket_requests_max: Option<u32>,
    /// The rules for mails to subscribers; `None` if no mail is sent.
    pub mail: Option<MailRules>,
}

/// The size of a queue that the process knows, in bytes.
#[derive(Clone)]
struct KnownQueueWeight;

impl Weighter<QueueId, Arc<Queue>> for KnownQueueWeight {
    fn weight(&self, _id: &QueueId, queue: &Arc<Queue>) -> u64 {
        KNOWN_QUEUE_BYTES + queue.metadata.bytes() as u64
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broker")
    }
}

impl Deref for Broker {
    type Target = BrokerParts;

    fn deref(&self) -> &BrokerParts {
        &self.0
    }
}

impl Broker {
    /// Creates a broker over a store, with the default options. Without a cipher no queue can begin
    /// to encrypt.
    #[must_use]
    pub fn new(
        store: Arc<dyn Driver>,
        limits: Limits,
        push: PushConfig,
        cipher: Option<Cipher>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self::with_options(store, limits, push, cipher, metrics, Options::default())
    }

    /// Creates a broker with these further options.
    #[must_use]
    pub fn with_options(
        store: Arc<dyn Driver>,
        limits: Limits,
        push: PushConfig,
        cipher: Option<Cipher>,
        metrics: Arc<Metrics>,
        options: Options,
    ) -> Self {
        let admission_wait_max = Duration::from_secs(limits.max_queueing.into());
        let quotas = Quotas::new(options.quotas);
        Self(Arc::new(BrokerParts {
            store: GuardedStore::new(store, options.policy, admission_wait_max, metrics.clone()),
            waiting: Waiting::new(&limits, quotas.clone()),
            streams: ConcurrencyLimit::by_quota("event streams", quotas.clone(), Quota::EventStreams),
            socket_requests: ConcurrencyLimit::fixed(
                "requests over WebSockets of this process",
                options.socket_requests_max.unwrap_or(u32::MAX),
            ),
            redrives: ConcurrencyLimit::fixed("running redrives", limits.max_redrives_per_project),
            quotas,
            limits,
            push,
            mail: options.mail,
            name_check: NameCheck::default(),
            trusts: OnceLock::new(),
            confirmations: Confirmations::default(),
            connected: ConnectedSubscriptions::default(),
            metrics,
            known_queues: Cache::with_weighter(KNOWN_QUEUES, KNOWN_QUEUES_BYTES_MAX, KnownQueueWeight),
            encryption: Encryption::new(cipher),
            writes: TaskTracker::new(),
            withdrawals: Semaphore::new(WITHDRAWALS_MAX),
            shared_reads: SharedReads::default(),
            filter_locks: InUse::default(),
            last_probe: Cached::new(Duration::ZERO),
            monitor: Monitor::new(options.monitored_queues),
            pooling: options.pooling,
            known_pools: KnownPools::default(),
        }))
    }

    /// Lets subscriptions use trusts. Only the first call has an effect.
    pub fn set_trusts(&self, trusts: Arc<dyn Trusts>) {
        self.trusts.get_or_init(|| trusts);
    }

    /// Returns the trusts that subscriptions use, if they can.
    #[must_use]
    pub fn trusts(&self) -> Option<Arc<dyn Trusts>> {
        self.trusts.get().cloned()
    }

    /// Returns the limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts a request over a WebSocket until the returned value is dropped.
    pub fn begin_socket_request(&self, project: &ProjectId) -> Result<ConcurrencyUnit, Error> {
        self.socket_requests.acquire(project)
    }

    /// Succeeds if the store replies.
    pub async fn ping(&self, caller: &Caller) -> Result<(), Error> {
        let project = &require_client(caller)?.project;
        let access = self.store.authorize(caller, Action::Ping, project)?;
        Ok(access.admit().await?.ping().await?)
    }

    /// Succeeds if the store replies and can write. Concurrent calls share one attempt, because
    /// anonymous callers may ask for it.
    pub async fn probe(&self, caller: &Caller) -> Result<(), Error> {
        let access = self.store.authorize(caller, Action::ProbeStore, Resource::Store)?;
        let probe = async move { access.admit().await?.probe().await };
        let outcome = self.last_probe.get(Duration::MAX, || in_current_request(probe)).await;
        Ok(outcome.expect("a probe does not panic")?)
    }

    /// Returns the receiver of all confirmations that are to be sent to subscribers. Returns `None`
    /// after the first call.
    #[must_use]
    pub fn take_confirmations(&self) -> Option<mpsc::Receiver<ConfirmationRequest>> {
        self.confirmations.take()
    }

    /// Ends all waits and streams. Waiting requests are answered at once, and no request waits from
    /// now on.
    pub fn stop_waiting(&self) {
        self.waiting.closing.cancel();
    }

    /// Waits until every write that has begun is complete.
    pub async fn drain(&self) {
        self.writes.close();
        self.writes.wait().await;
    }

    /// Runs a write in a task of its own. The client may disconnect at any moment, and a write that
    /// has begun must not stop half-way then.
    async fn run_to_completion<T: Send + 'static>(&self, write: impl Future<Output = T> + Send + 'static) -> T {
        outcome(self.writes.spawn(in_current_request(write))).await
    }
}

/// Returns the outcome of a task. Panics if the task panicked.
async fn outcome<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down, because the process did not stop in time. It drops this
            // future, too.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;
    use tokio::runtime::Runtime;

    use super::*;
    use sukkal_domain::{Metadata, Revision};

    #[test]
    fn known_queues_are_bounded_in_bytes() {
        let cache = Cache::with_weighter(KNOWN_QUEUES, KNOWN_QUEUES_BYTES_MAX, KnownQueueWeight);
        let keys = json!({ "a": "x".repeat(65_000) });
        let metadata = Metadata::from_store(keys.as_object().unwrap().into());
        let queue = Arc::new(Queue { metadata, revision: Revision(1) });
        let insert = |number: usize, queue: &Arc<Queue>| {
            let name = format!("q{number}").parse().unwrap();
            cache.insert(QueueId::new(ProjectId::new("p").unwrap(), name).unwrap(), queue.clone());
        };

        (0..2_000).for_each(|number| insert(number, &queue));

        assert!((100..300).contains(&cache.len()), "{} queues", cache.len());
    }

    #[test]
    fn a_request_whose_write_ends_with_the_runtime_does_not_panic() {
        let runtime = Runtime::new().unwrap();
        let write = runtime.spawn(std::future::pending::<()>());

        drop(runtime);

        assert!(outcome(write).now_or_never().is_none());
    }
}
