//! The request that notifies a subscriber of a message.

use std::time::{SystemTime, UNIX_EPOCH};

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::signature;
use crate::wire::notification;
use sukkal_domain::delivery_options::PLACEHOLDER;
use sukkal_domain::{DeliveryOptions, Message, QueueName, SigningKey, SubscriptionId};

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Returns the body of the request for a message whose body is open.
pub(super) fn body(queue: &QueueName, id: SubscriptionId, message: &Message, options: &DeliveryOptions) -> Vec<u8> {
    let document = notification::document(queue, id, message, options);
    fill_in(options, serde_json::to_string(&document).expect("a message has a JSON form"))
}

/// Returns the body of a request for this document, as the options say.
pub(super) fn fill_in(options: &DeliveryOptions, document: String) -> Vec<u8> {
    match &options.post_data {
        Some(template) => template.replace(PLACEHOLDER, &document).into_bytes(),
        None => document.into_bytes(),
    }
}

/// Returns the headers of a request that is sent at this time, in seconds since 1970.
pub(super) fn headers(options: &DeliveryOptions, keys: &[SigningKey], id: &str, time_s: u64, body: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in &options.post_headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    let text = |text: &str| HeaderValue::from_str(text).expect("ids, numbers and signatures are ASCII");
    headers.insert(ID, text(id));
    headers.insert(TIMESTAMP, text(&time_s.to_string()));
    headers.insert(SIGNATURE, text(&signature::sign(keys, id, time_s, body)));
    headers
}

/// Adds the trace context of a message.
pub(super) fn add_trace(headers: &mut HeaderMap, message: &Message) {
    if let Some(value) = message.trace.and_then(|trace| HeaderValue::from_str(&trace.to_string()).ok()) {
        headers.entry(TRACEPARENT).or_insert(value);
    }
}

/// Returns the time of this machine, in seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
