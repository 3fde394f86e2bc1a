//! Pools: stores for the messages of queues, beside the management store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// Maximum length of the name of a pool, in characters.
pub const POOL_NAME_CHARS_MAX: usize = 64;

/// Name of a pool: 1 to 64 characters of `A-Z a-z 0-9 _ - .`
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolName(Arc<str>);

/// The reason for which the name of a pool is refused.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the name of a pool must have 1 to {POOL_NAME_CHARS_MAX} characters of A-Z a-z 0-9 _ - .")]
pub struct InvalidPoolName;

impl FromStr for PoolName {
    type Err = InvalidPoolName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if (1..=POOL_NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidPoolName)
        }
    }
}

impl PoolName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
