//! Delivers the messages of one queue to all its subscribers, for as long as there is work.
//!
//! One task does this while it holds the delivery lease of the queue. It reads the feed, begins
//! attempts in tasks of their own, and saves their outcomes: at the latest after [`SAVE_INTERVAL`],
//! and before it begins messages that it has just read. The save also tells whether a subscription
//! has changed, so a subscription that was deleted before a message was posted never gets it.

mod loading;
mod saving;
mod sending;
mod subscribers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};
use uuid::Uuid;

use self::subscribers::Subscribers;
use super::attempt::Finished;
use super::context::Context;
use super::follow_ups;
use crate::broker::Error;
use crate::broker::deliveries::QueueDeliveries;
use crate::observability::metrics::Share;
use sukkal_domain::retry_policy::PolicySetting;
use sukkal_domain::{Rank, SubscriptionId, SubscriptionState};
use sukkal_storage::{ATTEMPT_DURATION_MAX, DELIVERY_LEASE_DURATION, FeedState, LeaseFence};

/// Shortest pause before something is tried again that could not be done.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Maximum time until an outcome is saved.
const SAVE_INTERVAL: Duration = Duration::from_millis(100);
/// Time after which the lease is renewed. It leaves time for a few repetitions.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(3);
/// Time for which the retry policy of the queue is used before it is read again.
const POLICY_INTERVAL: Duration = Duration::from_secs(4);
/// How long the lease is kept without work, because most queues get further messages.
const LINGER: Duration = Duration::from_secs(5);
/// Pause before messages are loaded again for which there was no memory.
const PAUSE_FOR_MEMORY: Duration = Duration::from_millis(50);
/// Pause before the subscriptions are loaded again for whose options there was no memory.
const PAUSE_FOR_OPTIONS: Duration = Duration::from_secs(1);
/// Pause after a failure of the store.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);

/// The deliveries of one queue.
pub(super) struct Deliverer {
    context: Arc<Context>,
    deliveries: QueueDeliveries,
    wake: Arc<Notify>,
    fence: LeaseFence,
    /// The state of the feed that the store has returned last, and when it was requested.
    feed: FeedState,
    feed_at: Instant,
    /// Whether a signal has come since. It may be about messages or subscriptions.
    is_outdated: bool,
    /// Until when no other process can have the lease. After that, no attempt begins.
    lease_until: watch::Sender<Instant>,
    /// The version of the subscriptions that were loaded.
    version: Option<u64>,
    /// The retry policy of the queue, and when it was read. A change of it is not signaled.
    queue_policy: Option<PolicySetting>,
    policy_read_at: Option<Instant>,
    subscribers: Subscribers,
    /// The subscriptions that may have something to do.
    ready: BTreeSet<SubscriptionId>,
    attempts: JoinSet<Finished>,
    /// Whether an attempt could not begin, because there was no memory for its message.
    is_short_of_memory: bool,
    /// Whether there was no memory for the options of a subscription, so that all work on the queue
    /// ends.
    lacks_memory_for_options: bool,
    /// The subscriptions that are to be paused or disabled.
    stops: Vec<(SubscriptionId, SubscriptionState)>,
    /// When the first outcome that is not saved came.
    changed_at: Option<Instant>,
    idle_since: Option<Instant>,
    /// The number of deliveries that are not done yet, for the metrics.
    pending: Share,
}

/// How the work on a queue goes on.
enum Next {
    Continue,
    /// It has ended. There is work again after this time, if it is known.
    End(Option<Duration>),
}

/// What ends the work on a queue early.
enum Stop {
    /// Another process has the lease, or may have it.
    LeaseLost,
    /// The project may not hold the options of all subscriptions of the queue now.
    NoMemory,
    /// The store failed.
    Store(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl Deliverer {
    /// Takes the lease of the queue, and delivers until there is no more work. Returns at once if
    /// another process has the lease. Returns the time after which there is work again, if it is
    /// known.
    pub(super) async fn run(context: Arc<Context>, deliveries: QueueDeliveries, wake: Arc<Notify>) -> Option<Duration> {
        // Each holder has an id of its own, so that a late command of an earlier one has no effect.
        let (holder, asked_at) = (Uuid::new_v4(), Instant::now());
        let (fence, feed) = match deliveries.take_lease(holder).await {
            Ok(Some(taken)) => taken,
            Ok(None) => return None,
            Err(error) => {
                debug!(queue = %deliveries.queue(), %error, "cannot take a delivery lease; maintenance tries again");
                return None;
            }
        };
        let pending = context.metrics.push().pending();
        let deliverer = Self {
            context,
            deliveries,
            wake,
            fence,
            feed,
            feed_at: asked_at,
            is_outdated: false,
            lease_until: watch::Sender::new(asked_at + DELIVERY_LEASE_DURATION),
            version: None,
            queue_policy: None,
            policy_read_at: None,
            subscribers: Subscribers::default(),
            ready: BTreeSet::new(),
            attempts: JoinSet::new(),
            is_short_of_memory: false,
            lacks_memory_for_options: false,
            stops: Vec::new(),
            changed_at: None,
            idle_since: None,
            pending,
        };
        deliverer.work().await
    }

    async fn work(mut self) -> Option<Duration> {
        loop {
            match self.step().await {
                Ok(Next::Continue) => self.wait().await,
                Ok(Next::End(_)) if self.lacks_memory_for_options => return self.pause_for_memory().await,
                Ok(Next::End(work_after)) => return work_after,
                Err(Stop::LeaseLost) => {
                    debug!(queue = %self.deliveries.queue(), "another process has taken a delivery lease");
                    // Nobody has taken it if the queue was deleted and created again.
                    return Some(PAUSE_AFTER_FAILURE);
                }
                Err(Stop::NoMemory) => {
                    warn!(
                        queue = %self.deliveries.queue(),
                        "the options of subscriptions use up the memory; the deliveries of the queue wait"
                    );
                    self.lacks_memory_for_options = true;
                }
                Err(Stop::Store(Error::Store(error))) if error.is_transient() => {
                    debug!(queue = %self.deliveries.queue(), %error, "deliveries wait for the store");
                    // The lease can still be renewed if no other process has taken it. All attempts
                    // have ended by this time.
                    if Instant::now() >= *self.lease_until.borrow() + ATTEMPT_DURATION_MAX {
                        return None;
                    }
                    sleep(PAUSE_AFTER_FAILURE).await;
                }
                Err(Stop::Store(error)) => {
                    warn!(queue = %self.deliveries.queue(), %error, "cannot deliver the messages of a queue");
                    return None;
                }
            }
        }
    }

    /// Does what can be done now.
    async fn step(&mut self) -> Result<Next, Stop> {
        self.take_outcomes();
        self.store_stops().await?;
        if self.is_save_due() {
            self.save().await?;
        }
        if self.lacks_memory_for_options {
            return self.stop().await;
        }
        self.reload_if_changed().await?;
        self.load_retries().await?;
        if self.read().await? || self.is_outdated {
            self.save().await?;
            self.reload_if_changed().await?;
        }
        if self.context.is_stopping() {
            return self.stop().await;
        }
        self.begin_attempts();
        self.subscribers.rest();
        if self.is_idle() { self.end_if_unneeded().await } else { Ok(Next::Continue) }
    }

    /// Returns the time of the store's clock, in microseconds since 1970.
    fn now_us(&self) -> u64 {
        self.feed.now_us + u64::try_from(self.feed_at.elapsed().as_micros()).unwrap_or_default()
    }

    /// Waits until there may be something to do.
    async fn wait(&mut self) {
        let now = Instant::now();
        let mut until = self.feed_at + RENEWAL_INTERVAL;
        if let Some(changed_at) = self.changed_at {
            until = until.min(changed_at + SAVE_INTERVAL);
        }
        if let Some(idle_since) = self.idle_since {
            until = until.min(idle_since + LINGER);
        }
        if let Some(due_us) = self.next_due_us() {
            let wait = Duration::from_micros(due_us.saturating_sub(self.now_us()));
            until = until.min(now + wait.max(PAUSE_MIN));
        }
        if !self.ready.is_empty() {
            until = until.min(now + PAUSE_MIN);
        }
        if self.is_short_of_memory {
            until = until.min(now + PAUSE_FOR_MEMORY);
        }
        tokio::select! {
            Some(finished) = self.attempts.join_next() => self.take_outcome(finished),
            () = self.wake.notified() => {
                // The end of the feed is not known any more. A read finds out, or a save.
                self.feed.last = Rank::MAX;
                self.is_outdated = true;
                self.idle_since = None;
                self.all_ready();
            }
            () = std::future::ready(()), if !self.stops.is_empty() => {}
            () = self.context.stopping.cancelled(), if !self.context.is_stopping() => {}
            () = sleep_until(until) => self.all_ready(),
        }
    }

    /// Returns when there is something to do again, in microseconds since 1970, apart from new
    /// messages and outcomes.
    fn next_due_us(&self) -> Option<u64> {
        let now_us = self.now_us();
        let due = self.subscribers.working().filter_map(|(_, managed)| managed.state.next_due_us(now_us));
        due.chain(self.feed.next_delayed_us).min()
    }

    fn all_ready(&mut self) {
        self.ready.extend(self.subscribers.working().map(|(id, _)| id));
    }

    fn take_outcomes(&mut self) {
        while let Some(finished) = self.attempts.try_join_next() {
            self.take_outcome(finished);
        }
    }

    fn take_outcome(&mut self, finished: Result<Finished, tokio::task::JoinError>) {
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down, because the process did not stop in time.
                Err(_cancelled) => return,
            },
        };
        let now_us = self.now_us();
        let Some(managed) = self.subscribers.get_mut(finished.subscription) else {
            return;
        };
        self.ready.insert(finished.subscription);
        if let Some(outcome) = finished.outcome {
            let reason = managed.state.record(&finished.delivery, outcome, now_us, self.context.disable_after);
            if let Some(reason) = reason {
                let state = SubscriptionState::Disabled(reason);
                managed.stop(state.clone());
                self.stops.push((finished.subscription, state));
            }
        } else {
            managed.state.cancel(&finished.delivery, now_us);
        }
        self.changed_at.get_or_insert_with(Instant::now);
    }

    /// Stores which subscriptions are paused or disabled. If this fails, it is repeated.
    async fn store_stops(&mut self) -> Result<(), Stop> {
        while let Some((id, state)) = self.stops.first().cloned() {
            self.renew_if_due().await?;
            if let Some(managed) = self.subscribers.get(id) {
                let revision = managed.state.subscription.revision;
                follow_ups::stop(&self.deliveries, id, revision, &managed.target, &state).await?;
            }
            self.stops.remove(0);
        }
        Ok(())
    }

    fn is_idle(&mut self) -> bool {
        if !self.attempts.is_empty() || self.changed_at.is_some() || !self.stops.is_empty() {
            self.idle_since = None;
            return false;
        }
        let (now, now_us, feed) = (Instant::now(), self.now_us(), self.feed);
        let is_idle = self.subscribers.working_mut().all(|managed| managed.state.is_idle(&feed, now, now_us));
        if !is_idle {
            self.idle_since = None;
            self.all_ready();
            return false;
        }
        self.idle_since.get_or_insert(now).elapsed() >= LINGER
    }

    /// Ends the lease if there is no more work.
    async fn end_if_unneeded(&mut self) -> Result<Next, Stop> {
        self.save().await?;
        self.reload_if_changed().await?;
        let (now, now_us, feed, next_us) = (Instant::now(), self.now_us(), self.feed, self.next_due_us());
        let wait = next_us.map(|due_us| Duration::from_micros(due_us.saturating_sub(now_us)));
        let is_idle = self.subscribers.working_mut().all(|managed| managed.state.is_idle(&feed, now, now_us));
        if !is_idle || wait.is_some_and(|wait| wait <= LINGER) {
            self.idle_since = None;
            self.all_ready();
            return Ok(Next::Continue);
        }
        let has_ended = self.deliveries.end_lease(self.fence, &feed, next_us).await?;
        Ok(if has_ended { Next::End(wait) } else { Next::Continue })
    }

    /// Waits for the running attempts, saves their outcomes and gives up the lease, because the
    /// process stops or lacks memory.
    async fn stop(&mut self) -> Result<Next, Stop> {
        self.ready.clear();
        if !self.attempts.is_empty() || !self.stops.is_empty() {
            return Ok(Next::Continue);
        }
        self.save().await?;
        // Work that is due at once is announced to the other processes.
        let has_ended = self.deliveries.end_lease(self.fence, &self.feed, Some(self.feed.now_us)).await?;
        Ok(if has_ended { Next::End(None) } else { Next::Continue })
    }

    /// Lets others use the memory for a while. Returns when to begin again.
    async fn pause_for_memory(self) -> Option<Duration> {
        let context = self.context.clone();
        drop(self);
        context.stopping.run_until_cancelled(sleep(PAUSE_FOR_OPTIONS)).await.map(|()| Duration::ZERO)
    }
}
