//! Subscriptions of a queue: the trait, its arguments and its results.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::Bytes;

use super::deliveries::FeedState;
use super::delivery_record::{decode_progress, decode_subscription};
use super::error::{Error, unless_unreadable};
use sukkal_domain::{
    Attempt, NewSubscription, QueueId, Rank, Revision, Subscription, SubscriptionId, SubscriptionSettings,
    SubscriptionStatus,
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
    ) -> Result<SubscriptionCreation, Error> {
        let NewSubscription { id, ttl_s, after, settings } = new.clone();
        let write = SubscriptionWrite { id, last_known_revision: None, settings, ttl_s: Some(ttl_s), after, count_max };
        let mut missing = None;
        loop {
            return Ok(match self.write_subscription(queue, &write).await? {
                SubscriptionWritten::Done => SubscriptionCreation::Created,
                SubscriptionWritten::Stale => SubscriptionCreation::NoQueue,
                SubscriptionWritten::TooMany => SubscriptionCreation::TooMany,
                SubscriptionWritten::SubscriberTaken(other) => match self.get_subscription(queue, other).await? {
                    Some(status) => SubscriptionCreation::Exists(status.subscription),
                    // It was removed meanwhile.
                    None if missing.replace(other) != Some(other) => continue,
                    None => {
                        let reason = format!("queue {queue}: the subscription {other} has a subscriber, but no record");
                        return Err(Error::Corrupt(reason));
                    }
                },
            });
        }
    }

    /// Returns the next subscriptions as they are stored, at most `limit` of them, in the order of
    /// their ids. There are fewer at the end, and if they would be too large for one reply.
    async fn read_subscriptions(
        &self,
        queue: &QueueId,
        from: Bound<SubscriptionId>,
        limit: usize,
    ) -> Result<StoredSubscriptions, Error>;

    /// Creates or changes a subscription. A call that is repeated after a lost reply has no further
    /// effect, and returns [`SubscriptionWritten::Done`]. So does the creation of a subscription
    /// whose id exists.
    async fn write_subscription(
        &self,
        queue: &QueueId,
        write: &SubscriptionWrite,
    ) -> Result<SubscriptionWritten, Error>;

    /// Returns the subscription and how far its deliveries have come, or `None` if it does not
    /// exist.
    async fn get_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<SubscriptionStatus>, Error> {
        let stored = self.read_subscriptions(queue, Bound::Included(id), 1).await?;
        let found = stored.rows.iter().find(|row| row.id == id);
        found.map(|row| row.status(queue, &stored.feed)).transpose()
    }

    /// Returns the next subscriptions after `after` and how far their deliveries have come, at most
    /// `limit` of them, in the order of their ids. There are fewer at the end, and if they would be
    /// too large for one reply. Those that cannot be read are left out, and the log names them, so
    /// a page may be empty before the end.
    async fn list_subscriptions(
        &self,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<SubscriptionPage, Error> {
        let stored = self.read_subscriptions(queue, after.map_or(Bound::Unbounded, Bound::Excluded), limit).await?;
        let subscriptions = stored.rows.iter().filter_map(|row| {
            let status = row.status(queue, &stored.feed);
            unless_unreadable(status).transpose()
        });
        let reached = stored.rows.last().map(|row| row.id).filter(|_| !stored.is_last);
        Ok(SubscriptionPage { subscriptions: subscriptions.collect::<Result<_, _>>()?, reached })
    }

    /// Changes a subscription if it is still at the revision that the caller knows, and no other
    /// subscription of the queue has the new subscriber.
    async fn update_subscription(
        &self,
        queue: &QueueId,
        id: SubscriptionId,
        change: &SubscriptionChange,
    ) -> Result<SubscriptionUpdate, Error> {
        let SubscriptionChange { last_known_revision, settings, ttl_s } = change.clone();
        let last_known_revision = Some(last_known_revision);
        let write = SubscriptionWrite { id, last_known_revision, settings, ttl_s, after: None, count_max: 0 };
        Ok(match self.write_subscription(queue, &write).await? {
            SubscriptionWritten::Done => SubscriptionUpdate::Done,
            SubscriptionWritten::SubscriberTaken(other) => SubscriptionUpdate::SubscriberTaken(other),
            SubscriptionWritten::Stale | SubscriptionWritten::TooMany => SubscriptionUpdate::Stale,
        })
    }

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

/// Subscriptions of a queue as they are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredSubscriptions {
    /// The state of the feed: its time, its total, and until when attempts of a process that has
    /// lost the lease may run.
    pub feed: FeedState,
    /// The subscriptions in the order of their ids.
    pub rows: Vec<StoredSubscription>,
    /// Whether no subscription follows.
    pub is_last: bool,
}

/// A subscription as it is stored: see `delivery_record.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSubscription {
    /// The id.
    pub id: SubscriptionId,
    /// The record.
    pub record: Bytes,
    /// The record of the progress.
    pub progress: Bytes,
}

impl StoredSubscription {
    fn status(&self, queue: &QueueId, feed: &FeedState) -> Result<SubscriptionStatus, Error> {
        let FeedState { now_us, total, lost_until_us, .. } = *feed;
        let read = || {
            let subscription = decode_subscription(self.id, &self.record, now_us)?;
            let progress = decode_progress(queue, &self.progress)?;
            Ok(SubscriptionStatus { lost_until_us, ..SubscriptionStatus::new(subscription, progress, total, now_us) })
        };
        read().map_err(|error: Error| error.of(format_args!("queue {queue}, subscription {}", self.id)))
    }
}

/// A subscription to create or to change.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionWrite {
    /// Its id.
    pub id: SubscriptionId,
    /// The revision that it must be at; `None` to create it.
    pub last_known_revision: Option<Revision>,
    /// The settings that it gets.
    pub settings: SubscriptionSettings,
    /// The time to live in seconds, which starts now; `None` leaves it as it is.
    pub ttl_s: Option<u64>,
    /// The position after which the first message of a new subscription is; `None` for the end of
    /// the feed.
    pub after: Option<Rank>,
    /// Maximum number of subscriptions with a new one.
    pub count_max: u32,
}

/// The outcome of writing a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionWritten {
    /// The subscription is stored.
    Done,
    /// Nothing was changed: the subscription is at another revision, or it or the queue does not
    /// exist.
    Stale,
    /// Nothing was changed: this other subscription of the queue has the subscriber.
    SubscriberTaken(SubscriptionId),
    /// Nothing was created: the queue has the maximum number of subscriptions.
    TooMany,
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
