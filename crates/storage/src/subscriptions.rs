//! Subscriptions of a queue: the trait, its arguments and its results.

use async_trait::async_trait;

use super::error::Error;
use sukkal_domain::{
    Attempt, NewSubscription, QueueId, Revision, Subscription, SubscriptionId, SubscriptionSettings, SubscriptionStatus,
};

/// Stores subscriptions. A subscription that has expired does not exist for any method.
///
/// Each change of a subscription is announced as [`super::DeliveryStore::delivery_signals`] says.
#[async_trait]
pub trait SubscriptionStore: Send + Sync {
    /// Creates a subscription, unless the queue has one with the same subscriber, or else has
    /// `count_max` of them. If a subscription with this id exists, the call has no effect and
    /// returns [`SubscriptionCreation::Created`].
    async fn create_subscription(
        &self,
        queue: &QueueId,
        new: &NewSubscription,
        count_max: u32,
    ) -> Result<SubscriptionCreation, Error>;

    /// Returns the subscription and how far its deliveries have come, or `None` if it does not
    /// exist.
    async fn get_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<SubscriptionStatus>, Error>;

    /// Returns the next subscriptions after `after` and how far their deliveries have come, at most
    /// `limit` of them, in the order of their ids. There are fewer at the end, and if they would be
    /// too large for one reply. Those that cannot be read are left out, and the log names them, so
    /// a page may be empty before the end.
    async fn list_subscriptions(
        &self,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<SubscriptionPage, Error>;

    /// Changes a subscription if it is still at the revision that the caller knows, and no other
    /// subscription of the queue has the new subscriber.
    async fn update_subscription(
        &self,
        queue: &QueueId,
        id: SubscriptionId,
        change: &SubscriptionChange,
    ) -> Result<SubscriptionUpdate, Error>;

    /// Deletes the subscription with its progress, attempts and retries. Has no effect if it does
    /// not exist.
    async fn delete_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<(), Error>;

    /// Deletes all subscriptions of the queue, and notifies its watchers in all processes:
    /// [`super::Watch::subscriptions_purged_after`].
    async fn delete_subscriptions(&self, queue: &QueueId) -> Result<(), Error>;

    /// Returns the last attempts of the subscription, the newest first, at most
    /// [`sukkal_domain::ATTEMPTS_KEPT`]. Returns `None` if the subscription does not exist.
    async fn list_attempts(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<Vec<Attempt>>, Error>;
}

/// A page of the subscriptions of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubscriptionPage {
    /// The subscriptions, and how far their deliveries have come.
    pub subscriptions: Vec<SubscriptionStatus>,
    /// The last subscription examined, from which the list continues; `None` at the end of the
    /// list.
    pub reached: Option<SubscriptionId>,
}

/// The result of creating a subscription.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one for each creation")]
pub enum SubscriptionCreation {
    /// The subscription is new.
    Created,
    /// Nothing was created: this subscription has the same subscriber.
    Exists(Subscription),
    /// Nothing was created: the queue has the maximum number of subscriptions.
    TooMany,
    /// Nothing was created: the queue does not exist.
    NoQueue,
}

/// A change of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionChange {
    /// The revision that the caller knows.
    pub last_known_revision: Revision,
    /// The new settings.
    pub settings: SubscriptionSettings,
    /// The new time to live in seconds, which starts now; `None` leaves it as it is.
    pub ttl_s: Option<u64>,
}

/// The result of changing a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionUpdate {
    /// The subscription was changed.
    Done,
    /// Nothing was changed: the subscription is at another revision, or does not exist.
    Stale,
    /// Nothing was changed: this other subscription of the queue has the new subscriber.
    SubscriberTaken(SubscriptionId),
}
