//! Subscription documents, and the bodies of requests for subscriptions.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Error;
use super::links::Link;
use super::paths;
use super::timestamp::timestamp;
use super::{json, since};
use crate::broker::messages::{MessageQuery, Since};
use crate::broker::subscriptions::{RedeliveryRequest, Subscribed, SubscriptionRequest};
use sukkal_domain::{
    Attempt, JsonObject, MessageId, QueueId, Scope, Subscription, SubscriptionId, SubscriptionState,
    SubscriptionStatus, Warning, WithWarnings, delivery_options,
};

/// The fields of a request for a subscription.
pub const FIELDS: [&str; 5] = ["subscriber", "ttl", "options", "secret", "since"];
/// The fields of a request to change one.
pub const CHANGED_FIELDS: [&str; 4] = ["subscriber", "ttl", "options", "secret"];
const MICROS_IN_SECOND: u64 = 1_000_000;
/// Maximum size in bytes of the body of a request for a subscription.
pub const BODY_BYTES_MAX: u64 = 65_536;
/// Maximum number of characters of an invalid value that an error shows.
const SHOWN_CHARS_MAX: usize = 64;
/// Why a subscription is held.
const ASKED_TO_WAIT: &str = "The subscriber has asked to wait (Retry-After).";
const PROCESS_LOST: &str = "The process that delivered is lost, and its last request may still run.";
const NOT_AN_OBJECT: &str = "Subscriptions must be a dict.";

/// A page of a list of subscriptions.
#[derive(Debug, Serialize)]
pub struct SubscriptionListDocument {
    /// The subscriptions.
    pub subscriptions: Vec<SubscriptionDocument>,
    /// The links of the page.
    pub links: Vec<Link>,
}

/// The document of a subscription. Its keys are not shown.
#[derive(Debug, Serialize)]
pub struct SubscriptionDocument {
    id: String,
    source: String,
    subscriber: String,
    ttl: u64,
    age: u64,
    options: JsonObject,
    confirmed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<Value>,
}

/// Returns the document of a subscription.
#[must_use]
pub fn document(queue: &QueueId, subscription: &Subscription) -> SubscriptionDocument {
    let Subscription { id, ttl_s, age_s, settings, .. } = subscription;
    SubscriptionDocument {
        id: id.to_string(),
        source: queue.name().plain().to_owned(),
        subscriber: settings.subscriber.clone(),
        ttl: *ttl_s,
        age: *age_s,
        options: settings.options.clone(),
        confirmed: settings.confirmed,
        delivery: None,
    }
}

/// Returns the document of a subscription, on request with how far its deliveries have come.
#[must_use]
pub fn status_document(queue: &QueueId, status: &SubscriptionStatus, with_delivery: bool) -> SubscriptionDocument {
    let delivery = with_delivery.then(|| delivery_document(status));
    SubscriptionDocument { delivery, ..document(queue, &status.subscription) }
}

/// Returns whether notifications are sent, and if not, why and until when.
#[must_use]
pub fn state_document(status: &SubscriptionStatus) -> Value {
    let document = |state: &str, reason: Option<&str>, until_us: Option<u64>| {
        let until = until_us.map(|until_us| timestamp(until_us.div_ceil(MICROS_IN_SECOND)));
        json!({ "state": state, "reason": reason, "until": until })
    };
    match (&status.subscription.settings.state, status.held_until_us, status.waits_until_us()) {
        (SubscriptionState::Paused(reason), ..) => document("paused", reason.as_deref(), None),
        (SubscriptionState::Disabled(reason), ..) => document("disabled", Some(reason), None),
        (SubscriptionState::Active, ..) if status.awaits_confirmation => document("unconfirmed", None, None),
        (SubscriptionState::Active, Some(until_us), _) => document("held", Some(ASKED_TO_WAIT), Some(until_us)),
        (SubscriptionState::Active, None, Some(until_us)) => document("held", Some(PROCESS_LOST), Some(until_us)),
        (SubscriptionState::Active, None, None) => document("active", None, None),
    }
}

fn delivery_document(status: &SubscriptionStatus) -> Value {
    let progress = &status.progress;
    let failing_since_s = Some(progress.failing_since_us / MICROS_IN_SECOND).filter(|since_s| *since_s > 0);
    let mut document = state_document(status);
    document["pending"] = json!(status.pending);
    document["delivered"] = json!(progress.delivered);
    document["missed"] = json!(progress.missed);
    document["given_up"] = json!(progress.given_up);
    document["retrying"] = json!(progress.retries);
    document["attempts"] = json!(progress.attempts);
    document["failing_since"] = json!(failing_since_s.map(timestamp));
    document
}

/// Returns the document of a new or known subscription. Only that of a new one has its key. Returns
/// `None` if the subscription exists and is confirmed.
#[must_use]
pub fn subscribed_document(subscribed: &Subscribed) -> Option<Value> {
    match subscribed {
        Subscribed::Created { id, key, .. } => {
            let mut document = json!({ "subscription_id": id.to_string(), "secret": key.secret() });
            if let Some(public_key) = key.public_key() {
                document["public_key"] = public_key.into();
            }
            Some(document)
        }
        Subscribed::Unconfirmed { id, .. } => Some(json!({ "subscription_id": id.to_string() })),
        Subscribed::Confirmed => None,
    }
}

/// Returns the document of the last attempts of a subscription.
#[must_use]
pub fn attempts_document(attempts: &[Attempt]) -> Value {
    let document = |attempt: &Attempt| {
        json!({
            "message_id": MessageId::from_bits(attempt.message).to_string(),
            "attempt": attempt.number,
            "at": timestamp(attempt.at_s),
            "status": attempt.status,
            "duration_ms": attempt.duration_ms,
            "error": attempt.error,
            "response": attempt.response,
        })
    };
    json!({ "attempts": attempts.iter().map(document).collect::<Value>(), "links": [] })
}

/// Returns the path of a queue's subscriptions.
#[must_use]
pub fn path(queue: &QueueId) -> String {
    paths::below(queue.name(), "subscriptions")
}

/// Parses the marker of a list of subscriptions.
pub fn parse_marker(text: &str) -> Result<SubscriptionId, Error> {
    let expected = "the id of a subscription";
    SubscriptionId::parse(text).ok_or_else(|| Error::Parameter { name: "marker".to_owned(), expected })
}

/// Parses the body of a request for a new subscription. The broker checks the fields.
pub fn parse_new(body: Option<&[u8]>) -> Result<SubscriptionRequest, Error> {
    let fields = fields_of(body, || Error::Request(NOT_AN_OBJECT.to_owned()))?;
    parse_new_fields(fields)
}

/// Returns warnings about fields of a request and options that have no effect.
#[must_use]
pub fn warnings(fields: &Map<String, Value>, known: &'static [&'static str]) -> Vec<Warning> {
    let subscriber = fields.get("subscriber").and_then(Value::as_str);
    let of_options =
        fields.get("options").into_iter().flat_map(|options| delivery_options::warnings(options, subscriber));
    let options = delivery_options::KNOWN.map(|name| (name, "an option; send it in \"options\""));
    json::unknown_fields(fields, known, &options).into_iter().chain(of_options).collect()
}

/// Returns where a subscription of a connection begins: at a time, or after the message with this
/// id. Without `since`, it begins with the messages after the request.
pub fn parse_position(since: Option<&str>, queue: &QueueId) -> Result<MessageQuery, Error> {
    let marker = since.filter(|since| MessageId::parse(since, queue).is_some()).map(str::to_owned);
    let since = match since {
        _ if marker.is_some() => None,
        Some(text) => Some(since::parse(text).map_err(|_error| {
            let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
            Error::Request(format!(
                "since is {shown:?}; it must be \"now\", a time such as \"2026-11-22T12:00:00Z\", or the id of a message \
                 of this queue"
            ))
        })?),
        None => Some(Since::Now),
    };
    // Each subscriber gets all messages, as with other transports.
    let scope = Scope { claimed: true, delayed: false };
    Ok(MessageQuery { marker, since, echo: true, scope, ..MessageQuery::default() })
}

/// Parses the fields of a request for a new subscription. The broker checks the others.
pub fn parse_new_fields(fields: Map<String, Value>) -> Result<SubscriptionRequest, Error> {
    let since = fields.get("since").filter(|value| !value.is_null()).map(parse_since).transpose()?;
    Ok(SubscriptionRequest { fields, since, ..SubscriptionRequest::default() })
}

/// Parses the body of a request to change a subscription. The broker checks the fields.
pub fn parse_change(body: Option<&[u8]>) -> Result<Map<String, Value>, Error> {
    let fields = fields_of(body, || Error::Request(NOT_AN_OBJECT.to_owned()))?;
    if fields.is_empty() {
        return Err(Error::Request("No subscription to create.".to_owned()));
    }
    Ok(fields)
}

/// Parses `{"confirmed": true}`. Other fields have no effect but a warning.
pub fn parse_confirmation(body: Option<&[u8]>) -> Result<WithWarnings<bool>, Error> {
    let fields = fields_of(body, || Error::Confirmation)?;
    let confirmed = fields.get("confirmed").and_then(Value::as_bool);
    let value = confirmed.ok_or_else(|| Error::Request("The 'confirmed' should be boolean.".to_owned()))?;
    Ok(WithWarnings { value, warnings: json::unknown_fields(&fields, &["confirmed"], &[]) })
}

/// Parses `{"since": …}` or `{"ids": […]}`.
pub fn parse_redelivery(body: &[u8]) -> Result<RedeliveryRequest, Error> {
    let invalid = |text: &str| Error::Request(text.to_owned());
    let fields = json::parse_object(body)?;
    match (fields.get("since"), fields.get("ids"), fields.len()) {
        (Some(since), None, 1) => Ok(RedeliveryRequest::Since(parse_since(since)?)),
        (None, Some(ids), 1) => {
            let ids = json::texts(ids).ok_or_else(|| invalid("\"ids\" must be a list of strings"))?;
            Ok(RedeliveryRequest::Ids(ids))
        }
        _ => Err(invalid("the body must have either \"since\" or \"ids\", and no other field")),
    }
}

fn parse_since(value: &Value) -> Result<Since, Error> {
    since::parse(value.as_str().unwrap_or_default())
}

/// Returns the fields of a body, of which there are none without a body.
fn fields_of(body: Option<&[u8]>, other: impl FnOnce() -> Error) -> Result<Map<String, Value>, Error> {
    body.map_or_else(|| Ok(Map::new()), |body| json::parse_object_or(body, other))
}
