//! Subscriptions of queues in pools.

use async_trait::async_trait;

use super::PooledStore;
use super::search::at;
use crate::{Error, SubscriptionChange, SubscriptionCreation, SubscriptionPage, SubscriptionStore, SubscriptionUpdate};
use sukkal_domain::{Attempt, NewSubscription, QueueId, SubscriptionId, SubscriptionStatus};

#[async_trait]
impl SubscriptionStore for PooledStore {
    async fn create_subscription(
        &self,
        queue: &QueueId,
        new: &NewSubscription,
        count_max: u32,
    ) -> Result<SubscriptionCreation, Error> {
        at!(self, queue, store => store.create_subscription(queue, new, count_max))
    }

    async fn get_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<SubscriptionStatus>, Error> {
        at!(self, queue, store => store.get_subscription(queue, id))
    }

    async fn list_subscriptions(
        &self,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<SubscriptionPage, Error> {
        at!(self, queue, store => store.list_subscriptions(queue, after, limit))
    }

    async fn update_subscription(
        &self,
        queue: &QueueId,
        id: SubscriptionId,
        change: &SubscriptionChange,
    ) -> Result<SubscriptionUpdate, Error> {
        at!(self, queue, store => store.update_subscription(queue, id, change))
    }

    async fn delete_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<(), Error> {
        at!(self, queue, store => store.delete_subscription(queue, id))
    }

    async fn delete_subscriptions(&self, queue: &QueueId) -> Result<(), Error> {
        at!(self, queue, store => store.delete_subscriptions(queue))
    }

    async fn list_attempts(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<Vec<Attempt>>, Error> {
        at!(self, queue, store => store.list_attempts(queue, id))
    }
}
