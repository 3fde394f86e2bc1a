//! Message documents.

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::view::View;
use crate::api::{Error, wire};
use crate::broker::messages::{Delay, Draft};
use crate::domain::{Message, MessageId, QueueId};

/// The longest list of ids in a `Location` header: clients and proxies refuse long header lines.
const LOCATION_IDS_MAX: usize = 100;

/// A message as it is shown. Clients fail on keys that they do not know, so there are no others.
#[derive(Debug, Serialize)]
pub struct MessageDocument {
    id: String,
    href: String,
    ttl: u32,
    age: u64,
    body: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Value>,
}

impl MessageDocument {
    /// The document of a message in this queue.
    #[must_use]
    pub fn new(queue: &QueueId, message: &Message, view: View) -> Self {
        let body = wire::json::from_body(&message.body);
        Self {
            id: message.id.to_string(),
            href: claimed_href(queue, message),
            ttl: message.ttl_s,
            age: message.age_s,
            checksum: view.checksums.of(&body),
            origin: view.origin(message.origin.as_ref()),
            body,
        }
    }
}

/// The documents of messages in this queue.
#[must_use]
pub fn documents(queue: &QueueId, messages: &[Message], view: View) -> Vec<MessageDocument> {
    messages.iter().map(|message| MessageDocument::new(queue, message, view)).collect()
}

/// The documents of popped messages. They are nowhere any more, so they have no path; the claim is one
/// that nobody else ever had.
#[must_use]
pub fn popped(messages: &[Message], view: View) -> Value {
    let claim = Uuid::new_v4().to_string();
    let document = |message: &Message| {
        let body = wire::json::from_body(&message.body);
        let checksum = view.checksums.of(&body);
        let mut document = json!({
            "id": message.id.to_string(),
            "age": message.age_s,
            "ttl": message.ttl_s,
            "body": body,
            "claim_id": claim,
            "claim_count": message.claim_count,
        });
        if let Some(checksum) = checksum {
            document["checksum"] = checksum.into();
        }
        if let Some(origin) = view.origin(message.origin.as_ref()) {
            document["origin"] = origin;
        }
        document
    };
    messages.iter().map(document).collect()
}

/// The path of a queue's messages.
#[must_use]
pub fn path(queue: &QueueId) -> String {
    format!("/v2/queues/{}/messages", queue.name())
}

/// The path of a message.
#[must_use]
pub fn href(queue: &QueueId, id: MessageId) -> String {
    format!("{}/{id}", path(queue))
}

/// The path of a message, by which it can be deleted: it names the claim that the message is under.
#[must_use]
pub fn claimed_href(queue: &QueueId, message: &Message) -> String {
    let href = href(queue, message.id);
    match message.claim {
        Some(claim) => format!("{href}?claim_id={claim}"),
        None => href,
    }
}

/// Where the first of the posted messages can be got at once.
#[must_use]
pub fn location(queue: &QueueId, ids: &[MessageId]) -> String {
    let ids: Vec<String> = ids.iter().take(LOCATION_IDS_MAX).map(ToString::to_string).collect();
    format!("{}?ids={}", path(queue), ids.join(","))
}

/// Reads `{"messages": [{"body": …, "ttl": …, "delay": …}, …]}`; other fields are dropped.
pub fn parse_drafts(bytes: &[u8]) -> Result<Vec<Draft>, Error> {
    let Value::Object(mut document) = wire::json::parse(bytes)? else {
        return Err(no_messages());
    };
    match document.remove("messages") {
        None => Err(no_messages()),
        Some(Value::Array(messages)) => messages.into_iter().map(parse_draft).collect(),
        Some(_) => Err(Error::Body("Document type not supported.".to_owned())),
    }
}

fn parse_draft(message: Value) -> Result<Draft, Error> {
    let Value::Object(fields) = message else {
        return Err(Error::Body("Each message must be an object.".to_owned()));
    };
    let ttl_s = match fields.get("ttl") {
        None => None,
        Some(ttl) => Some(wire::json::integer("ttl", ttl)?),
    };
    let delay = match fields.get("delay") {
        None => Delay::Unset,
        Some(delay) => wire::json::integer("delay", delay).map_or(Delay::Malformed, Delay::Seconds),
    };
    let body = fields.get("body").ok_or_else(|| Error::Body("Missing \"body\" field.".to_owned()))?;
    Ok(Draft { ttl_s, delay, body: wire::json::to_body(body) })
}

fn no_messages() -> Error {
    Error::Request("No messages were found in the request body.".to_owned())
}
