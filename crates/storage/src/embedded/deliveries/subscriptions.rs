//! Subscription operations of the store.

use async_trait::async_trait;

use crate::embedded::store::EmbeddedStore;
use crate::{
    Error, SubscriptionChange, SubscriptionCreation, SubscriptionPage, SubscriptionStore, SubscriptionUpdate,
    unless_unreadable,
};
use sukkal_domain::{Attempt, NewSubscription, QueueId, SubscriptionId, SubscriptionStatus};

#[async_trait]
impl SubscriptionStore for EmbeddedStore {
    async fn create_subscription(
        &self,
        queue: &QueueId,
        new: &NewSubscription,
        count_max: u32,
    ) -> Result<SubscriptionCreation, Error> {
        let new = new.clone();
        self.write_up_to_date(queue, SubscriptionCreation::NoQueue, move |store, number, now_us| {
            store.create_subscription(number, &new, count_max, now_us)
        })
        .await
    }

    async fn get_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<SubscriptionStatus>, Error> {
        let of = queue.clone();
        let found = self.read_up_to_date_with_row(queue, move |view, _row, state, now_us| {
            let record = view.subscription(state, id)?;
            record.map(|record| view.status(&of, state, id, &record, now_us)).transpose()
        });
        Ok(found.await?.flatten())
    }

    async fn list_subscriptions(
        &self,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<SubscriptionPage, Error> {
        let of = queue.clone();
        let listed = self.read_up_to_date_with_row(queue, move |view, _row, state, now_us| {
            let (records, is_last) = view.subscriptions_after(state, after, limit)?;
            let mut page = SubscriptionPage::default();
            for (id, record) in records {
                page.reached = Some(id).filter(|_| !is_last);
                page.subscriptions.extend(unless_unreadable(view.status(&of, state, id, &record, now_us))?);
            }
            Ok(page)
        });
        Ok(listed.await?.unwrap_or_default())
    }

    async fn update_subscription(
        &self,
        queue: &QueueId,
        id: SubscriptionId,
        change: &SubscriptionChange,
    ) -> Result<SubscriptionUpdate, Error> {
        let change = change.clone();
        self.write_up_to_date(queue, SubscriptionUpdate::Stale, move |store, number, now_us| {
            store.update_subscription(number, id, &change, now_us)
        })
        .await
    }

    async fn delete_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<(), Error> {
        self.write_up_to_date(queue, (), move |store, number, _now_us| store.remove_subscription(number, id)).await
    }

    async fn delete_subscriptions(&self, queue: &QueueId) -> Result<(), Error> {
        self.write_up_to_date(queue, (), |store, number, _now_us| store.remove_all_subscriptions(number)).await?;
        self.parts.watchers.note_purge(queue);
        Ok(())
    }

    async fn list_attempts(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<Vec<Attempt>>, Error> {
        let attempts = self.read_up_to_date_with_row(queue, move |view, _row, state, _now_us| {
            let exists = view.subscription(state, id)?.is_some();
            exists.then(|| view.attempts(state, id)).transpose()
        });
        Ok(attempts.await?.flatten())
    }
}
