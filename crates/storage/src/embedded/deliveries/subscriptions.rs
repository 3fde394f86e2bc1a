//! Subscription operations of the store.

use std::ops::Bound;

use async_trait::async_trait;

use crate::embedded::store::EmbeddedStore;
use crate::{Error, StoredSubscriptions, SubscriptionStore, SubscriptionWrite, SubscriptionWritten};
use sukkal_domain::{Attempt, QueueId, SubscriptionId};

#[async_trait]
impl SubscriptionStore for EmbeddedStore {
    async fn read_subscriptions(
        &self,
        queue: &QueueId,
        from: Bound<SubscriptionId>,
        limit: usize,
    ) -> Result<StoredSubscriptions, Error> {
        let read = self.read_up_to_date(queue, move |view, _row, state, now_us| {
            view.stored_subscriptions(state, from, limit, now_us)
        });
        Ok(read.await?.unwrap_or_default())
    }

    async fn write_subscription(
        &self,
        queue: &QueueId,
        write: &SubscriptionWrite,
    ) -> Result<SubscriptionWritten, Error> {
        let write = write.clone();
        self.write_up_to_date(queue, SubscriptionWritten::Stale, move |store, row, now_us| {
            store.write_subscription(row.number, &write, now_us)
        })
        .await
    }

    async fn delete_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<(), Error> {
        self.write_up_to_date(queue, (), move |store, row, _now_us| store.remove_subscription(row.number, id)).await
    }

    async fn delete_subscriptions(&self, queue: &QueueId) -> Result<(), Error> {
        self.write_up_to_date(queue, (), |store, row, _now_us| store.remove_all_subscriptions(row.number)).await?;
        self.parts.watchers.note_purge(queue);
        Ok(())
    }

    async fn list_attempts(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<Vec<Attempt>>, Error> {
        let attempts = self.read_up_to_date(queue, move |view, _row, state, _now_us| {
            let exists = view.subscription(state, id)?.is_some();
            exists.then(|| view.attempts(state, id)).transpose()
        });
        Ok(attempts.await?.flatten())
    }
}
