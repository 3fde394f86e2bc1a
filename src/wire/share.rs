//! The body of a share request, and the document of the signed URL.

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::Error;
use super::{json, paths};
use crate::auth::signed_url::{Expiry, InvalidSignedUrl, SignedUrl};
use sukkal_domain::{QueueId, QueueKind};

const KEYS: [&str; 3] = ["methods", "expires", "paths"];

/// Parses `{"methods": ["GET"], "expires": "2030-01-01T00:00:00", "paths": ["messages"]}`. All keys
/// are optional.
pub fn parse(bytes: &[u8], queue: &QueueId, now: OffsetDateTime) -> Result<SignedUrl, Error> {
    let fields = json::parse_object(bytes)?;
    if let Some(key) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(Error::Request(format!("unknown key {key:?}; the accepted keys are methods, expires and paths")));
    }
    let paths = list(&fields, "paths", "messages")?;
    let (accepted, named) = match queue.name().kind() {
        QueueKind::Queue => (&["messages", "subscriptions", "claims"][..], "messages, subscriptions and claims"),
        QueueKind::Topic => (&["messages", "subscriptions"][..], "messages and subscriptions"),
    };
    if let Some(path) = paths.iter().find(|path| !accepted.contains(&path.as_str())) {
        return Err(Error::Request(format!("paths contains {path:?}; it accepts {named}")));
    }
    let paths = paths.iter().map(|path| paths::below(queue.name(), path)).collect();
    let methods = list(&fields, "methods", "GET")?;
    // The methods of requests are compared with these, and no client sends one in lower case.
    if let Some(method) = methods.iter().find(|method| method.contains(|char: char| char.is_ascii_lowercase())) {
        return Err(invalid_request(InvalidSignedUrl::Method(method.clone())));
    }
    let expiry = match fields.get("expires") {
        None | Some(Value::Null) => Expiry::by_default(now),
        Some(Value::String(text)) => text.parse().map_err(invalid_request)?,
        Some(value) => return Err(invalid_request(InvalidSignedUrl::Time(value.to_string()))),
    };
    SignedUrl::new(paths, methods, queue.project().clone(), expiry, now).map_err(invalid_request)
}

/// Returns what a client needs to use the signed URL.
#[must_use]
pub fn document(url: &SignedUrl, signature: &str) -> Value {
    json!({
        "paths": url.paths(),
        "methods": url.methods(),
        "project": url.project().as_str(),
        "expires": url.expiry().to_string(),
        "signature": signature,
    })
}

/// Returns the strings of a list, or the default if the list is missing or empty.
fn list(fields: &Map<String, Value>, key: &str, default: &str) -> Result<Vec<String>, Error> {
    let value = fields.get(key).filter(|value| !value.is_null() && **value != json!([]));
    let texts = value.map_or_else(|| Some(vec![default.to_owned()]), json::texts);
    texts.ok_or_else(|| Error::Request(format!("\"{key}\" must be a list of strings")))
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes it by value")]
fn invalid_request(invalid: InvalidSignedUrl) -> Error {
    Error::Request(invalid.to_string())
}
