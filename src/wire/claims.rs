//! Claim documents, and the parameters of claim requests.

use serde::Serialize;
use uuid::Uuid;

use super::Error;
use super::json;
use super::links::Link;
use super::messages::{self, MessageDocument};
use super::paths;
use super::view::View;
use crate::broker::claims::{Preference, TermDraft};
use sukkal_domain::{Claim, ClaimId, ClaimSummary, QueueId, Shard, Tenant, WithWarnings};

/// The fields of a body that creates or renews a claim.
pub const TERM_FIELDS: [&str; 2] = ["ttl", "grace"];
/// What clients may put into the body of a claim, as in other services, and what it is here.
const ELSEWHERE: [(&str, &str); 5] = [
    ("limit", "a query parameter"),
    ("wait", "a query parameter"),
    ("VisibilityTimeout", "\"ttl\" in this API"),
    ("MaxNumberOfMessages", "the query parameter \"limit\""),
    ("WaitTimeSeconds", "the query parameter \"wait\""),
];

/// The document of a claim. Clients fail on unknown keys, so it has an id and a fence only on
/// request.
#[derive(Debug, Serialize)]
pub struct ClaimDocument<'a> {
    age: u64,
    ttl: u32,
    messages: Vec<MessageDocument<'a>>,
    href: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
}

/// The document of a new claim, which has an id and a fence only on request too.
#[derive(Debug, Serialize)]
pub struct NewClaimDocument<'a> {
    messages: Vec<MessageDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
}

/// A claim in a list of claims.
#[derive(Debug, Serialize)]
pub struct ListedClaimDocument<'a> {
    id: Uuid,
    href: String,
    client_id: &'a str,
    age: u64,
    ttl: u32,
    messages: u64,
    fence: u64,
}

/// A page of a list of claims.
#[derive(Debug, Serialize)]
pub struct ClaimListDocument<'a> {
    /// The claims.
    pub claims: Vec<ListedClaimDocument<'a>>,
    /// The links of the page.
    pub links: Vec<Link>,
}

impl<'a> ClaimDocument<'a> {
    /// Creates the document of a claim of this queue.
    #[must_use]
    pub fn new(queue: &'a QueueId, claim: &'a Claim, view: View, includes_fence: bool) -> Self {
        Self {
            age: claim.age_s,
            ttl: claim.ttl_s,
            messages: messages::documents(queue, &claim.messages, view),
            href: href(queue, claim.id),
            id: view.deliveries.then_some(claim.id.into()),
            fence: includes_fence.then_some(claim.fence.0),
        }
    }
}

impl<'a> NewClaimDocument<'a> {
    /// Creates the document of a new claim of this queue.
    #[must_use]
    pub fn new(queue: &'a QueueId, claim: &'a Claim, view: View, includes_fence: bool) -> Self {
        let messages = messages::documents(queue, &claim.messages, view);
        let id = view.deliveries.then_some(claim.id.into());
        Self { messages, id, fence: includes_fence.then_some(claim.fence.0) }
    }
}

impl<'a> ListedClaimDocument<'a> {
    /// Creates the document of a claim of this queue.
    #[must_use]
    pub fn new(queue: &QueueId, claim: &'a ClaimSummary) -> Self {
        let ClaimSummary { id, client, ttl_s, age_s, fence, message_count } = claim;
        Self {
            id: (*id).into(),
            href: href(queue, *id),
            client_id: client.as_str(),
            age: *age_s,
            ttl: *ttl_s,
            messages: *message_count,
            fence: fence.0,
        }
    }
}

/// Returns the path of a queue's claims.
#[must_use]
pub fn path(queue: &QueueId) -> String {
    paths::below(queue.name(), "claims")
}

/// Returns the path of a claim.
#[must_use]
pub fn href(queue: &QueueId, id: ClaimId) -> String {
    paths::below(queue.name(), &format!("claims/{id}"))
}

/// Parses the marker of a list of claims.
pub fn parse_marker(text: &str) -> Result<ClaimId, Error> {
    let expected = "the id of a claim";
    ClaimId::parse(text).ok_or_else(|| Error::Parameter { name: "marker".to_owned(), expected })
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

/// Parses `{"ttl": …, "grace": …}`. Both fields are optional, and others have no effect but a
/// warning.
pub fn parse_term(bytes: &[u8]) -> Result<WithWarnings<TermDraft>, Error> {
    let fields = json::parse_object(bytes)?;
    let integer = |field: &str| fields.get(field).map(|value| json::integer(field, value)).transpose();
    let value = TermDraft { ttl_s: integer("ttl")?, grace_s: integer("grace")? };
    Ok(WithWarnings { value, warnings: json::unknown_fields(&fields, &TERM_FIELDS, &ELSEWHERE) })
}
