//! Message documents, and the body of a post.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::Error;
use super::checksum::Checksum;
use super::json::{self, JsonBody};
use super::links::Link;
use super::paths;
use super::state::{DeliveryDocument, FirstClaimDocument, StateDocument};
use super::view::{OriginDocument, View};
use crate::broker::messages::{Delay, Draft, TenantDraft};
use sukkal_domain::msgpack::{Reader, Token};
use sukkal_domain::warning::{NameKind, UnknownNames, of_unknown};
use sukkal_domain::{Body, ClaimId, Message, MessageId, Order, QueueId, Tenant, WithWarnings};

/// Maximum number of ids in a `Location` header. Clients and proxies refuse long headers.
const LOCATION_IDS_MAX: usize = 100;
/// Maximum length in bytes of the path of a message.
const HREF_BYTES_MAX: usize = 168;
/// The field of a post with its messages.
pub const MESSAGES: &str = "messages";
const NO_MESSAGES: &str =
    "No messages were found in the request body. It must have the form {\"messages\": [{\"body\": ...}, ...]}.";
/// The fields of a message in a post.
pub const MESSAGE_FIELDS: [&str; 4] = ["body", "ttl", "delay", "tenant"];
/// Estimated size in bytes of a message document without its body, and of a list without its
/// messages.
const FRAME_BYTES: usize = 256;

/// The document of a message. Clients fail on unknown keys, so it has no other keys.
#[derive(Debug, Serialize)]
pub struct MessageDocument<'a> {
    id: Uuid,
    href: String,
    ttl: u32,
    age: u64,
    body: JsonBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<Checksum<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<OriginDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(flatten)]
    state: Option<StateDocument<'a>>,
    #[serde(flatten)]
    delivery: Option<DeliveryDocument>,
}

/// The document of a message in a reply over a WebSocket.
#[derive(Debug, Serialize)]
pub struct BareMessageDocument<'a> {
    id: Uuid,
    claim_id: Option<Uuid>,
    ttl: u32,
    age: u64,
    body: JsonBody<'a>,
}

/// The document of a popped message. The message is deleted, so it has no path.
#[derive(Debug, Serialize)]
pub struct PoppedDocument<'a> {
    id: Uuid,
    age: u64,
    ttl: u32,
    body: JsonBody<'a>,
    claim_id: Uuid,
    claim_count: u32,
    #[serde(flatten)]
    first_claim: Option<FirstClaimDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<Checksum<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<OriginDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

/// The document of several messages, with links if they are a page.
#[derive(Debug, Serialize)]
pub struct ListDocument<D> {
    /// The documents of the messages.
    pub messages: Vec<D>,
    /// The links of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<Link>>,
}

/// The response to a post: the paths of the messages, in the order of the request.
#[derive(Debug, Serialize)]
pub struct PostedDocument {
    resources: Vec<String>,
}

impl<'a> MessageDocument<'a> {
    /// Creates the document of a message in this queue.
    #[must_use]
    pub fn new(queue: &'a QueueId, message: &'a Message, view: View) -> Self {
        let body = JsonBody(&message.body);
        Self {
            id: message.id.into(),
            // With the claim id in the path, the client can delete the message.
            href: href(queue, message.id, view.claim(message)),
            ttl: message.ttl_s,
            age: message.age_s,
            body,
            checksum: view.checksums.of(body),
            origin: view.origin(message.origin.as_ref()),
            traceparent: view.traceparent(message.trace),
            state: StateDocument::of(message),
            delivery: (view.deliveries && message.state.is_none()).then(|| DeliveryDocument::of(message)),
        }
    }
}

impl<'a> BareMessageDocument<'a> {
    /// Creates the document of a message, which this claim holds.
    #[must_use]
    pub fn new(message: &'a Message, claim: Option<ClaimId>) -> Self {
        let Message { id, ttl_s, age_s, body, .. } = message;
        Self { id: (*id).into(), claim_id: claim.map(Into::into), ttl: *ttl_s, age: *age_s, body: JsonBody(body) }
    }
}

impl<'a> PoppedDocument<'a> {
    fn new(message: &'a Message, claim: Uuid, view: View) -> Self {
        let body = JsonBody(&message.body);
        Self {
            id: message.id.into(),
            age: message.age_s,
            ttl: message.ttl_s,
            body,
            claim_id: claim,
            // On request, this delivery counts too.
            claim_count: message.claim_count + u32::from(view.deliveries),
            first_claim: view.deliveries.then(|| FirstClaimDocument::of(message)),
            checksum: view.checksums.of(body),
            origin: view.origin(message.origin.as_ref()),
            traceparent: view.traceparent(message.trace),
        }
    }
}

impl PostedDocument {
    /// Creates the document of messages that were posted to this queue.
    #[must_use]
    pub fn new(queue: &QueueId, ids: &[MessageId]) -> Self {
        Self { resources: ids.iter().map(|id| href(queue, *id, None)).collect() }
    }
}

/// Returns the documents of messages in this queue.
#[must_use]
pub fn documents<'a>(queue: &'a QueueId, messages: &'a [Message], view: View) -> Vec<MessageDocument<'a>> {
    messages.iter().map(|message| MessageDocument::new(queue, message, view)).collect()
}

/// Returns the documents of messages in a reply over a WebSocket, which this claim holds.
#[must_use]
pub fn bare_documents(messages: &[Message], claim: Option<ClaimId>) -> Vec<BareMessageDocument<'_>> {
    messages.iter().map(|message| BareMessageDocument::new(message, claim)).collect()
}

/// Returns the documents of popped messages, with a random claim id that no other messages have.
#[must_use]
pub fn popped(messages: &[Message], view: View) -> Vec<PoppedDocument<'_>> {
    let claim = Uuid::new_v4();
    messages.iter().map(|message| PoppedDocument::new(message, claim, view)).collect()
}

/// Returns the initial buffer size in bytes for a response with the documents of these messages.
/// While a text is written, the buffer needs space for six times its length.
#[must_use]
pub fn documents_bytes(messages: &[Message]) -> usize {
    let bytes = |message: &Message| message.body.as_msgpack().len();
    let documents = messages.iter().map(|message| FRAME_BYTES + bytes(message) * 5 / 4).sum::<usize>();
    FRAME_BYTES + documents + 6 * messages.last().map_or(0, bytes)
}

/// Returns the path of a queue's messages.
#[must_use]
pub fn path(queue: &QueueId) -> String {
    paths::below(queue.name(), "messages")
}

/// Returns the path of a message, with the id of its claim if there is one.
#[must_use]
pub fn href(queue: &QueueId, id: MessageId, claim: Option<ClaimId>) -> String {
    let mut href = String::with_capacity(HREF_BYTES_MAX);
    href.extend([paths::all(queue.name().kind()), "/", queue.name().plain(), "/messages/"]);
    push(&mut href, id);
    if let Some(claim) = claim {
        href.push_str("?claim_id=");
        push(&mut href, claim);
    }
    href
}

/// Returns a URL that gets the posted messages, or the first of them if they are many.
#[must_use]
pub fn location(queue: &QueueId, ids: &[MessageId]) -> String {
    let ids = &ids[..ids.len().min(LOCATION_IDS_MAX)];
    let path = path(queue);
    let mut location = String::with_capacity(path.len() + "?ids=".len() + ids.len() * (1 + Hyphenated::LENGTH));
    location.extend([&path, "?ids="]);
    for (index, id) in ids.iter().enumerate() {
        if index > 0 {
            location.push(',');
        }
        push(&mut location, *id);
    }
    location
}

/// Appends an id. Formatting it would cost several times as much, and every response has several
/// ids.
fn push(text: &mut String, id: impl Into<Uuid>) {
    text.push_str(id.into().hyphenated().encode_lower(&mut Uuid::encode_buffer()));
}

/// Parses the order of a list.
pub fn parse_order(text: &str) -> Result<Order, Error> {
    match text {
        "asc" => Ok(Order::OldestFirst),
        "desc" => Ok(Order::NewestFirst),
        _ => Err(Error::Parameter { name: "order".to_owned(), expected: "\"asc\" or \"desc\"" }),
    }
}

/// Parses `{"messages": [{"body": …, "ttl": …, "delay": …, "tenant": …}, …]}`. Other fields have no
/// effect but a warning.
pub fn parse_drafts(json: &[u8]) -> Result<WithWarnings<Vec<Draft>>, Error> {
    let document = Bytes::from(json::parse_to_msgpack(json)?);
    let mut drafts = drafts_of(&document)?;
    let mut reader = Reader::new(&document);
    if let Some(Token::Object(length)) = reader.token().filter(|token| *token != Token::Object(1)) {
        let names = reader.entries(length).map(|(name, _)| str::from_utf8(name).unwrap_or_default());
        drafts.warnings.extend(of_unknown(NameKind::Field, &[MESSAGES], names));
    }
    Ok(drafts)
}

/// Returns the drafts in a document that was converted from JSON, whose memory their bodies share.
pub(super) fn drafts_of(document: &Bytes) -> Result<WithWarnings<Vec<Draft>>, Error> {
    let mut reader = Reader::new(document);
    let mut unknown = UnknownNames::new(NameKind::MessageField, &MESSAGE_FIELDS);
    match reader.token() {
        Some(Token::Object(length)) if reader.seek(MESSAGES.as_bytes(), length) => {}
        _ => return Err(Error::Request(NO_MESSAGES.to_owned())),
    }
    let Some(Token::Array(length)) = reader.token() else {
        return Err(Error::Body("Document type not supported.".to_owned()));
    };
    let draft = |index| read_draft(document, &mut reader, (index + 1, length), &mut unknown);
    let drafts: Result<_, Error> = (0..length).map(draft).collect();
    Ok(WithWarnings { value: drafts?, warnings: unknown.into_warnings() })
}

/// Reads the next message of the document, which has this number among so many. Its body shares the
/// memory of the document.
fn read_draft(
    document: &Bytes,
    reader: &mut Reader<'_>,
    (number, count): (u32, u32),
    unknown: &mut UnknownNames<'_>,
) -> Result<Draft, Error> {
    let Some(Token::Object(length)) = reader.token() else {
        return Err(Error::Body(format!("Each message must be an object. Message {number} is none.")));
    };
    let (mut ttl, mut delay, mut tenant, mut body) = (None, None, None, None);
    for (name, value) in reader.entries(length) {
        match name {
            b"ttl" => ttl = Some(value),
            b"delay" => delay = Some(value),
            b"tenant" => tenant = Some(value),
            b"body" => body = Some(value),
            name => unknown.check(str::from_utf8(name).unwrap_or_default()),
        }
    }
    let integer = |field, value| json::integer(field, &json::scalar_from_msgpack(value));
    let ttl_s = ttl.map(|ttl| integer("ttl", ttl)).transpose()?;
    let delay = delay.map_or(Delay::Unset, |delay| integer("delay", delay).map_or(Delay::Malformed, Delay::Seconds));
    let tenant = tenant.map_or(TenantDraft::Unset, read_tenant);
    let body = body.ok_or_else(|| {
        // Clients of WebSockets compare the text of a single message.
        let which = if count == 1 { String::new() } else { format!(" Message {number} has none.") };
        Error::Body(format!("Missing \"body\" field.{which}"))
    })?;
    Ok(Draft { ttl_s, delay, tenant, body: Body::from_msgpack(document.slice_ref(body)) })
}

fn read_tenant(value: &[u8]) -> TenantDraft {
    match json::scalar_from_msgpack(value) {
        Value::String(name) => Tenant::new(&name).map_or(TenantDraft::Malformed, TenantDraft::Named),
        _ => TenantDraft::Malformed,
    }
}
