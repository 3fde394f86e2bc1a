//! Subscriptions, deliveries and sealed bodies use the normal store.

use async_trait::async_trait;
use sukkal::domain::{Attempt, NewSubscription, QueueId, Retry, SubscriptionId, SubscriptionStatus};
use sukkal::storage::{
    DeliveryChange, DeliverySignal, DeliveryStore, Error, FeedState, LeaseFence, RetryKey, SealedBodies, SealedPage,
    SealedPosition, SealedReplacement, SubscriptionChange, SubscriptionCreation, SubscriptionPage, SubscriptionStore,
    SubscriptionUpdate,
};
use tokio::sync::broadcast;
use uuid::Uuid;

use super::{Poster, StoreVariant};

#[async_trait]
impl<P: Poster> SubscriptionStore for StoreVariant<P> {
    async fn create_subscription(
        &self,
        queue: &QueueId,
        new: &NewSubscription,
        count_max: u32,
    ) -> Result<SubscriptionCreation, Error> {
        self.store.create_subscription(queue, new, count_max).await
    }

    async fn get_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<SubscriptionStatus>, Error> {
        self.store.get_subscription(queue, id).await
    }

    async fn list_subscriptions(
        &self,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<SubscriptionPage, Error> {
        self.store.list_subscriptions(queue, after, limit).await
    }

    async fn update_subscription(
        &self,
        queue: &QueueId,
        id: SubscriptionId,
        change: &SubscriptionChange,
    ) -> Result<SubscriptionUpdate, Error> {
        self.store.update_subscription(queue, id, change).await
    }

    async fn delete_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<(), Error> {
        self.store.delete_subscription(queue, id).await
    }

    async fn delete_subscriptions(&self, queue: &QueueId) -> Result<(), Error> {
        self.store.delete_subscriptions(queue).await
    }

    async fn list_attempts(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<Vec<Attempt>>, Error> {
        self.store.list_attempts(queue, id).await
    }
}

#[async_trait]
impl<P: Poster> DeliveryStore for StoreVariant<P> {
    async fn take_delivery_lease(
        &self,
        queue: &QueueId,
        holder: Uuid,
    ) -> Result<Option<(LeaseFence, FeedState)>, Error> {
        self.store.take_delivery_lease(queue, holder).await
    }

    async fn changed_subscriptions(&self, queue: &QueueId, since: u64) -> Result<Option<Vec<SubscriptionId>>, Error> {
        self.store.changed_subscriptions(queue, since).await
    }

    async fn list_retries(
        &self,
        queue: &QueueId,
        subscription: SubscriptionId,
        after: Option<RetryKey>,
        limit: usize,
    ) -> Result<Vec<Retry>, Error> {
        self.store.list_retries(queue, subscription, after, limit).await
    }

    async fn save_deliveries(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        changes: &[DeliveryChange],
    ) -> Result<Option<FeedState>, Error> {
        self.store.save_deliveries(queue, fence, changes).await
    }

    async fn end_delivery_lease(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        seen: &FeedState,
        next_retry_us: Option<u64>,
    ) -> Result<bool, Error> {
        self.store.end_delivery_lease(queue, fence, seen, next_retry_us).await
    }

    fn delivery_signals(&self) -> broadcast::Receiver<DeliverySignal> {
        self.store.delivery_signals()
    }
}

#[async_trait]
impl<P: Poster> SealedBodies for StoreVariant<P> {
    async fn list_sealed(&self, queue: &QueueId, after: Option<&SealedPosition>) -> Result<SealedPage, Error> {
        self.store.list_sealed(queue, after).await
    }

    async fn replace_sealed(&self, queue: &QueueId, replacements: &[SealedReplacement]) -> Result<u64, Error> {
        self.store.replace_sealed(queue, replacements).await
    }
}
