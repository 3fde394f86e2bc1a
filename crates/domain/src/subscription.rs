//! Subscriptions: who is notified of the messages of a queue, and how.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::random_id::random_id;
use super::{JsonObject, MessageId, Rank, Revision, Subscriber};

random_id! {
    /// Id of a subscription: a random UUID. Subscriptions are listed in the order of their ids.
    SubscriptionId
}

/// The option with the id of the trust that a subscription uses. Only the service sets it.
pub const TRUST_ID: &str = "trust_id";

/// A subscription as a store returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// Id of the subscription.
    pub id: SubscriptionId,
    /// Version of the subscription. Each change gives it a higher one. It is at least the time of
    /// the change by the store's clock, in microseconds since 1970.
    pub revision: Revision,
    /// Time to live in seconds, from its creation or the last change of the time to live.
    pub ttl_s: u64,
    /// Time since then, in whole seconds of the store's clock.
    pub age_s: u64,
    /// What the owner has set.
    pub settings: SubscriptionSettings,
}

/// What the owner of a subscription has set. Only `Debug` hides the secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubscriptionSettings {
    /// The URI that is notified. No other subscription of the queue has the same one.
    pub subscriber: String,
    /// The options, as the owner has written them.
    pub options: JsonObject,
    /// Whether the subscriber has confirmed that it wants notifications.
    pub confirmed: bool,
    /// The keys that sign notifications, the newest first.
    pub keys: Vec<SigningKey>,
    /// Whether notifications are sent.
    pub state: SubscriptionState,
    /// What the deliverer is asked to do, the oldest first. It remembers the number of the last
    /// request that it has carried out.
    pub requests: Vec<NumberedRequest>,
    /// The client in whose name the service posts to the queues that the options name. `None` if
    /// they name none, or if a release without authors has stored the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
}

/// A client of the project that has named other queues in the options of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The user, the token or the certificate, if the request of the client had a credential.
    pub user: Option<String>,
    /// The roles that the client had.
    pub roles: Vec<String>,
}

/// Whether notifications of a subscription are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubscriptionState {
    /// They are sent.
    #[default]
    Active,
    /// They wait until the owner resumes the subscription. The reason is set if the service has
    /// paused it.
    Paused(Option<String>),
    /// The service has given up on the subscriber, for this reason. The owner can resume it.
    Disabled(String),
}

/// A key that signs notifications. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    /// What the key is for.
    pub algorithm: SignatureAlgorithm,
    /// The secret bytes. Their memory is overwritten when they are dropped.
    #[serde(serialize_with = "bytes_of", deserialize_with = "erased_bytes")]
    pub bytes: Zeroizing<Vec<u8>>,
    /// The time until which the key signs, in seconds since 1970; `None` for the newest key.
    pub until_s: Option<u64>,
}

fn bytes_of<S: Serializer>(bytes: &Zeroizing<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    (**bytes).serialize(serializer)
}

fn erased_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<Vec<u8>>, D::Error> {
    Vec::deserialize(deserializer).map(Zeroizing::new)
}

/// A signature algorithm of the Standard Webhooks specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignatureAlgorithm {
    /// `v1`: HMAC-SHA256.
    HmacSha256,
    /// `v1a`: Ed25519. The bytes of the key are its seed.
    Ed25519,
}

/// A request of the owner to the deliverer, with its number. Numbers ascend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberedRequest {
    /// The number.
    pub number: u64,
    /// The request.
    pub request: DeliveryRequest,
}

/// What an owner asks the deliverer to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryRequest {
    /// Continue with the messages after this position (µs), whether they were delivered or not.
    Seek(u64),
    /// Deliver the messages after this position (µs) again. Messages before it that were not sent
    /// yet are sent, too.
    Rewind(u64),
    /// Forget earlier failures, because the owner has resumed the subscription or changed its
    /// subscriber.
    Restart,
    /// Deliver the messages with these ids again, as far as they exist.
    Redeliver(Vec<u128>),
}

/// A new subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSubscription {
    /// Its id.
    pub id: SubscriptionId,
    /// Time to live, in seconds.
    pub ttl_s: u64,
    /// The position after which its first message is; `None` for the end of the feed. A position
    /// after the end counts as the end.
    pub after: Option<Rank>,
    /// What the owner has set.
    pub settings: SubscriptionSettings,
}

impl SubscriptionSettings {
    /// Returns the settings of a subscription that is active and has no keys.
    #[must_use]
    pub fn new(subscriber: String, options: JsonObject) -> Self {
        let (state, requests, author) = (SubscriptionState::Active, Vec::new(), None);
        Self { subscriber, options, confirmed: false, keys: Vec::new(), state, requests, author }
    }

    /// Returns the id of the trust with which the subscriber is called, if it needs one.
    #[must_use]
    pub fn trust(&self) -> Option<&str> {
        self.options.text(TRUST_ID).filter(|_| Subscriber::is_text_for_trust(&self.subscriber))
    }
}

impl DeliveryRequest {
    /// Returns a request to deliver these messages again.
    #[must_use]
    pub fn redeliver(ids: &[MessageId]) -> Self {
        Self::Redeliver(ids.iter().map(|id| id.bits()).collect())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({:?}, hidden)", self.algorithm)
    }
}
