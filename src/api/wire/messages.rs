//! Message documents.

use std::fmt::{self, Write as _};

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::checksum::Checksum;
use super::json::{self, Shown};
use super::links::Link;
use super::msgpack::{Reader, Token};
use super::text::Text;
use super::view::{OriginDocument, View};
use crate::api::Error;
use crate::broker::messages::{Delay, Draft, TenantDraft};
use crate::domain::{Body, ClaimId, Message, MessageId, QueueId, QueueName, Tenant};

/// The longest list of ids in a `Location` header: clients and proxies refuse long header lines.
const LOCATION_IDS_MAX: usize = 100;
/// About how many bytes a message's document has beside its body, or a list beside its messages.
const FRAME_BYTES: usize = 256;

/// A message as it is shown. Clients fail on keys that they do not know, so there are no others.
#[derive(Debug, Serialize)]
pub struct MessageDocument<'a> {
    id: Text<MessageId>,
    href: Text<Href<'a>>,
    ttl: u32,
    age: u64,
    body: Shown<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<Checksum<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<OriginDocument<'a>>,
}

/// A message as it is shown to who popped it. It is nowhere any more, so it has no path.
#[derive(Debug, Serialize)]
pub struct PoppedDocument<'a> {
    id: Text<MessageId>,
    age: u64,
    ttl: u32,
    body: Shown<'a>,
    claim_id: Text<Uuid>,
    claim_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<Checksum<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<OriginDocument<'a>>,
}

/// Several messages, with links where they are a page.
#[derive(Debug, Serialize)]
pub struct ListDocument<D> {
    /// The messages' documents.
    pub messages: Vec<D>,
    /// The links of a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<Link>>,
}

/// What a post is answered with: the paths of its messages, in the order given.
#[derive(Debug, Serialize)]
pub struct PostedDocument<'a> {
    resources: Vec<Text<Href<'a>>>,
}

/// The path of a message, with the claim that it is under, if it names one.
#[derive(Clone, Copy, Debug)]
pub struct Href<'a> {
    queue: &'a QueueName,
    id: MessageId,
    claim: Option<ClaimId>,
}

impl<'a> MessageDocument<'a> {
    /// The document of a message in this queue.
    #[must_use]
    pub fn new(queue: &'a QueueId, message: &'a Message, view: View) -> Self {
        let body = Shown(&message.body);
        Self {
            id: Text(message.id),
            // It names the claim, so that the message can be deleted by it.
            href: Text(Href { claim: message.claim, ..href(queue, message.id) }),
            ttl: message.ttl_s,
            age: message.age_s,
            body,
            checksum: view.checksums.of(body),
            origin: view.origin(message.origin.as_ref()),
        }
    }
}

impl<'a> PoppedDocument<'a> {
    fn new(message: &'a Message, claim: Uuid, view: View) -> Self {
        let body = Shown(&message.body);
        Self {
            id: Text(message.id),
            age: message.age_s,
            ttl: message.ttl_s,
            body,
            claim_id: Text(claim),
            claim_count: message.claim_count,
            checksum: view.checksums.of(body),
            origin: view.origin(message.origin.as_ref()),
        }
    }
}

impl<'a> PostedDocument<'a> {
    /// The document of messages that were posted to this queue.
    #[must_use]
    pub fn new(queue: &'a QueueId, ids: &[MessageId]) -> Self {
        Self { resources: ids.iter().map(|id| Text(href(queue, *id))).collect() }
    }
}

impl fmt::Display for Href<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/v2/queues/{}/messages/{}", self.queue, self.id)?;
        match self.claim {
            Some(claim) => write!(f, "?claim_id={claim}"),
            None => Ok(()),
        }
    }
}

/// The documents of messages in this queue.
#[must_use]
pub fn documents<'a>(queue: &'a QueueId, messages: &'a [Message], view: View) -> Vec<MessageDocument<'a>> {
    messages.iter().map(|message| MessageDocument::new(queue, message, view)).collect()
}

/// The documents of popped messages. Their claim is one that nobody else ever had.
#[must_use]
pub fn popped(messages: &[Message], view: View) -> Vec<PoppedDocument<'_>> {
    let claim = Uuid::new_v4();
    messages.iter().map(|message| PoppedDocument::new(message, claim, view)).collect()
}

/// How much room to begin with for an answer with the documents of these messages, in bytes. While a text is written, there has
/// to be room for six times its length.
#[must_use]
pub fn documents_bytes(messages: &[Message]) -> usize {
    let bytes = |message: &Message| message.body.as_msgpack().len();
    let documents = messages.iter().map(|message| FRAME_BYTES + bytes(message) * 5 / 4).sum::<usize>();
    FRAME_BYTES + documents + 6 * messages.last().map_or(0, bytes)
}

/// The path of a queue's messages.
#[must_use]
pub fn path(queue: &QueueId) -> String {
    format!("/v2/queues/{}/messages", queue.name())
}

/// The path of a message.
#[must_use]
pub fn href(queue: &QueueId, id: MessageId) -> Href<'_> {
    Href { queue: queue.name(), id, claim: None }
}

/// Where the first of the posted messages can be got at once.
#[must_use]
pub fn location(queue: &QueueId, ids: &[MessageId]) -> String {
    let mut location = path(queue) + "?ids=";
    for (index, id) in ids.iter().take(LOCATION_IDS_MAX).enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(location, "{comma}{id}").expect("a string can be written to");
    }
    location
}

/// Reads `{"messages": [{"body": …, "ttl": …, "delay": …, "tenant": …}, …]}`; other fields are dropped.
pub fn parse_drafts(json: &[u8]) -> Result<Vec<Draft>, Error> {
    let document = Bytes::from(json::parse_to_msgpack(json)?);
    let mut reader = Reader::new(&document);
    match reader.token() {
        Some(Token::Object(length)) if reader.seek(b"messages", length) => {}
        _ => return Err(Error::Request("No messages were found in the request body.".to_owned())),
    }
    match reader.token() {
        Some(Token::Array(length)) => (0..length).map(|_| read_draft(&document, &mut reader)).collect(),
        _ => Err(Error::Body("Document type not supported.".to_owned())),
    }
}

/// Reads the next message of the document. Its body is a part of that, not a copy.
fn read_draft(document: &Bytes, reader: &mut Reader<'_>) -> Result<Draft, Error> {
    let Some(Token::Object(length)) = reader.token() else {
        return Err(Error::Body("Each message must be an object.".to_owned()));
    };
    let (mut ttl, mut delay, mut tenant, mut body) = (None, None, None, None);
    for (name, value) in reader.entries(length) {
        match name {
            b"ttl" => ttl = Some(value),
            b"delay" => delay = Some(value),
            b"tenant" => tenant = Some(value),
            b"body" => body = Some(value),
            _ => {}
        }
    }
    let integer = |field, value| json::integer(field, &json::from_msgpack(value));
    let ttl_s = ttl.map(|ttl| integer("ttl", ttl)).transpose()?;
    let delay = delay.map_or(Delay::Unset, |delay| integer("delay", delay).map_or(Delay::Malformed, Delay::Seconds));
    let tenant = tenant.map_or(TenantDraft::Unset, read_tenant);
    let body = body.ok_or_else(|| Error::Body("Missing \"body\" field.".to_owned()))?;
    Ok(Draft { ttl_s, delay, tenant, body: Body::from_msgpack(document.slice_ref(body)) })
}

fn read_tenant(value: &[u8]) -> TenantDraft {
    match json::from_msgpack(value) {
        Value::String(name) => Tenant::new(&name).map_or(TenantDraft::Malformed, TenantDraft::Named),
        _ => TenantDraft::Malformed,
    }
}
