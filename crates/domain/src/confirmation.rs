//! Requests to send a confirmation: a document with which a subscriber accepts or ends its
//! subscription.

use super::{JsonObject, QueueId, SigningKey, SubscriptionId};

/// A request to send a confirmation to a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfirmationRequest {
    /// The queue of the subscription.
    pub queue: QueueId,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The URI of the subscriber.
    pub subscriber: String,
    /// The options of the subscription.
    pub options: JsonObject,
    /// The keys that sign notifications, the newest first.
    pub keys: Vec<SigningKey>,
    /// The occasion of the confirmation.
    pub kind: ConfirmationKind,
    /// Time for which the subscriber can use the confirmation, in seconds.
    pub valid_s: u64,
}

/// The occasion of a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmationKind {
    /// Somebody has created a subscription for the subscriber.
    Subscription,
    /// The subscriber has ended its subscription, and may return to it.
    Unsubscription,
}
