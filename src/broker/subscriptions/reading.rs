//! Reads and deletes subscriptions.

use super::lookup::{no_subscription, parse_id};
use crate::auth::Caller;
use crate::broker::range::check_range;
use crate::broker::{Action, Broker, Error};
use crate::domain::{Attempt, Progress, QueueId, Subscription, SubscriptionId, SubscriptionStatus};

impl Broker {
    /// Returns the next subscriptions after `after` and how far their deliveries have come, in the
    /// order of their ids. They include those of WebSocket connections of this process.
    pub async fn list_subscriptions(
        &self,
        caller: &Caller,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: Option<i64>,
    ) -> Result<Vec<SubscriptionStatus>, Error> {
        let access = self.store.authorize(caller, Action::ListSubscriptions, queue)?;
        let limit = match limit {
            Some(limit) => check_range("limit", limit, 1, self.limits.max_subscriptions_per_page)?,
            None => self.limits.subscriptions_per_page(),
        };
        let limit = limit as usize;
        let mut page = access.admit().await?.list_subscriptions(queue, after, limit).await?;
        let connected = self.connected.list(queue, after, limit);
        if !connected.is_empty() {
            page.extend(connected.into_iter().map(of_connection));
            page.sort_by_key(|found| found.subscription.id);
            page.truncate(limit);
        }
        Ok(page)
    }

    /// Returns the subscription and how far its deliveries have come. That of a WebSocket
    /// connection has no progress.
    pub async fn get_subscription(
        &self,
        caller: &Caller,
        queue: &QueueId,
        id: &str,
    ) -> Result<SubscriptionStatus, Error> {
        let store = self.store.authorize(caller, Action::GetSubscription, queue)?.admit().await?;
        let known = parse_id(&store, id).await?;
        if let Some(subscription) = self.connected.get(queue, known) {
            return Ok(of_connection(subscription));
        }
        store.get_subscription(queue, known).await?.ok_or_else(|| no_subscription(id))
    }

    /// Deletes the subscription, if it exists.
    pub async fn delete_subscription(&self, caller: &Caller, queue: QueueId, id: &str) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::DeleteSubscription, &queue)?.admit().await?;
        let Some(id) = SubscriptionId::parse(id) else {
            return Ok(store.ping().await?);
        };
        if self.connected.delete(&queue, id) {
            return Ok(());
        }
        let trust = match self.trusts.get() {
            Some(_) => store
                .get_subscription(&queue, id)
                .await?
                .and_then(|found| Some(found.subscription.settings.trust()?.to_owned())),
            None => None,
        };
        self.run_to_completion(async move { store.delete_subscription(&queue, id).await }).await?;
        if let Some(trust) = trust {
            self.delete_trust(trust);
        }
        Ok(())
    }

    /// Deletes all subscriptions of the queue, as a part of a purge.
    pub async fn purge_subscriptions(&self, caller: &Caller, queue: QueueId) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::PurgeQueue, &queue)?.admit().await?;
        let this = self.clone();
        self.run_to_completion(async move {
            store.delete_subscriptions(&queue).await?;
            this.connected.delete_all(&queue);
            Ok(())
        })
        .await
    }

    /// Returns the last attempts to notify the subscriber, the newest first.
    pub async fn list_attempts(&self, caller: &Caller, queue: &QueueId, id: &str) -> Result<Vec<Attempt>, Error> {
        let store = self.store.authorize(caller, Action::ListAttempts, queue)?.admit().await?;
        let known = parse_id(&store, id).await?;
        store.list_attempts(queue, known).await?.ok_or_else(|| no_subscription(id))
    }
}

/// Returns the status of the subscription of a connection, whose deliveries are not stored.
fn of_connection(subscription: Subscription) -> SubscriptionStatus {
    SubscriptionStatus { subscription, progress: Progress::default(), pending: 0 }
}
