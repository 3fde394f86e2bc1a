//! The watched queues of a process, which the drivers share: who waits, and when due changes are
//! applied.
//!
//! Each watched queue has an expiry timer: a task that knows when the next delay or lease ends, and
//! then has the store apply the due changes.
//!
//! The timer knows every lease. A message is notified when it becomes available, and each notified
//! waiter wakes the timer after its query, so that the timer reads the next due time again. A lease
//! that the timer does not know could only hold messages that were never notified, and there are
//! none.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use super::error::Error;
use super::watch::{QueueStatus, Watch, WatchedQueue, Watchers};
use sukkal_domain::{QueueId, Rank};

/// How long a queue stays watched after its last waiter has left, because most clients that have
/// waited wait again.
const LINGER: Duration = Duration::from_secs(5);
/// Minimum time between two queries of an expiry timer, however often it is woken.
const PAUSE_BETWEEN_QUERIES: Duration = Duration::from_millis(5);
/// Time that an expiry timer waits while the store is unavailable.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Time after which an expiry timer checks for lost notifications, as after a queue has moved to
/// another node.
const VERIFICATION_INTERVAL: Duration = Duration::from_secs(30);

/// The operations of a driver that watched queues need.
#[async_trait]
pub(super) trait NotificationSource: Clone + Send + Sync + 'static {
    /// Subscribes this process to notifications of the queue, whichever process causes them. May be
    /// repeated.
    async fn subscribe(&self, queue: &QueueId) -> Result<(), Error>;

    /// Ends the subscription.
    async fn unsubscribe(&self, queue: &QueueId);

    /// Applies the due changes of the queue, and returns its status.
    async fn apply_due_changes(&self, queue: &QueueId) -> Result<QueueStatus, Error>;
}

impl Watchers {
    /// Adds a waiter for the queue.
    pub(super) async fn join(&self, source: &impl NotificationSource, queue: &QueueId) -> Result<Watch, Error> {
        loop {
            let watched = self.get_or_insert(source, queue);
            if !watched.try_join() {
                watched.removed.cancelled().await;
                continue;
            }
            let watch = Watch { queue: watched.clone() };
            watched.is_subscribed.get_or_try_init(|| source.subscribe(queue)).await?;
            return Ok(watch);
        }
    }

    /// Notifies the waiters of a queue that `count` messages have become available. A count of 0
    /// means that a message was delayed or leased, and may be due earlier than the known ones.
    ///
    /// `older_position` is the lowest position of those messages that did not become available
    /// after all others.
    pub(super) fn notify(&self, queue: &QueueId, count: u64, older_position: Option<Rank>) {
        if let Some(watched) = self.get(queue) {
            watched.notify(count, older_position);
        }
    }

    /// Notes a purge of subscriptions in a store whose status has no stamp of it.
    pub(super) fn note_purge(&self, queue: &QueueId) {
        if let Some(watched) = self.get(queue) {
            watched.subscription_purge.send_modify(|stamp| *stamp += 1);
        }
    }

    /// Notifies all waiters of a queue, because notifications may have been lost.
    pub(super) fn notify_all(&self, queue: &QueueId) {
        if let Some(watched) = self.get(queue) {
            watched.notify_all();
        }
    }

    /// See [`super::WatchStore::query_finished`].
    pub(super) fn query_finished(&self, queue: &QueueId) {
        if let Some(watched) = self.get(queue) {
            watched.timer_update.notify_one();
        }
    }

    fn get_or_insert(&self, source: &impl NotificationSource, queue: &QueueId) -> Arc<WatchedQueue> {
        match self.0.lock().entry(queue.clone()) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(entry) => {
                let watched = entry.insert(WatchedQueue::new()).clone();
                tokio::spawn(run_expiry_timer(source.clone(), self.clone(), queue.clone(), watched.clone()));
                watched
            }
        }
    }

    fn get(&self, queue: &QueueId) -> Option<Arc<WatchedQueue>> {
        self.0.lock().get(queue).cloned()
    }

    fn remove(&self, queue: &QueueId, watched: &Arc<WatchedQueue>) {
        if let Entry::Occupied(entry) = self.0.lock().entry(queue.clone())
            && Arc::ptr_eq(entry.get(), watched)
        {
            entry.remove();
        }
        watched.removed.cancel();
    }
}

/// Applies due changes of the queue in time as long as it has waiters, and keeps the subscription a
/// little longer.
async fn run_expiry_timer(
    source: impl NotificationSource,
    watchers: Watchers,
    queue: QueueId,
    watched: Arc<WatchedQueue>,
) {
    let mut known =
        LastKnownStatus { verified_at: Instant::now(), last: Rank::default(), available: 0, notifications: 0 };
    let mut left_at = None;
    loop {
        let pause = if watched.has_waiters() {
            left_at = None;
            apply_and_verify(&source, &queue, &watched, &mut known).await
        } else {
            let since = left_at.get_or_insert_with(Instant::now).elapsed();
            if since >= LINGER && watched.close_if_empty() {
                break;
            }
            LINGER.saturating_sub(since)
        };
        if timeout(pause, watched.timer_update.notified()).await.is_ok() {
            sleep(PAUSE_BETWEEN_QUERIES).await;
        }
    }
    source.unsubscribe(&queue).await;
    watchers.remove(&queue, &watched);
}

/// Applies due changes, and returns the time until the next ones. From time to time, also checks
/// for lost notifications.
async fn apply_and_verify(
    source: &impl NotificationSource,
    queue: &QueueId,
    watched: &WatchedQueue,
    known: &mut LastKnownStatus,
) -> Duration {
    let is_verification = known.verified_at.elapsed() >= VERIFICATION_INTERVAL && source.subscribe(queue).await.is_ok();
    match source.apply_due_changes(queue).await {
        Ok(status) => {
            known.update(watched, &status, is_verification);
            status.next_due.unwrap_or(VERIFICATION_INTERVAL).clamp(PAUSE_BETWEEN_QUERIES, VERIFICATION_INTERVAL)
        }
        Err(error) => {
            debug!(%error, %queue, "cannot apply due changes of a watched queue");
            PAUSE_AFTER_FAILURE
        }
    }
}

/// The status that the expiry timer has read last, and the number of notifications at that time.
struct LastKnownStatus {
    verified_at: Instant,
    last: Rank,
    available: u64,
    notifications: u64,
}

impl LastKnownStatus {
    /// Records the status. In a verification, notifies all waiters if the queue has new messages
    /// without a notification.
    fn update(&mut self, watched: &WatchedQueue, status: &QueueStatus, is_verification: bool) {
        watched.note_purge(status.subscription_purge);
        let notifications = *watched.available.borrow();
        if is_verification {
            watched.restart_readers();
            self.verified_at = Instant::now();
            let has_new_messages = status.last != self.last || status.available > self.available;
            if notifications == self.notifications && has_new_messages {
                watched.notify_all();
            }
        }
        (self.last, self.available, self.notifications) = (status.last, status.available, notifications);
    }
}
