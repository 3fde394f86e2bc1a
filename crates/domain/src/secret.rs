//! Secrets that operators set. They are never shown: not by `Debug`, in errors or in logs. Their
//! memory is overwritten when they are dropped.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

/// Text that is never shown. An empty text, the default of secret options, means that no secret is
/// set.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns a secret with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned().into())
    }

    /// Returns the text for its use, or `None` if no secret is set.
    #[must_use]
    pub fn reveal(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|text| !text.is_empty())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Default for Secret {
    /// Returns no secret.
    fn default() -> Self {
        Self::new("")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(none)" } else { "Secret(hidden)" })
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The error of serde would show the value.
        String::deserialize(deserializer).map(Self::from).map_err(|_| D::Error::custom("a secret is text, in quotes"))
    }
}
