//! Client ids. A client chooses its own id, by which listings can leave out its own messages.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::shared_text::shared_text;

/// Id of a client in canonical form: a lowercase UUID with hyphens, or any text if the rule allows
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(Arc<str>);

/// The client that posted a message, as the message records it: the XXH3-64 hash of the client id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Poster([u8; 8]);

impl Poster {
    /// Returns the poster with these bytes, as a store keeps it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// Returns the eight bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

/// Rule for valid client ids (`client_id_uuid_safe` in the configuration).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientIdRule {
    /// UUIDs only, in any of their usual forms.
    Uuid,
    /// Any text with a length in this range, in characters.
    Text(RangeInclusive<usize>),
}

impl ClientIdRule {
    /// Parses a client id, and returns `None` if the rule does not allow it.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<ClientId> {
        match self {
            Self::Uuid => parse_uuid(text).map(ClientId::of_uuid),
            Self::Text(length) => length.contains(&text.chars().count()).then(|| ClientId(text.into())),
        }
    }
}

impl fmt::Display for ClientIdRule {
    /// Writes a description of the accepted ids.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid => f.write_str("a UUID such as 3381af92-2b9e-11e3-b191-71861300734c"),
            Self::Text(length) => write!(f, "a text of {} to {} characters", length.start(), length.end()),
        }
    }
}

impl ClientId {
    /// Returns an id that no other request has.
    #[must_use]
    pub fn random() -> Self {
        Self::of_uuid(Uuid::new_v4())
    }

    fn of_uuid(uuid: Uuid) -> Self {
        Self((&*uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())).into())
    }

    /// Returns the id with this text, as a store keeps it.
    #[must_use]
    pub fn from_store(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the hash of the id, as messages record it.
    #[must_use]
    pub fn poster(&self) -> Poster {
        Poster(xxh3_64(self.0.as_bytes()).to_be_bytes())
    }
}

shared_text!(ClientId);

/// Parses the same forms as Python's `uuid.UUID()`, because clients of this API were written
/// against it. `urn:`, `uuid:` and hyphens are dropped everywhere, and braces at both ends.
fn parse_uuid(text: &str) -> Option<Uuid> {
    const USUAL_LENGTH: usize = 36;
    if text.len() == USUAL_LENGTH
        && let Ok(uuid) = Uuid::try_parse(text)
    {
        return Some(uuid);
    }
    let digits = text.replace("urn:", "").replace("uuid:", "");
    let digits = digits.trim_matches(['{', '}']).replace('-', "");
    (digits.len() == 32).then(|| Uuid::try_parse(&digits).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANONICAL: &str = "3381af92-2b9e-11e3-b191-71861300734c";

    #[test]
    fn different_forms_of_a_uuid_are_one_client() {
        for text in [
            CANONICAL,
            "3381af922b9e11e3b19171861300734c",
            "3381AF92-2B9E-11E3-B191-71861300734C",
            "{3381af92-2b9e-11e3-b191-71861300734c}",
            "urn:uuid:3381af92-2b9e-11e3-b191-71861300734c",
        ] {
            let client = ClientIdRule::Uuid.parse(text).unwrap();

            assert_eq!(client.as_str(), CANONICAL);
        }
    }

    #[test]
    fn an_invalid_uuid_is_refused() {
        for text in ["", "abc", "3381af92-2b9e-11e3-b191-71861300734", "g381af922b9e11e3b19171861300734c"] {
            assert_eq!(ClientIdRule::Uuid.parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_length_of_a_text_id_is_counted_in_characters() {
        let rule = ClientIdRule::Text(10..=36);

        assert!(rule.parse("ééééééééé").is_none());
        assert!(rule.parse("éééééééééé").is_some());
        assert!(rule.parse(&"x".repeat(37)).is_none());
    }
}
