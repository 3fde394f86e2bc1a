//! Push: notifies the subscribers of queues of their messages.
//!
//! A subscription is a durable observer. Its position in the feed is stored, and delivering means
//! reading after it, as every observer does. `deliverer` does the work of one queue, while it holds
//! the delivery lease of the queue. `subscription` decides for one subscription what is sent next,
//! and `attempt` sends it with the `client` or by `mail`. docs/push.md says what subscribers can
//! rely on, and docs/decisions/0027-push.md why it is built like this.

mod attempt;
pub mod client;
mod confirmations;
mod connections;
mod context;
mod deliverer;
mod follow_ups;
mod mail;
mod notification;
mod signature;
mod subscription;
mod target;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use self::client::{Resolver, SubscriberClient};
use self::context::Context;
use self::deliverer::Deliverer;
use self::mail::Mailer;
use crate::auth::signed_url::Signer;
use crate::broker::{self, Broker};
use crate::observability::metrics::Metrics;
use sukkal_base::memory_budget::MemoryBudget;
use sukkal_domain::{MailConfig, PushConfig, QueueId};

/// Time after which a process acts on a signal that is meant for another one.
const FALLBACK_AFTER: Duration = Duration::from_secs(1);

/// Maximum size in bytes of the messages whose attempts have begun.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Maximum size in bytes of the options of all subscriptions that deliverers have loaded. Half of
/// it, which one project may use, is enough for the largest number of subscriptions of a queue with
/// the largest options.
const OPTIONS_BYTES_MAX: usize = 128 << 20;

/// Longest time for which a process remembers that it has work to do.
const REMINDER_MAX: Duration = Duration::from_secs(60);

/// How notifications are sent.
pub struct Options {
    /// The options of the operator.
    pub config: PushConfig,
    /// The options of mail.
    pub mail: MailConfig,
    /// Resolves the names of subscribers.
    pub resolver: Arc<dyn Resolver>,
    /// Signs the URLs in confirmations, if the operator has set a key.
    pub signer: Option<Signer>,
}

/// The deliveries of this process. Clones share them.
#[derive(Clone)]
pub struct Push(Arc<Dispatcher>);

/// Appoints a deliverer to each queue in which work is due.
struct Dispatcher {
    broker: Broker,
    context: Arc<Context>,
    /// The queues on which a deliverer works, and what wakes each. No signal is lost, even if it
    /// comes while the deliverer ends.
    active: Mutex<HashMap<QueueId, Arc<Notify>>>,
    /// The queues for which another process should act first.
    waiting: Mutex<HashSet<QueueId>>,
    tasks: TaskTracker,
}

/// Removes a deliverer from the active ones, even if it panics. Otherwise this process would never
/// work on the queue again.
struct Registration {
    dispatcher: Arc<Dispatcher>,
    queue: QueueId,
    wake: Arc<Notify>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut active = self.dispatcher.active.lock();
        if active.get(&self.queue).is_some_and(|wake| Arc::ptr_eq(wake, &self.wake)) {
            active.remove(&self.queue);
        }
    }
}

impl Push {
    /// Starts to deliver. Call this in the runtime of the service.
    pub fn start(broker: Broker, metrics: Arc<Metrics>, options: Options) -> Result<Self, broker::Error> {
        let Options { config, mail, resolver, signer } = options;
        let client = SubscriberClient::new(&config, mail.max_connections, resolver);
        let mut signals = broker.delivery_signals()?;
        let confirmations = signer.zip(broker.take_confirmations());
        let context = Arc::new(Context {
            client,
            mailer: Mailer::new(&mail),
            requires_confirmation: config.require_confirmation && confirmations.is_some(),
            disable_after: Duration::from_secs(config.disable_after_s),
            rules: config.addresses,
            trusts: broker.trusts(),
            memory: MemoryBudget::new(MESSAGE_BYTES_MAX),
            options_memory: MemoryBudget::new(OPTIONS_BYTES_MAX),
            metrics,
            stopping: CancellationToken::new(),
        });
        let (active, waiting, tasks) = (Mutex::default(), Mutex::default(), TaskTracker::new());
        let dispatcher = Arc::new(Dispatcher { broker, context: context.clone(), active, waiting, tasks });
        let this = dispatcher.clone();
        dispatcher.tasks.spawn(async move {
            while let Some(signal) = this.context.stopping.run_until_cancelled(signals.recv()).await {
                match signal {
                    Ok(signal) if signal.is_own => this.act(signal.queue),
                    Ok(signal) => this.act_later(signal.queue),
                    Err(RecvError::Lagged(missed)) => {
                        warn!(missed, "signals of deliveries arrived too fast; maintenance sends them again");
                    }
                    Err(RecvError::Closed) => return,
                }
            }
        });
        let with_mailer = context.clone();
        dispatcher.tasks.spawn(async move {
            if let Some(mailer) = &with_mailer.mailer {
                mailer.maintain(&with_mailer.stopping).await;
            }
        });
        if let Some((signer, requests)) = confirmations {
            let tasks = dispatcher.tasks.clone();
            dispatcher.tasks.spawn(confirmations::send_all(context, tasks, signer, requests));
        }
        Ok(Self(dispatcher))
    }

    /// Stops: no attempt begins any more. Waits until the running ones have ended and are saved.
    pub async fn stop(&self) {
        self.0.context.stopping.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl Dispatcher {
    /// Works on a queue, or wakes the deliverer that does.
    fn act(self: &Arc<Self>, queue: QueueId) {
        if self.context.is_stopping() {
            return;
        }
        let wake = match self.active.lock().entry(queue.clone()) {
            Entry::Occupied(entry) => return entry.get().notify_one(),
            Entry::Vacant(entry) => entry.insert(Arc::default()).clone(),
        };
        let this = self.clone();
        let registration = Registration { dispatcher: self.clone(), queue: queue.clone(), wake: wake.clone() };
        self.tasks.spawn(async move {
            let _registration = registration;
            loop {
                match this.broker.deliveries(queue.clone()) {
                    Ok(deliveries) => {
                        if let Some(wait) = Deliverer::run(this.context.clone(), deliveries, wake.clone()).await {
                            this.remind(queue.clone(), wait);
                        }
                    }
                    Err(error) => error!(%queue, %error, "cannot deliver the messages of a queue"),
                }
                let mut active = this.active.lock();
                // A signal may have come after the deliverer has ended its lease: `enable` receives
                // it, if there is one.
                if this.context.is_stopping() || !pin!(wake.notified()).enable() {
                    active.remove(&queue);
                    return;
                }
            }
        });
    }

    /// Works on a queue if another process has not begun a short time later.
    fn act_later(self: &Arc<Self>, queue: QueueId) {
        if let Some(wake) = self.active.lock().get(&queue) {
            return wake.notify_one();
        }
        if self.waiting.lock().insert(queue.clone()) {
            let this = self.clone();
            self.tasks.spawn(async move {
                if this.context.stopping.run_until_cancelled(sleep(FALLBACK_AFTER)).await.is_some() {
                    this.waiting.lock().remove(&queue);
                    this.act(queue);
                }
            });
        }
    }

    /// Works on a queue after this time, when a retry or a delayed message is due. Maintenance
    /// finds what is due much later.
    fn remind(self: &Arc<Self>, queue: QueueId, after: Duration) {
        if after > REMINDER_MAX {
            return;
        }
        let this = self.clone();
        self.tasks.spawn(async move {
            if this.context.stopping.run_until_cancelled(sleep(after)).await.is_some() {
                this.act(queue);
            }
        });
    }
}
