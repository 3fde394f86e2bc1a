//! What the deliverer of notifications does with the store, in the name of the service. The
//! operations take their turn among those of clients, so that deliveries of one project do not
//! delay the requests of another.

use std::sync::Arc;

use tokio::sync::broadcast;
use uuid::Uuid;

use super::access::Access;
use super::messages::{Delay, Draft, PostRequest, TenantDraft};
use super::{Action, Broker, Error};
use crate::auth::{Caller, Client};
use sukkal_domain::{
    Author, Body, ClientId, ClientIdRule, IdempotencyKey, Message, MessageId, Order, Origin, QueueId, QueueName, Rank,
    Retry, Scope, SubscriptionId, SubscriptionSettings, SubscriptionStatus,
};
use sukkal_storage::{
    DeliveryChange, DeliverySignal, FeedState, LeaseFence, Listing, Page, RetryKey, SubscriptionChange,
    SubscriptionPage, SubscriptionUpdate,
};

/// Maximum number of attempts to change a subscription that others change at the same time.
const ATTEMPTS_MAX: usize = 32;

/// The client that posts dead letters and notices.
const CLIENT_ID: &str = "00000000-0000-8000-8000-7075736800ff";

/// The deliveries of one queue.
#[derive(Clone)]
pub struct QueueDeliveries {
    broker: Broker,
    access: Access,
    queue: Arc<QueueId>,
}

impl Broker {
    /// Receives the queues in which deliveries may be due.
    pub fn delivery_signals(&self) -> Result<broadcast::Receiver<DeliverySignal>, Error> {
        Ok(self.store.authorize(&Caller::System, Action::Deliver, super::Resource::Store)?.delivery_signals())
    }

    /// Returns the deliveries of the queue.
    pub fn deliveries(&self, queue: QueueId) -> Result<QueueDeliveries, Error> {
        let access = self.store.authorize(&Caller::System, Action::Deliver, &queue)?.in_turn();
        Ok(QueueDeliveries { broker: self.clone(), access, queue: Arc::new(queue) })
    }
}

impl QueueDeliveries {
    /// Returns the queue.
    #[must_use]
    pub fn queue(&self) -> &QueueId {
        &self.queue
    }

    /// See [`sukkal_storage::DeliveryStore::take_delivery_lease`].
    pub async fn take_lease(&self, holder: Uuid) -> Result<Option<(LeaseFence, FeedState)>, Error> {
        Ok(self.access.admit().await?.take_delivery_lease(&self.queue, holder).await?)
    }

    /// See [`sukkal_storage::DeliveryStore::changed_subscriptions`].
    pub async fn changed_subscriptions(&self, since: u64) -> Result<Option<Vec<SubscriptionId>>, Error> {
        Ok(self.access.admit().await?.changed_subscriptions(&self.queue, since).await?)
    }

    /// See [`sukkal_storage::SubscriptionStore::get_subscription`].
    pub async fn subscription(&self, id: SubscriptionId) -> Result<Option<SubscriptionStatus>, Error> {
        Ok(self.access.admit().await?.get_subscription(&self.queue, id).await?)
    }

    /// See [`sukkal_storage::SubscriptionStore::list_subscriptions`].
    pub async fn subscriptions(&self, after: Option<SubscriptionId>, limit: usize) -> Result<SubscriptionPage, Error> {
        Ok(self.access.admit().await?.list_subscriptions(&self.queue, after, limit).await?)
    }

    /// See [`sukkal_storage::DeliveryStore::list_retries`].
    pub async fn retries(
        &self,
        subscription: SubscriptionId,
        after: Option<RetryKey>,
        limit: usize,
    ) -> Result<Vec<Retry>, Error> {
        Ok(self.access.admit().await?.list_retries(&self.queue, subscription, after, limit).await?)
    }

    /// See [`sukkal_storage::DeliveryStore::save_deliveries`].
    pub async fn save(&self, fence: LeaseFence, changes: &[DeliveryChange]) -> Result<Option<FeedState>, Error> {
        let resealed = self.resealed(changes);
        let changes = resealed.as_deref().unwrap_or(changes);
        Ok(self.access.admit().await?.save_deliveries(&self.queue, fence, changes).await?)
    }

    /// Returns the changes with new retries sealed with the first key, if any of them is sealed
    /// with another key.
    fn resealed(&self, changes: &[DeliveryChange]) -> Option<Vec<DeliveryChange>> {
        let reseal = |retry: &Retry| self.broker.encryption.reseal(&self.queue, &retry.message.body);
        if !changes.iter().flat_map(|change| &change.new_retries).any(|retry| reseal(retry).is_some()) {
            return None;
        }
        let mut changes = changes.to_vec();
        for retry in changes.iter_mut().flat_map(|change| &mut change.new_retries) {
            if let Some(body) = reseal(retry) {
                retry.message.body = body;
            }
        }
        Some(changes)
    }

    /// See [`sukkal_storage::DeliveryStore::end_delivery_lease`].
    pub async fn end_lease(
        &self,
        fence: LeaseFence,
        seen: &FeedState,
        next_retry_us: Option<u64>,
    ) -> Result<bool, Error> {
        Ok(self.access.admit().await?.end_delivery_lease(&self.queue, fence, seen, next_retry_us).await?)
    }

    /// Returns the next visible messages, claimed ones included. Their bodies may be sealed.
    pub async fn read(&self, after: Rank, limit: usize) -> Result<Page, Error> {
        let listing = Listing {
            after: Some(after),
            order: Order::OldestFirst,
            limit,
            not_from: None,
            scope: Scope { claimed: true, delayed: false },
            with_states: false,
        };
        Ok(self.access.admit().await?.list_messages(&self.queue, &listing).await?)
    }

    /// Returns the messages with these ids that exist. Their bodies may be sealed.
    pub async fn get(&self, ids: &[MessageId]) -> Result<Vec<Message>, Error> {
        Ok(self.access.admit().await?.get_messages(&self.queue, ids, false).await?)
    }

    /// Returns the message with its body opened.
    ///
    /// # Errors
    ///
    /// [`Error::Key`] or [`Error::Damaged`] if the body cannot be opened.
    pub fn open(&self, message: &Message) -> Result<Message, Error> {
        self.broker.encryption.decrypt(&self.queue, message.clone())
    }

    /// Returns the value of a key of the queue's metadata.
    pub async fn metadata_value(&self, key: &str) -> Result<Option<serde_json::Value>, Error> {
        let queue = self.access.admit().await?.get_queue(&self.queue).await?;
        Ok(queue.and_then(|queue| queue.metadata.keys().get(key)))
    }

    /// Changes the settings of a subscription, if it exists.
    pub async fn change(
        &self,
        id: SubscriptionId,
        change: impl Fn(&mut SubscriptionSettings) + Send + Sync,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let store = self.access.admit().await?;
            let Some(found) = store.get_subscription(&self.queue, id).await? else {
                return Ok(());
            };
            let subscription = found.subscription;
            let mut settings = subscription.settings;
            change(&mut settings);
            let change = SubscriptionChange { last_known_revision: subscription.revision, settings, ttl_s: None };
            if store.update_subscription(&self.queue, id, &change).await? == SubscriptionUpdate::Done {
                return Ok(());
            }
        }
        Err(sukkal_storage::Error::Unavailable(format!("subscription {id} changes too often")).into())
    }

    /// Returns whether a subscription has posted this message, as a dead letter or a notice.
    #[must_use]
    pub fn is_follow_up(&self, message: &Message) -> bool {
        message.poster == client_id().poster()
    }

    /// Returns whether the current policy allows posts in the name of this author. Without an
    /// author, a release that did not store authors has stored the subscription, and posts are
    /// allowed.
    #[must_use]
    pub fn may_post_for(&self, author: Option<&Author>) -> bool {
        author.is_none_or(|author| {
            let caller = Caller::Client(self.client(author.roles.clone()));
            self.broker.store.allows(&caller, Action::PostMessages)
        })
    }

    /// Returns the longest ttl that a message can have, in seconds.
    #[must_use]
    pub fn max_message_ttl_s(&self) -> u32 {
        self.broker.limits.max_message_ttl
    }

    /// Posts this message to another queue of the project as a dead letter, like [`Self::post`].
    /// Its age begins at `created_s`, in seconds since 1970.
    pub async fn post_dead_letter(
        &self,
        to: &QueueName,
        key: &str,
        message: &Message,
        created_s: u64,
    ) -> Result<(), Error> {
        let origin = Origin { queue: self.queue.name().clone(), id: message.id, claim_count: 0 };
        let request = PostRequest {
            trace: message.trace,
            origin: Some(Box::new((origin, created_s))),
            ..post_of(key, message.ttl_s, message.body.clone())
        };
        self.send(to, request).await
    }

    /// Posts a message to another queue of the project. Posting again under the same key has no
    /// effect for as long as the store keeps the key. A sealed body stays sealed.
    pub async fn post(&self, to: &QueueName, key: &str, ttl_s: u32, body: Body) -> Result<(), Error> {
        self.send(to, post_of(key, ttl_s, body)).await
    }

    async fn send(&self, to: &QueueName, request: PostRequest) -> Result<(), Error> {
        let queue = QueueId::new(self.queue.project().clone(), to.clone()).expect("the project has a queue");
        let caller = Caller::SystemAs(self.client(Vec::new()));
        self.broker.post_messages(&caller, queue, request).await.map(drop)
    }

    /// Returns the client that posts, with these roles.
    fn client(&self, roles: Vec<String>) -> Client {
        Client { project: self.queue.project().clone(), id: client_id(), roles, identity: None }
    }
}

fn post_of(key: &str, ttl_s: u32, body: Body) -> PostRequest {
    // The body is not part of the key, because it may be sealed anew before it is posted again.
    let idempotency = IdempotencyKey::new(key.as_bytes(), &[]).ok();
    let draft = Draft { ttl_s: Some(ttl_s.into()), delay: Delay::Unset, tenant: TenantDraft::Unset, body };
    PostRequest { drafts: vec![draft], bytes: 0, idempotency, trace: None, origin: None, durability: None }
}

fn client_id() -> ClientId {
    ClientIdRule::Uuid.parse(CLIENT_ID).expect("it is a UUID")
}
