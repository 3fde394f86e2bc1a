//! Subscriptions and deliveries. The rows have a contents number of their own, which is in the
//! state of the queue, so that a purge of the messages does not touch them. Expired subscriptions
//! are due changes of the queue.

use async_trait::async_trait;
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::deliveries::DELIVERY_LEASE_DURATION;
use crate::embedded::holders;
use crate::embedded::rows::delivery::DeliveryRow;
use crate::embedded::store::EmbeddedStore;
use crate::{
    DeliveryChange, DeliverySignal, DeliveryStore, Error, FeedState, LeaseFence, RetryKey, subscription_changes,
};
use sukkal_domain::{QueueId, Retry, SubscriptionId};

mod changes;
mod read;
mod save;
mod subscriptions;

#[async_trait]
impl DeliveryStore for EmbeddedStore {
    async fn take_delivery_lease(
        &self,
        queue: &QueueId,
        holder: Uuid,
    ) -> Result<Option<(LeaseFence, FeedState)>, Error> {
        self.write_up_to_date(queue, None, move |store, row, now_us| {
            let state = store.state(row.number)?;
            if state.subscription_count == 0 {
                return Ok(None);
            }
            let deliveries = store.view.delivery_row(&state)?;
            let Some(lease) = deliveries.lease.taken(holders::in_this_process(holder), now_us, DELIVERY_LEASE_DURATION)
            else {
                return Ok(None);
            };
            store.put_delivery_row(&state, &DeliveryRow { lease, ..deliveries })?;
            Ok(Some((lease.fence(), store.view.feed_state(row.number, &state, deliveries.version, now_us)?)))
        })
        .await
    }

    async fn changed_subscriptions(&self, queue: &QueueId, since: u64) -> Result<Option<Vec<SubscriptionId>>, Error> {
        let changed = self.read_up_to_date(queue, move |view, _row, state, _now_us| {
            if state.subscriptions == 0 {
                return Ok(None);
            }
            let (changes, version) = (view.subscription_changes(state)?, view.delivery_row(state)?.version);
            Ok(subscription_changes::changed_between(&changes, since, version))
        });
        Ok(changed.await?.flatten())
    }

    async fn list_retries(
        &self,
        queue: &QueueId,
        subscription: SubscriptionId,
        after: Option<RetryKey>,
        limit: usize,
    ) -> Result<Vec<Retry>, Error> {
        let queue_id = queue.clone();
        let retries = self.read_up_to_date(queue, move |view, _row, state, now_us| {
            view.retries(&queue_id, state, subscription, after, limit, now_us)
        });
        Ok(retries.await?.unwrap_or_default())
    }

    async fn save_deliveries(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        changes: &[DeliveryChange],
    ) -> Result<Option<FeedState>, Error> {
        save::save_deliveries(self, queue, fence, changes).await
    }

    async fn end_delivery_lease(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        seen: &FeedState,
        next_retry_us: Option<u64>,
    ) -> Result<bool, Error> {
        let seen = *seen;
        self.write_up_to_date(queue, true, move |store, row, now_us| {
            let state = store.state(row.number)?;
            if state.subscriptions == 0 {
                return Ok(true);
            }
            let deliveries = store.view.delivery_row(&state)?;
            if deliveries.lease.fence() != fence {
                return Ok(true);
            }
            let is_unseen = state.last > seen.last.micros() || deliveries.version != seen.subscriptions_version;
            if is_unseen && state.subscription_count > 0 {
                return Ok(false);
            }
            store.put_delivery_row(&state, &deliveries.ended(&seen, next_retry_us))?;
            if next_retry_us.is_some_and(|due_us| due_us <= now_us) {
                store.signal_deliveries(row.number);
            }
            Ok(true)
        })
        .await
    }

    fn delivery_signals(&self) -> broadcast::Receiver<DeliverySignal> {
        self.parts.signals.subscribe()
    }
}

impl EmbeddedStore {
    /// Signals that deliveries may be due in a queue.
    pub(super) fn signal_deliveries(&self, queue: &QueueId) {
        let _no_receiver = self.parts.signals.send(DeliverySignal { queue: queue.clone(), is_own: true });
    }
}
