//! Reads and deletes subscriptions.

use super::lookup::no_subscription;
use crate::auth::Caller;
use crate::broker::range::page_limit;
use crate::broker::{Action, Broker, Error};
use sukkal_domain::{Attempt, Progress, QueueId, Subscription, SubscriptionId, SubscriptionStatus};
use sukkal_storage::{SubscriptionPage, unless_unreadable};

/// Maximum size of the options in a page, in bytes. Those of a single subscription may be larger.
const PAGE_BYTES_MAX: usize = 512 << 10;

impl Broker {
    /// Returns the next subscriptions after `after` and how far their deliveries have come, in the
    /// order of their ids. They include those of WebSocket connections of this process. A page may
    /// be shorter than its limit, although more follow, if it is large; only the last one is empty.
    pub async fn list_subscriptions(
        &self,
        caller: &Caller,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: Option<i64>,
    ) -> Result<Vec<SubscriptionStatus>, Error> {
        let access = self.store.authorize(caller, Action::ListSubscriptions, queue)?;
        let limit = page_limit(limit, self.limits.max_subscriptions_per_page)?;
        let store = access.admit().await?;
        let mut page = store.list_subscriptions(queue, after, limit).await?;
        while page.subscriptions.is_empty() && page.reached.is_some() {
            page = store.list_subscriptions(queue, page.reached, limit).await?;
        }
        for found in &mut page.subscriptions {
            found.awaits_confirmation = self.awaits_confirmation(&found.subscription);
        }
        let connected = self.connected.list(queue, after, limit);
        Ok(with_connected(page, connected, limit))
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
        let known = SubscriptionId::parse_or_unknown(id);
        if let Some(subscription) = self.connected.get(queue, known) {
            return Ok(of_connection(subscription));
        }
        let found = store.get_subscription(queue, known).await?.ok_or_else(|| no_subscription(id))?;
        Ok(SubscriptionStatus { awaits_confirmation: self.awaits_confirmation(&found.subscription), ..found })
    }

    /// Deletes the subscription, if it exists.
    pub async fn delete_subscription(&self, caller: &Caller, queue: QueueId, id: &str) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::DeleteSubscription, &queue)?.admit().await?;
        let id = SubscriptionId::parse_or_unknown(id);
        if self.connected.delete(&queue, id) {
            return Ok(());
        }
        let found = match self.trusts.get() {
            // The trust of a subscription that cannot be read is not known.
            Some(_) => unless_unreadable(store.get_subscription(&queue, id).await)?.flatten(),
            None => None,
        };
        let trust = found.and_then(|found| Some(found.subscription.settings.trust()?.to_owned()));
        self.run_to_completion(async move { store.delete_subscription(&queue, id).await }).await?;
        if let Some(trust) = trust {
            self.delete_trust(trust);
        }
        Ok(())
    }

    /// Deletes all subscriptions of the queue, as a part of a purge. Those of connections to any
    /// process end soon after that.
    pub async fn purge_subscriptions(&self, caller: &Caller, queue: QueueId) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::PurgeQueue, &queue)?.admit().await?;
        self.run_to_completion(async move { Ok(store.delete_subscriptions(&queue).await?) }).await
    }

    /// Returns the last attempts to notify the subscriber, the newest first.
    pub async fn list_attempts(&self, caller: &Caller, queue: &QueueId, id: &str) -> Result<Vec<Attempt>, Error> {
        let store = self.store.authorize(caller, Action::ListAttempts, queue)?.admit().await?;
        let known = SubscriptionId::parse_or_unknown(id);
        store.list_attempts(queue, known).await?.ok_or_else(|| no_subscription(id))
    }
}

/// Returns a page of the store with the subscriptions of connections that belong to it. It has at
/// most `limit` subscriptions, and few enough bytes of options, but always one unless there is
/// none.
fn with_connected(page: SubscriptionPage, connected: Vec<Subscription>, limit: usize) -> Vec<SubscriptionStatus> {
    let SubscriptionPage { mut subscriptions, reached } = page;
    // Those after the end of the page belong to a later one.
    let belong = connected.into_iter().filter(|one| reached.is_none_or(|reached| one.id < reached));
    subscriptions.extend(belong.map(of_connection));
    subscriptions.sort_by_key(|found| found.subscription.id);
    let mut bytes = 0;
    let fits = |found: &&SubscriptionStatus| {
        bytes += found.subscription.settings.options.as_msgpack().len();
        bytes <= PAGE_BYTES_MAX
    };
    let count = subscriptions.iter().take(limit).take_while(fits).count();
    subscriptions.truncate(count.max(1));
    subscriptions
}

/// Returns the status of the subscription of a connection, whose deliveries are not stored.
fn of_connection(subscription: Subscription) -> SubscriptionStatus {
    SubscriptionStatus::new(subscription, Progress::default(), 0, 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use sukkal_domain::{Revision, SubscriptionSettings};

    fn subscription(number: u8, option_bytes: usize) -> Subscription {
        let options = Map::from_iter([("a".to_owned(), json!("x".repeat(option_bytes)))]);
        let settings = SubscriptionSettings::new(String::new(), (&options).into());
        let id = SubscriptionId::from_bytes([number; 16]);
        Subscription { id, revision: Revision(0), ttl_s: 60, age_s: 0, settings }
    }

    #[test]
    fn a_page_has_the_subscriptions_of_connections_that_belong_to_it() {
        let listed = |stored: &[u8], is_last: bool, connected: &[u8], option_bytes, limit| -> Vec<u8> {
            let subscriptions =
                |numbers: &[u8]| numbers.iter().map(|number| subscription(*number, option_bytes)).collect();
            let (stored, connected): (Vec<_>, Vec<_>) = (subscriptions(stored), subscriptions(connected));
            let reached = stored.last().filter(|_| !is_last).map(|last| last.id);
            let page = SubscriptionPage { subscriptions: stored.into_iter().map(of_connection).collect(), reached };
            let page = with_connected(page, connected, limit);
            page.iter().map(|found| found.subscription.id.as_bytes()[0]).collect()
        };

        assert_eq!(listed(&[2, 4], true, &[1, 3, 5], 1, 10), [1, 2, 3, 4, 5]);
        assert_eq!(listed(&[2, 4], false, &[1, 3, 5], 1, 10), [1, 2, 3, 4], "others of the store follow");
        assert_eq!(listed(&[2, 4], false, &[1, 3, 5], 1, 3), [1, 2, 3]);
        assert_eq!(listed(&[], true, &[1, 2], 1, 10), [1, 2]);
        assert_eq!(listed(&[2, 4], true, &[1, 3, 5], 200_000, 10), [1, 2], "512 KiB are in a page");
        assert_eq!(listed(&[2, 4], true, &[1, 3, 5], 600_000, 10), [1], "a page has at least one");
        assert!(listed(&[], true, &[], 1, 10).is_empty());
    }
}
