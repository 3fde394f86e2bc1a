//! The body of a purge: which kinds of things a queue is purged of.

use serde_json::Value;

use super::json;
use crate::api::Error;

/// What a queue can be purged of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All messages, claimed ones too.
    Messages,
    /// All subscriptions. There are none yet.
    Subscriptions,
}

/// What a purge without a body is of.
pub const ALL: [Kind; 2] = [Kind::Messages, Kind::Subscriptions];

/// Reads `{"resource_types": ["messages", "subscriptions"]}`.
pub fn parse(bytes: &[u8]) -> Result<Vec<Kind>, Error> {
    let Value::Object(fields) = json::parse(bytes)? else {
        return Err(Error::Body("Document type not supported.".to_owned()));
    };
    let Some(Value::Array(kinds)) = fields.get("resource_types") else {
        return Err(Error::Request(
            "\"resource_types\" must be a list of \"messages\" and \"subscriptions\".".to_owned(),
        ));
    };
    kinds.iter().map(parse_kind).collect()
}

fn parse_kind(kind: &Value) -> Result<Kind, Error> {
    match kind.as_str() {
        Some("messages") => Ok(Kind::Messages),
        Some("subscriptions") => Ok(Kind::Subscriptions),
        _ => Err(Error::Request(format!("{kind} is not a resource type; use \"messages\" or \"subscriptions\""))),
    }
}
