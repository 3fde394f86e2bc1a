//! Deliveries to the subscribers of queues in pools. The signals of all stores are passed on.

use async_trait::async_trait;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use super::PooledStore;
use super::search::at;
use crate::{DeliveryChange, DeliverySignal, DeliveryStore, Error, FeedState, LeaseFence, RetryKey};
use sukkal_domain::{QueueId, Retry, SubscriptionId};

#[async_trait]
impl DeliveryStore for PooledStore {
    async fn take_delivery_lease(
        &self,
        queue: &QueueId,
        holder: Uuid,
    ) -> Result<Option<(LeaseFence, FeedState)>, Error> {
        at!(self, queue, store => store.take_delivery_lease(queue, holder))
    }

    async fn changed_subscriptions(&self, queue: &QueueId, since: u64) -> Result<Option<Vec<SubscriptionId>>, Error> {
        at!(self, queue, store => store.changed_subscriptions(queue, since))
    }

    async fn list_retries(
        &self,
        queue: &QueueId,
        subscription: SubscriptionId,
        after: Option<RetryKey>,
        limit: usize,
    ) -> Result<Vec<Retry>, Error> {
        at!(self, queue, store => store.list_retries(queue, subscription, after, limit))
    }

    async fn save_deliveries(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        changes: &[DeliveryChange],
    ) -> Result<Option<FeedState>, Error> {
        at!(self, queue, store => store.save_deliveries(queue, fence, changes))
    }

    async fn end_delivery_lease(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        seen: &FeedState,
        next_retry_us: Option<u64>,
    ) -> Result<bool, Error> {
        at!(self, queue, store => store.end_delivery_lease(queue, fence, seen, next_retry_us))
    }

    fn delivery_signals(&self) -> broadcast::Receiver<DeliverySignal> {
        self.0.signals.subscribe()
    }
}

impl PooledStore {
    /// Passes on the signals of the management store, for as long as this store exists.
    pub(super) fn forward_signals(&self) {
        tokio::spawn(self.forwarder(self.0.management.delivery_signals()));
    }

    /// Returns a future that passes on the signals of a store.
    pub(super) fn forwarder(
        &self,
        mut signals: broadcast::Receiver<DeliverySignal>,
    ) -> impl Future<Output = ()> + use<> {
        let sender = self.0.signals.clone();
        async move {
            loop {
                match signals.recv().await {
                    Ok(signal) => drop(sender.send(signal)),
                    // Maintenance sends them again.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        }
    }
}
