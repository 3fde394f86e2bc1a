//! The body of a purge: which kinds of resources to delete.

use serde_json::Value;

use super::Error;
use super::json;
use sukkal_domain::{Warning, WithWarnings};

/// The field with the kinds of resources that a purge deletes.
pub const RESOURCE_TYPES: &str = "resource_types";

/// A kind of resources that a purge can delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All messages, including claimed ones.
    Messages,
    /// All subscriptions.
    Subscriptions,
}

impl Kind {
    /// Returns the name of the kind in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Subscriptions => "subscriptions",
        }
    }
}

/// The kinds that a purge without a body deletes.
pub const ALL: [Kind; 2] = [Kind::Messages, Kind::Subscriptions];

/// Parses `{"resource_types": ["messages", "subscriptions"]}`.
pub fn parse(bytes: &[u8]) -> Result<WithWarnings<Vec<Kind>>, Error> {
    let fields = json::parse_object(bytes)?;
    let Some(Value::Array(kinds)) = fields.get(RESOURCE_TYPES) else {
        return Err(Error::Request(
            "\"resource_types\" must be a list of \"messages\" and \"subscriptions\".".to_owned(),
        ));
    };
    let value = kinds.iter().map(parse_kind).collect::<Result<_, _>>()?;
    let mut warnings = json::unknown_fields(&fields, &[RESOURCE_TYPES], &[]);
    warnings.extend(kinds.is_empty().then_some(Warning::NothingToPurge));
    Ok(WithWarnings { value, warnings })
}

fn parse_kind(kind: &Value) -> Result<Kind, Error> {
    let known = ALL.into_iter().find(|known| kind == known.name());
    known.ok_or_else(|| {
        Error::Request(format!("resource_types contains {kind}; it accepts \"messages\" and \"subscriptions\""))
    })
}
