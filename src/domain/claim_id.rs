//! The id of a claim.

use std::fmt;

use uuid::Uuid;

/// Id of a claim: a random UUID. Ids are ordered by their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(Uuid);

impl ClaimId {
    /// Returns a new random id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Parses an id in its canonical form: lowercase, with hyphens. No claim has an id in another
    /// form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self).filter(|id| id.to_string() == text)
    }

    /// Returns the id with these bytes, as a store keeps it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the sixteen bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl From<ClaimId> for Uuid {
    fn from(id: ClaimId) -> Self {
        id.0
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
