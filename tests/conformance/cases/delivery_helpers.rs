//! Helpers for cases on subscriptions and deliveries.

use std::time::Duration;

use serde_json::{Map, json};
use sukkal_domain::{
    Attempt, Message, NewSubscription, Progress, QueueId, Rank, Retry, Subscription, SubscriptionId,
    SubscriptionSettings, SubscriptionState, SubscriptionStatus,
};
use sukkal_storage::{
    DeliveryChange, DeliverySignal, FeedState, LeaseFence, SubscriptionChange, SubscriptionCreation, SubscriptionUpdate,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use crate::conformance::support::subject::Subject;

const OK: &str = "the store answers";
/// Ttl of subscriptions whose expiry does not matter, in seconds.
pub(in crate::conformance) const LASTING_S: u64 = 1_000_000;
/// More subscriptions than a case creates in a queue.
pub(in crate::conformance) const MANY: u32 = 10_000;
/// Longer than a delivery lease.
pub(in crate::conformance) const LEASE_OVER: Duration = Duration::from_secs(41);
/// Timeout for a signal that normally arrives within milliseconds.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a signal would arrive that must not be sent.
const SIGNAL_ABSENCE: Duration = Duration::from_millis(300);

impl Subject {
    /// Creates a subscription, which must be new.
    pub(in crate::conformance) async fn subscribe(&self, queue: &QueueId, subscriber: &str) -> SubscriptionId {
        self.subscribe_with(queue, subscription(subscriber)).await
    }

    pub(in crate::conformance) async fn subscribe_with(&self, queue: &QueueId, new: NewSubscription) -> SubscriptionId {
        assert_eq!(self.try_subscribe(queue, &new).await, SubscriptionCreation::Created, "{new:?}");
        new.id
    }

    pub(in crate::conformance) async fn try_subscribe(
        &self,
        queue: &QueueId,
        new: &NewSubscription,
    ) -> SubscriptionCreation {
        self.store().create_subscription(queue, new, MANY).await.expect(OK)
    }

    pub(in crate::conformance) async fn find_subscription(
        &self,
        queue: &QueueId,
        id: SubscriptionId,
    ) -> Option<SubscriptionStatus> {
        self.store().get_subscription(queue, id).await.expect(OK)
    }

    /// Returns a subscription, which must exist.
    pub(in crate::conformance) async fn subscription(&self, queue: &QueueId, id: SubscriptionId) -> Subscription {
        self.find_subscription(queue, id).await.expect("the subscription exists").subscription
    }

    /// Returns the progress of a subscription, which must exist.
    pub(in crate::conformance) async fn progress_of(&self, queue: &QueueId, id: SubscriptionId) -> Progress {
        self.find_subscription(queue, id).await.expect("the subscription exists").progress
    }

    /// Returns the ids of all subscriptions.
    pub(in crate::conformance) async fn subscription_ids(&self, queue: &QueueId) -> Vec<SubscriptionId> {
        let listed = self.store().list_subscriptions(queue, None, MANY as usize).await.expect(OK);
        listed.subscriptions.iter().map(|found| found.subscription.id).collect()
    }

    /// Changes a subscription from its current revision.
    pub(in crate::conformance) async fn change(
        &self,
        queue: &QueueId,
        id: SubscriptionId,
        settings: SubscriptionSettings,
        ttl_s: Option<u64>,
    ) {
        let last_known_revision = self.subscription(queue, id).await.revision;
        let change = SubscriptionChange { last_known_revision, settings, ttl_s };
        let update = self.store().update_subscription(queue, id, &change).await;
        assert_eq!(update, Ok(SubscriptionUpdate::Done), "{change:?}");
    }

    pub(in crate::conformance) async fn unsubscribe(&self, queue: &QueueId, id: SubscriptionId) {
        self.store().delete_subscription(queue, id).await.expect(OK);
    }

    pub(in crate::conformance) async fn try_lease(&self, queue: &QueueId, holder: u128) -> Option<LeaseFence> {
        self.try_lease_with_state(queue, holder).await.map(|(fence, _)| fence)
    }

    async fn try_lease_with_state(&self, queue: &QueueId, holder: u128) -> Option<(LeaseFence, FeedState)> {
        self.store().take_delivery_lease(queue, Uuid::from_u128(holder)).await.expect(OK)
    }

    /// Takes the delivery lease, which no other holder may have.
    pub(in crate::conformance) async fn lease(&self, queue: &QueueId, holder: u128) -> (LeaseFence, FeedState) {
        self.try_lease_with_state(queue, holder).await.expect("no other holder has the lease")
    }

    /// Saves changes. Returns `None` if the fence is not that of the holder.
    pub(in crate::conformance) async fn save(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        changes: &[DeliveryChange],
    ) -> Option<FeedState> {
        self.store().save_deliveries(queue, fence, changes).await.expect(OK)
    }

    /// Ends the lease for a holder that has seen this state, without a retry.
    pub(in crate::conformance) async fn end_lease(&self, queue: &QueueId, fence: LeaseFence, seen: &FeedState) -> bool {
        self.store().end_delivery_lease(queue, fence, seen, None).await.expect(OK)
    }

    pub(in crate::conformance) async fn retries(&self, queue: &QueueId, id: SubscriptionId) -> Vec<Retry> {
        self.store().list_retries(queue, id, None, 100).await.expect(OK)
    }

    pub(in crate::conformance) async fn attempts(&self, queue: &QueueId, id: SubscriptionId) -> Option<Vec<Attempt>> {
        self.store().list_attempts(queue, id).await.expect(OK)
    }

    pub(in crate::conformance) async fn list_subscriptions(
        &self,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Vec<SubscriptionStatus> {
        self.store().list_subscriptions(queue, after, limit).await.expect(OK).subscriptions
    }

    /// Runs the action, and asserts that it sends a signal for the queue.
    pub(in crate::conformance) async fn assert_signals(&self, queue: &QueueId, action: impl AsyncFnOnce()) {
        let mut signals = self.store().delivery_signals();

        action().await;

        let signal = timeout(SIGNAL_TIMEOUT, next_signal(&mut signals, queue)).await.expect("a signal arrives");
        // If there are other processes, one of them may be chosen to act at once.
        assert!(signal.is_own || self.is_shared(), "the only process acts at once");
    }

    /// Runs the action, and asserts that it sends no signal for the queue.
    pub(in crate::conformance) async fn assert_no_signal(&self, queue: &QueueId, action: impl AsyncFnOnce()) {
        let mut signals = self.store().delivery_signals();

        action().await;

        let deadline = Instant::now() + SIGNAL_ABSENCE;
        assert_eq!(timeout_at(deadline, next_signal(&mut signals, queue)).await.ok(), None);
    }

    /// Waits until no signal for the queue is on its way.
    pub(in crate::conformance) async fn drain_signals(&self, queue: &QueueId) {
        let mut signals = self.store().delivery_signals();
        while timeout(SIGNAL_ABSENCE, next_signal(&mut signals, queue)).await.is_ok() {}
    }
}

/// Returns the next signal for the queue. Other tests may use the same store.
pub(in crate::conformance) async fn next_signal(
    signals: &mut Receiver<DeliverySignal>,
    queue: &QueueId,
) -> DeliverySignal {
    loop {
        match signals.recv().await {
            Ok(signal) if signal.queue == *queue => return signal,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => panic!("the store sends no more signals"),
        }
    }
}

/// Returns a new subscription of this subscriber, which begins at the end of the feed.
pub(in crate::conformance) fn subscription(subscriber: &str) -> NewSubscription {
    NewSubscription { id: SubscriptionId::random(), ttl_s: LASTING_S, after: None, settings: settings(subscriber) }
}

/// Returns a new subscription that expires after a minute.
pub(in crate::conformance) fn expiring_subscription(subscriber: &str) -> NewSubscription {
    NewSubscription { ttl_s: 60, ..subscription(subscriber) }
}

pub(in crate::conformance) fn settings(subscriber: &str) -> SubscriptionSettings {
    SubscriptionSettings {
        subscriber: subscriber.to_owned(),
        options: (&Map::from_iter([("subscriber".to_owned(), json!(subscriber))])).into(),
        confirmed: true,
        keys: Vec::new(),
        state: SubscriptionState::Active,
        requests: Vec::new(),
        author: None,
    }
}

/// Returns a change of the progress only: this number of messages were delivered.
pub(in crate::conformance) fn delivered(subscription: SubscriptionId, delivered: u64) -> DeliveryChange {
    DeliveryChange {
        subscription,
        progress: Progress { position: Rank::MIN, delivered, ..Progress::default() },
        attempts: Vec::new(),
        ended_retries: Vec::new(),
        new_retries: Vec::new(),
    }
}

/// Returns an attempt with this number among the attempts of its subscription.
pub(in crate::conformance) fn attempt(number: u64) -> (u64, Attempt) {
    let attempt = Attempt {
        message: number.into(),
        number: 1,
        at_s: 1_000 + number,
        status: Some(503),
        duration_ms: 20,
        error: Some("the status is 503".to_owned()),
        response: "busy".to_owned(),
    };
    (number, attempt)
}

/// Returns the retry of a message that is due at this time (µs).
pub(in crate::conformance) fn retry(message: &Message, due_us: u64) -> Retry {
    Retry { attempts: 1, due_us, message: message.clone() }
}
