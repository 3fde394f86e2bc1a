//! Claim documents, and the parameters of claim requests.

use serde::Serialize;
use serde_json::Value;

use super::json;
use super::messages::{self, MessageDocument};
use super::view::View;
use crate::api::Error;
use crate::broker::claims::{Preference, TermDraft};
use crate::domain::{Claim, ClaimId, QueueId, Shard, Tenant};

/// The document of a claim.
#[derive(Debug, Serialize)]
pub struct ClaimDocument<'a> {
    age: u64,
    ttl: u32,
    messages: Vec<MessageDocument<'a>>,
    href: String,
}

impl<'a> ClaimDocument<'a> {
    /// Creates the document of a claim of this queue.
    #[must_use]
    pub fn new(queue: &'a QueueId, claim: &'a Claim, view: View) -> Self {
        Self {
            age: claim.age_s,
            ttl: claim.ttl_s,
            messages: messages::documents(queue, &claim.messages, view),
            href: href(queue, claim.id),
        }
    }
}

/// Returns the path of a claim.
#[must_use]
pub fn href(queue: &QueueId, id: ClaimId) -> String {
    format!("/v2/queues/{}/claims/{id}", queue.name())
}

/// Parses `shard:NUMBER` or `tenant:NAME`.
pub fn parse_preference(text: &str) -> Result<Preference, Error> {
    let parsed = match text.split_once(':') {
        Some(("shard", number)) => number.parse().ok().and_then(Shard::new).map(Preference::Shard),
        Some(("tenant", name)) => Tenant::new(name).ok().map(Preference::Tenant),
        _ => None,
    };
    parsed.ok_or_else(|| Error::Parameter {
        name: "prefer".to_owned(),
        expected: "\"shard:\" and a number up to 1023, or \"tenant:\" and a name of 1 to 128 characters",
    })
}

/// Parses `{"ttl": …, "grace": …}`. Both fields are optional, and other fields are ignored.
pub fn parse_term(bytes: &[u8]) -> Result<TermDraft, Error> {
    let Value::Object(fields) = json::parse(bytes)? else {
        return Err(Error::Body("Document type not supported.".to_owned()));
    };
    let integer = |field: &str| fields.get(field).map(|value| json::integer(field, value)).transpose();
    Ok(TermDraft { ttl_s: integer("ttl")?, grace_s: integer("grace")? })
}
