//! Waiting for messages: the trait, its results, and the state that they share with `watchers.rs`.
//!
//! A waiter subscribes to the queue, runs its query, sleeps until it is notified, and runs the
//! query again. It subscribes before the query, so it misses no message. Workers are notified one
//! per available message, because only one of them can claim it. Readers are notified all at once.

use std::sync::Arc;
use std::time::Duration;

use ahash::HashMap;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{Notify, OnceCell, broadcast, futures::Notified, watch};
use tokio_util::sync::CancellationToken;

use super::error::Error;
use sukkal_domain::{QueueId, Rank};

/// Maximum number of older positions kept for a reader that has not caught up. A reader that has
/// missed some starts its next query at its own start position.
const OLDER_POSITIONS_MAX: usize = 16;
/// A position before every message.
const BEFORE_ALL: Rank = Rank::MIN;

/// Notifies waiters of available messages.
#[async_trait]
pub trait WatchStore: Send + Sync {
    /// Subscribes a waiter to a queue. Once this has returned, the watch is notified of every
    /// message that becomes available in the queue, whichever process has caused it.
    async fn watch(&self, queue: &QueueId) -> Result<Watch, Error>;

    /// Updates the expiry timer of a watched queue. Call this after a waiter's query and before the
    /// waiter sleeps: otherwise the store may not know when the next lease ends.
    fn query_finished(&self, queue: &QueueId);

    /// Returns the waiters of this process. The stores of a service with pools share them.
    fn watchers(&self) -> &Watchers;

    /// Notifies the watchers of everything that happens in the queue of this store from now on. May
    /// be repeated.
    async fn subscribe_to(&self, _queue: &QueueId) -> Result<(), Error> {
        Ok(())
    }

    /// Ends the subscription.
    async fn unsubscribe_from(&self, _queue: &QueueId) {}

    /// Applies due changes of the queue, and returns its status. The status of a queue that does
    /// not exist is that of an empty queue.
    async fn queue_status(&self, queue: &QueueId) -> Result<QueueStatus, Error>;
}

/// The state of a queue's feed at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatus {
    /// Time of the store's clock, in microseconds since 1970.
    pub now_us: u64,
    /// The highest rank that was ever visible.
    pub last: Rank,
    /// Number of available messages.
    pub available: u64,
    /// Time until the next delay or lease ends.
    pub next_due: Option<Duration>,
    /// Stamp of the last purge of subscriptions. A later purge has a higher one. 0 if there was
    /// none, and always 0 in an embedded store, whose only process knows of each purge.
    pub subscription_purge: u64,
}

impl QueueStatus {
    /// Returns the current end of the feed: visible messages are at or before this position, later
    /// posts after it.
    #[must_use]
    pub fn position(&self) -> Rank {
        let before_now = Rank::new(self.now_us.saturating_sub(1)).unwrap_or(Rank::MAX);
        self.last.max(before_now)
    }
}

/// All queues that have waiters in this process: see `watchers.rs`. Clones share their state.
#[derive(Clone, Default)]
pub struct Watchers(pub(super) Arc<Mutex<HashMap<QueueId, Arc<WatchedQueue>>>>);

/// A waiter's subscription to a queue. It ends when this is dropped.
pub struct Watch {
    pub(super) queue: Arc<WatchedQueue>,
}

impl Watch {
    /// Returns a future that completes when there may be a message for a worker.
    ///
    /// Notifications count from the moment when the future is enabled. If it is dropped without
    /// having completed, its notification goes to another worker.
    pub fn worker(&self) -> Notified<'_> {
        self.queue.workers.notified()
    }

    /// Passes a notification on to another worker, because the receiver does not run its query.
    pub fn pass_on(&self) {
        self.queue.workers.notify_one();
    }

    /// Returns a receiver of notifications for a reader. With `with_delayed`, it is also notified
    /// of delayed messages.
    #[must_use]
    pub fn reader(&self, with_delayed: bool) -> Receiver {
        let changes = if with_delayed { &self.queue.changes } else { &self.queue.available };
        Receiver { changes: changes.subscribe(), older_positions: self.queue.older_positions.subscribe() }
    }

    /// Returns the stamp of the last purge of subscriptions that this process knows of.
    #[must_use]
    pub fn subscription_purge(&self) -> u64 {
        *self.queue.subscription_purge.borrow()
    }

    /// Completes when all subscriptions of the queue are purged after the purge with this stamp.
    pub async fn subscriptions_purged_after(&self, stamp: u64) {
        let mut purges = self.queue.subscription_purge.subscribe();
        let _later = purges.wait_for(|purge| *purge > stamp).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiters = self.queue.waiters.lock();
        waiters.count -= 1;
        if waiters.count == 0 {
            self.queue.timer_update.notify_one();
        }
    }
}

/// Receives the notifications for a waiter that reads a feed.
#[derive(Debug)]
pub struct Receiver {
    changes: watch::Receiver<u64>,
    older_positions: broadcast::Receiver<Rank>,
}

impl Receiver {
    /// Waits until there is a notification that came after the last call of [`Self::catch_up`].
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // There is a sender as long as the queue is watched.
            std::future::pending::<()>().await;
        }
    }

    /// Marks all notifications so far as received; call this before a query.
    ///
    /// Returns the lowest position at which messages became available that are not after all
    /// others. A query that continues where the last one ended must start before this position. If
    /// notifications were lost, the position is before every message.
    pub fn catch_up(&mut self) -> Option<Rank> {
        self.changes.mark_unchanged();
        let mut lowest: Option<Rank> = None;
        loop {
            let rank = match self.older_positions.try_recv() {
                Ok(rank) => rank,
                Err(TryRecvError::Lagged(_)) => BEFORE_ALL,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return lowest,
            };
            lowest = Some(lowest.map_or(rank, |lowest| lowest.min(rank)));
        }
    }
}

/// A queue that has waiters in this process, or had some a short time ago.
pub(super) struct WatchedQueue {
    waiters: Mutex<Waiters>,
    pub(super) is_subscribed: OnceCell<()>,
    workers: Notify,
    /// Number of notifications of available messages.
    pub(super) available: watch::Sender<u64>,
    /// Number of notifications of available or delayed messages.
    changes: watch::Sender<u64>,
    /// Positions at which messages became available although readers may have passed them.
    older_positions: broadcast::Sender<Rank>,
    /// Stamp of the last purge of subscriptions that is known.
    pub(super) subscription_purge: watch::Sender<u64>,
    /// Wakes the expiry timer.
    pub(super) timer_update: Notify,
    /// Canceled when the queue is watched no longer.
    pub(super) removed: CancellationToken,
}

#[derive(Default)]
struct Waiters {
    count: usize,
    is_closed: bool,
}

impl WatchedQueue {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiters: Mutex::default(),
            is_subscribed: OnceCell::new(),
            workers: Notify::new(),
            available: watch::Sender::default(),
            changes: watch::Sender::default(),
            older_positions: broadcast::Sender::new(OLDER_POSITIONS_MAX),
            subscription_purge: watch::Sender::default(),
            timer_update: Notify::new(),
            removed: CancellationToken::new(),
        })
    }

    /// Returns whether the queue has waiters.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiters.lock().count > 0
    }

    /// Adds a waiter. Returns false if the queue accepts no more waiters.
    pub(super) fn try_join(&self) -> bool {
        let mut waiters = self.waiters.lock();
        waiters.count += usize::from(!waiters.is_closed);
        !waiters.is_closed
    }

    /// Stops accepting waiters if there are none, and returns whether it has stopped.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut waiters = self.waiters.lock();
        waiters.is_closed = waiters.count == 0;
        waiters.is_closed
    }

    /// See [`super::watchers::Watchers::notify`].
    pub(super) fn notify(&self, count: u64, older_position: Option<Rank>) {
        if let Some(rank) = older_position {
            // Sent first, so that a reader that is woken knows the position.
            let _no_readers = self.older_positions.send(rank);
        }
        if count > 0 {
            self.available.send_modify(|count| *count += 1);
            let waiters = self.waiters.lock().count as u64;
            (0..count.min(waiters)).for_each(|_| self.workers.notify_one());
        }
        self.changes.send_modify(|count| *count += 1);
        self.timer_update.notify_one();
    }

    /// Notes the stamp of the last purge of subscriptions.
    pub(super) fn note_purge(&self, stamp: u64) {
        let raise = |known: &mut u64| stamp > std::mem::replace(known, stamp.max(*known));
        self.subscription_purge.send_if_modified(raise);
    }

    /// Notifies all waiters, because notifications may have been lost.
    pub(super) fn notify_all(&self) {
        self.notify(u64::MAX, Some(BEFORE_ALL));
    }

    /// Makes each reader start its next query at its own start position, because notifications may
    /// have been lost.
    pub(super) fn restart_readers(&self) {
        let _no_readers = self.older_positions.send(BEFORE_ALL);
    }
}
