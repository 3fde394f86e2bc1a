//! Who posts: the id that a client gives itself, so that it can be spared its own messages.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

/// A client's id in its canonical form: a dashed lower-case UUID, or free text where the rule allows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(Arc<str>);

/// A client as messages know it: XXH3-64 of its id, the same for every kind of id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Poster([u8; 8]);

impl Poster {
    /// The poster that a store has kept.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The eight bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

/// Which texts are client ids (`client_id_uuid_safe` in the configuration).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientIdRule {
    /// UUIDs only, in any of their usual spellings.
    Uuid,
    /// Any text whose length in characters is in the range.
    Text(RangeInclusive<usize>),
}

impl ClientIdRule {
    /// The client id that the text spells, if the rule allows it.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<ClientId> {
        match self {
            Self::Uuid => parse_uuid(text).map(|uuid| ClientId(uuid.to_string().into())),
            Self::Text(length) => length.contains(&text.chars().count()).then(|| ClientId(text.into())),
        }
    }
}

impl fmt::Display for ClientIdRule {
    /// Writes what the rule accepts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid => f.write_str("a UUID such as 3381af92-2b9e-11e3-b191-71861300734c"),
            Self::Text(length) => write!(f, "a text of {} to {} characters", length.start(), length.end()),
        }
    }
}

impl ClientId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Who it is to its messages.
    #[must_use]
    pub fn poster(&self) -> Poster {
        Poster(xxh3_64(self.0.as_bytes()).to_be_bytes())
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Takes what Python's `uuid.UUID()` takes (`urn:`, `uuid:`, braces and dashes are dropped wherever
/// they stand), because clients of this API were written against it.
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
    fn spellings_of_a_uuid_are_one_client() {
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
    fn what_is_no_uuid_is_no_client() {
        for text in ["", "abc", "3381af92-2b9e-11e3-b191-71861300734", "g381af922b9e11e3b19171861300734c"] {
            assert_eq!(ClientIdRule::Uuid.parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn free_text_is_measured_in_characters() {
        let rule = ClientIdRule::Text(10..=36);

        assert!(rule.parse("ééééééééé").is_none());
        assert!(rule.parse("éééééééééé").is_some());
        assert!(rule.parse(&"x".repeat(37)).is_none());
    }
}
