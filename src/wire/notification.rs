//! The document that notifies a subscriber of a message.

use serde::Serialize;

use super::json::JsonBody;
use sukkal_domain::{DeliveryOptions, Message, QueueName, SubscriptionId};

/// The document of a message for its subscribers.
#[derive(Debug, Serialize)]
pub struct NotificationDocument<'a> {
    ttl: u32,
    body: JsonBody<'a>,
    #[serde(rename = "Message_Type")]
    message_type: &'static str,
    queue_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<DeliveryDocument>,
}

/// What identifies a notification, if the subscription wants it.
#[derive(Debug, Serialize)]
struct DeliveryDocument {
    message_id: String,
    subscription_id: String,
}

/// Returns the document of a message whose body is open, for a subscription with these options.
#[must_use]
pub fn document<'a>(
    queue: &'a QueueName,
    subscription: SubscriptionId,
    message: &'a Message,
    options: &DeliveryOptions,
) -> NotificationDocument<'a> {
    let delivery =
        || DeliveryDocument { message_id: message.id.to_string(), subscription_id: subscription.to_string() };
    NotificationDocument {
        ttl: message.ttl_s,
        body: JsonBody(&message.body),
        message_type: "Notification",
        queue_name: queue.plain(),
        topic_name: queue.topic(),
        delivery: options.with_delivery.then(delivery),
    }
}

/// Returns whether a subscription with these options wants the message, whose body is open.
#[must_use]
pub fn is_wanted(options: &DeliveryOptions, message: &Message) -> bool {
    options.matches.is_empty() || options.matches.is_part_of(message.body.as_msgpack())
}
