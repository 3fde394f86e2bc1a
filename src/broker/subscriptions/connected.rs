//! Subscriptions of WebSocket connections.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::lookup::{check_since, now_s};
use crate::auth::{Caller, Client};
use crate::broker::connected::{ConnectedSubscriptions, Registration};
use crate::broker::feed::Feed;
use crate::broker::messages::MessageQuery;
use crate::broker::{Action, Broker, Error};
use sukkal_base::memory_budget::MemoryShare;
use sukkal_domain::subscription_draft::InvalidSubscription;
use sukkal_domain::{DeliveryOptions, Metadata, QueueId, SubscriptionDraft, SubscriptionId};
use sukkal_storage::Watch;

/// A subscription of a connection. It ends when `end` is dropped, or before.
pub struct ConnectedSubscription {
    /// The messages.
    pub feed: Feed,
    /// How the messages are delivered.
    pub options: DeliveryOptions,
    /// The end of the subscription.
    pub end: SubscriptionEnd,
}

/// The end of a subscription of a connection. Dropping it ends the subscription.
pub struct SubscriptionEnd {
    registered: Registered,
    expires_at: Option<Instant>,
    deleted: CancellationToken,
    watch: Watch,
    /// Stamp of the last purge of subscriptions when this one was created.
    last_purge: u64,
    /// The memory of the options.
    _memory: MemoryShare,
}

/// The registration of a subscription, which is removed when this is dropped.
struct Registered {
    all: ConnectedSubscriptions,
    queue: QueueId,
    id: SubscriptionId,
}

/// Why a subscription of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Its time to live is over.
    Expired,
    /// It was deleted.
    Deleted,
    /// All subscriptions of its queue were purged.
    Purged,
}

impl Broker {
    /// Subscribes a connection to the queue from the position of the query. Creates the queue if it
    /// does not exist, unless the request is refused. A connection has at most one subscription of
    /// a queue.
    pub async fn subscribe_connection(
        &self,
        caller: &Caller,
        queue: &QueueId,
        connection: Uuid,
        fields: &Map<String, Value>,
        from: MessageQuery,
    ) -> Result<ConnectedSubscription, Error> {
        let access = self.store.authorize(caller, Action::CreateSubscription, queue)?;
        from.since.map_or(Ok(()), check_since)?;
        let draft = SubscriptionDraft::parse_change(fields, &self.push.addresses, now_s())?;
        let options_sent = draft.options.unwrap_or_default();
        let options = DeliveryOptions::parse(&options_sent).map_err(InvalidSubscription::from)?;
        options.check_for(queue.name()).map_err(InvalidSubscription::from)?;
        self.authorize_targets(caller, &options)?;
        let memory = self.connected.memory_for(queue, &options_sent)?;
        let ttl_s = draft.ttl_s.unwrap_or(self.limits.default_subscription_ttl.into());
        let (id, created, deleted) = (SubscriptionId::random(), Instant::now(), CancellationToken::new());
        let new = Registration { connection, ttl_s, created, options: options_sent, deleted: deleted.clone() };
        self.connected.add(queue, id, new, self.push.max_subscriptions_per_queue.into())?;
        let expires_at = created.checked_add(Duration::from_secs(ttl_s));
        let registered = Registered { all: self.connected.clone(), queue: queue.clone(), id };
        let store = access.admit().await?;
        self.check_new_queue(caller, &store, queue).await?;
        let created = queue.clone();
        let create = async move {
            store.create_queue(&created, &Metadata::default()).await?;
            store.queue_status(&created).await
        };
        let status = self.run_to_completion(create).await?;
        let watch = access.watch(queue).await?;
        let last_purge = watch.subscription_purge().max(status.subscription_purge);
        let end = SubscriptionEnd { registered, expires_at, deleted, watch, last_purge, _memory: memory };
        let mut feed = self.follow(caller, queue.clone(), &from).await?;
        feed.end_with_queue();
        Ok(ConnectedSubscription { feed, options, end })
    }

    /// Returns whether a client may subscribe its connection to queues of its project.
    #[must_use]
    pub fn may_subscribe_connection(&self, client: &Client) -> bool {
        let caller = Caller::Client(client.clone());
        let actions = [Action::CreateSubscription, Action::FollowMessages];
        actions.into_iter().all(|action| self.store.allows(&caller, action))
    }
}

impl SubscriptionEnd {
    /// Returns the id of the subscription.
    #[must_use]
    pub fn id(&self) -> SubscriptionId {
        self.registered.id
    }

    /// Completes when the subscription ends, and returns why.
    pub async fn reached(&self) -> EndReason {
        let expired = async {
            match self.expires_at {
                Some(expires_at) => sleep_until(expires_at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = expired => EndReason::Expired,
            () = self.deleted.cancelled() => EndReason::Deleted,
            () = self.watch.subscriptions_purged_after(self.last_purge) => EndReason::Purged,
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.all.delete(&self.queue, self.id);
    }
}
