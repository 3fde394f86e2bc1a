//! A simple conversion between JSON and the stored form, through a tree of the whole document. The
//! fast conversion must give the same results.

use serde_json::{Value, json};
use sukkal::broker::messages::{Delay, Draft, TenantDraft};
use sukkal::wire;
use sukkal::wire::Error;
use sukkal::wire::view::View;
use sukkal_domain::{Body, Message, QueueId, Tenant};

pub(crate) fn parse_drafts(bytes: &[u8]) -> Result<Vec<Draft>, Error> {
    let no_messages = || {
        let form = "It must have the form {\"messages\": [{\"body\": ...}, ...]}.";
        Error::Request(format!("No messages were found in the request body. {form}"))
    };
    wire::json::parse_to_msgpack(bytes)?;
    let Value::Object(mut document) = serde_json::from_slice(bytes).unwrap() else {
        return Err(no_messages());
    };
    match document.remove("messages") {
        None => Err(no_messages()),
        Some(Value::Array(messages)) => {
            let count = messages.len();
            messages.into_iter().zip(1..).map(|(message, number)| parse_draft(message, number, count)).collect()
        }
        Some(_) => Err(Error::Body("Document type not supported.".to_owned())),
    }
}

fn parse_draft(message: Value, number: usize, count: usize) -> Result<Draft, Error> {
    let Value::Object(fields) = message else {
        return Err(Error::Body(format!("Each message must be an object. Message {number} is none.")));
    };
    let ttl_s = match fields.get("ttl") {
        None => None,
        Some(ttl) => Some(wire::json::integer("ttl", ttl)?),
    };
    let delay = match fields.get("delay") {
        None => Delay::Unset,
        Some(delay) => wire::json::integer("delay", delay).map_or(Delay::Malformed, Delay::Seconds),
    };
    let tenant = match fields.get("tenant") {
        None => TenantDraft::Unset,
        Some(tenant) => {
            let tenant = Tenant::new(tenant.as_str().unwrap_or_default());
            tenant.map_or(TenantDraft::Malformed, TenantDraft::Named)
        }
    };
    let which = if count == 1 { String::new() } else { format!(" Message {number} has none.") };
    let body = fields.get("body").ok_or_else(|| Error::Body(format!("Missing \"body\" field.{which}")))?;
    Ok(Draft { ttl_s, delay, tenant, body: to_body(body) })
}

pub(crate) fn to_body(value: &Value) -> Body {
    Body::from_msgpack(rmp_serde::to_vec(value).expect("JSON always has a MessagePack form").into())
}

pub(crate) fn from_body(body: &Body) -> Value {
    rmp_serde::from_slice(body.as_msgpack()).expect("stored bodies come from JSON")
}

/// Returns the document of a message, without a checksum.
pub(crate) fn document(queue: &QueueId, message: &Message, view: View) -> Value {
    let claim = message.claim.map(|claim| format!("?claim_id={claim}")).unwrap_or_default();
    let mut document = json!({
        "id": message.id.to_string(),
        "href": format!("/v2/queues/{}/messages/{}{claim}", queue.name(), message.id),
        "ttl": message.ttl_s,
        "age": message.age_s,
        "body": from_body(&message.body),
    });
    add_optional_parts(&mut document, message, view);
    document
}

/// Returns the document of a popped message, without a checksum.
pub(crate) fn popped(message: &Message, claim: &str, view: View) -> Value {
    let mut document = json!({
        "id": message.id.to_string(),
        "age": message.age_s,
        "ttl": message.ttl_s,
        "body": from_body(&message.body),
        "claim_id": claim,
        "claim_count": message.claim_count,
    });
    add_optional_parts(&mut document, message, view);
    document
}

fn add_optional_parts(document: &mut Value, message: &Message, view: View) {
    if let Some(origin) = message.origin.as_ref().filter(|_| view.origins) {
        let (queue, id) = (origin.queue.as_str(), origin.id.to_string());
        document["origin"] = json!({ "queue": queue, "id": id, "claim_count": origin.claim_count });
    }
    if let Some(trace) = message.trace.filter(|_| view.traces) {
        document["traceparent"] = json!(trace.to_string());
    }
}
