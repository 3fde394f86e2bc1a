//! Subscriptions of queues in pools.

use std::ops::Bound;

use async_trait::async_trait;

use super::PooledStore;
use super::search::at;
use crate::{Error, StoredSubscriptions, SubscriptionStore, SubscriptionWrite, SubscriptionWritten};
use sukkal_domain::{Attempt, QueueId, SubscriptionId};

#[async_trait]
impl SubscriptionStore for PooledStore {
    async fn read_subscriptions(
        &self,
        queue: &QueueId,
        from: Bound<SubscriptionId>,
        limit: usize,
    ) -> Result<StoredSubscriptions, Error> {
        at!(self, queue, store => store.read_subscriptions(queue, from, limit))
    }

    async fn write_subscription(
        &self,
        queue: &QueueId,
        write: &SubscriptionWrite,
    ) -> Result<SubscriptionWritten, Error> {
        at!(self, queue, store => store.write_subscription(queue, write))
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
