//! Deliveries to the subscribers of a queue: the trait, its arguments and its results.
//!
//! One process at a time delivers the messages of a queue: the holder of the queue's delivery
//! lease. It has a lease only while there is work. Each write of the holder presents its fence, and
//! has no effect if another process has taken the lease since. See `task_lease.rs` for leases and
//! fences; a delivery lease only lasts longer.
//!
//! Work is due in a queue with subscriptions if a message became visible after the last position
//! that a holder has seen, if a subscription has changed since, if a retry is due, or if a lease
//! was not ended by its holder and has expired. A store announces it with a [`DeliverySignal`]. A
//! signal may be lost; maintenance sends it again.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;
use uuid::Uuid;

use super::error::Error;
use super::task_lease::LeaseFence;
use sukkal_domain::{Attempt, MessageId, Progress, QueueId, Rank, Retry, SubscriptionId};

/// Maximum duration of one attempt, from its start to the last byte of the response that is read.
pub const ATTEMPT_DURATION_MAX: Duration = Duration::from_secs(30);
/// Time after which a delivery lease expires unless its holder renews it. A holder begins attempts
/// only while it has the lease.
pub const DELIVERY_LEASE_DURATION: Duration = Duration::from_secs(7);
/// Time after the end of a lease that its holder has not ended, for which its attempts may still
/// run. It includes two seconds for the time between a reply of the store and its use.
pub(super) const LOST_ATTEMPTS_DURATION: Duration = Duration::from_secs(ATTEMPT_DURATION_MAX.as_secs() + 2);
/// Maximum number of signals that a receiver may be behind.
pub(super) const SIGNALS_MAX: usize = 4_096;

/// Stores how far deliveries have come.
#[async_trait]
pub trait DeliveryStore: Send + Sync {
    /// Takes the delivery lease of the queue for this holder, and returns the state of the feed.
    /// Returns `None` if another holder has the lease or the queue has no subscriptions. Taking it
    /// again for the same holder renews it and returns the same fence.
    ///
    /// A lease that has expired may still be renewed by its holder. After an outage of the store, a
    /// process takes such a lease only when it has been connected again for the duration of a
    /// lease.
    ///
    /// A fence is higher than those of all earlier holders, even if the queue or its subscriptions
    /// have been deleted since. A purge of the messages does not end the lease.
    async fn take_delivery_lease(
        &self,
        queue: &QueueId,
        holder: Uuid,
    ) -> Result<Option<(LeaseFence, FeedState)>, Error>;

    /// Returns the subscriptions that were created, changed or deleted since their version was this
    /// one, or that have expired since; some of them more than once. Returns `None` if that is not
    /// known: a store keeps only the last changes.
    async fn changed_subscriptions(&self, queue: &QueueId, since: u64) -> Result<Option<Vec<SubscriptionId>>, Error>;

    /// Returns the next retries of a subscription after `after`, at most `limit` of them, in the
    /// order in which they are due. There are fewer if they would be too large for one reply, but
    /// always one unless there is none.
    async fn list_retries(
        &self,
        queue: &QueueId,
        subscription: SubscriptionId,
        after: Option<RetryKey>,
        limit: usize,
    ) -> Result<Vec<Retry>, Error>;

    /// Stores these changes in one atomic step and renews the lease. Changes of subscriptions that
    /// do not exist have no effect. Repeating a call has no effect.
    ///
    /// Returns the state of the feed, or `None` if the lease has ended or the fence is not that of
    /// the holder. Then nothing was stored. A lease that has expired is renewed unless another
    /// process has taken it.
    async fn save_deliveries(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        changes: &[DeliveryChange],
    ) -> Result<Option<FeedState>, Error>;

    /// Ends the lease, unless work is due that the holder has not seen.
    ///
    /// `seen` is the state of the feed up to which the holder has read. `next_retry_us` is when the
    /// first retry is due; if that is not in the future, a signal is sent. The end of a delay need
    /// not be given, because then a message becomes visible.
    ///
    /// Returns whether the lease has ended; it has also if another process has taken it. It always
    /// ends in a queue without subscriptions, because no work is due there.
    async fn end_delivery_lease(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        seen: &FeedState,
        next_retry_us: Option<u64>,
    ) -> Result<bool, Error>;

    /// Receives the signals of this store from now on. A receiver that is more than some thousands
    /// of signals behind loses the oldest. A store that is shared by processes subscribes in the
    /// background, so that the first signals after the first call may be lost.
    fn delivery_signals(&self) -> broadcast::Receiver<DeliverySignal>;
}

/// The state of a queue's feed, for its deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    /// Time of the store's clock, in microseconds since 1970.
    pub now_us: u64,
    /// The highest rank that was ever visible.
    pub last: Rank,
    /// Number of messages that were ever visible, or were deleted while they were delayed. A
    /// message that is restored after a pop counts again.
    pub total: u64,
    /// Changes whenever a subscription of the queue is created, changed or deleted, or expires. It
    /// never has the same value again.
    pub subscriptions_version: u64,
    /// When the first delayed message is due, in microseconds since 1970; `None` if no message is
    /// delayed.
    pub next_delayed_us: Option<u64>,
    /// Until when attempts of a process that has lost the lease may still run, in microseconds
    /// since 1970; 0 if none can. In a store that one process uses, they end with the process.
    pub lost_until_us: u64,
}

/// What has changed for one subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryChange {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// Its new progress.
    pub progress: Progress,
    /// Attempts that have ended since the last change: each with its number among all attempts of
    /// the subscription, the first of which is 0.
    pub attempts: Vec<(u64, Attempt)>,
    /// Retries that have ended or are replaced: the message, and when the retry was due (µs).
    pub ended_retries: Vec<(MessageId, u64)>,
    /// Retries that are new.
    pub new_retries: Vec<Retry>,
}

/// When a retry is due, in microseconds since 1970, and its message. Retries are listed in this
/// order.
pub type RetryKey = (u64, MessageId);

/// Says that work may be due in a queue, now or when a delay ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliverySignal {
    /// The queue.
    pub queue: QueueId,
    /// Whether this process should act at once. Other processes act a second later, if the work is
    /// still due.
    pub is_own: bool,
}
