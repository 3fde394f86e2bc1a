//! A secret that an operator sets. It is never shown: not by `Debug`, not in an error, not in a log.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Text that nobody is shown. Options that are secrets are empty by default, which is none.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The secret.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text, unless there is none, for what works with it.
    #[must_use]
    pub fn reveal(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|text| !text.is_empty())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(none)" } else { "Secret(hidden)" })
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The error in serde's words would show what was found instead.
        String::deserialize(deserializer).map(Self).map_err(|_| D::Error::custom("a secret is text, in quotes"))
    }
}
