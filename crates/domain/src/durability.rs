//! `Durability`: where messages must be stored before their post is answered.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Maximum number of replicas that a post can wait for.
pub const REPLICAS_MAX: u8 = 9;
/// The accepted values, for error texts.
pub const DURABILITY_ACCEPTED: &str =
    "\"fsync\", \"replicas=N\" with N from 1 to 9, or both separated by a comma, such as \"fsync, replicas=1\"";

const FSYNC: &str = "fsync";
const REPLICAS: &str = "replicas=";

/// A level of durability. It requires something in addition to a post without one: a sync to disk,
/// copies at replicas, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Durability {
    fsync: bool,
    /// 0 if no replica is required.
    replicas: u8,
}

/// The text is not a level of durability.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("it must be {DURABILITY_ACCEPTED}")]
pub struct InvalidDurability;

impl Durability {
    /// The server that has the queue has synced the messages to its disk.
    pub const FSYNC: Self = Self { fsync: true, replicas: 0 };

    /// Returns whether the server that has the queue must have synced the messages to its disk.
    #[must_use]
    pub fn requires_fsync(self) -> bool {
        self.fsync
    }

    /// Returns how many replicas must have received the messages.
    #[must_use]
    pub fn replicas(self) -> u8 {
        self.replicas
    }

    /// Returns the lowest level that includes both levels.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { fsync: self.fsync || other.fsync, replicas: self.replicas.max(other.replicas) }
    }
}

impl FromStr for Durability {
    type Err = InvalidDurability;

    fn from_str(text: &str) -> Result<Self, InvalidDurability> {
        let part = |part: &str| match part.trim() {
            FSYNC => Some(Self::FSYNC),
            other => match other.strip_prefix(REPLICAS)?.as_bytes() {
                [digit @ b'1'..=b'9'] => Some(Self { fsync: false, replicas: digit - b'0' }),
                _ => None,
            },
        };
        let parts: Option<Vec<Self>> = text.split(',').map(part).collect();
        parts.and_then(|parts| parts.into_iter().reduce(Self::and)).ok_or(InvalidDurability)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fsync, self.replicas) {
            (true, 0) => f.write_str(FSYNC),
            (false, replicas) => write!(f, "{REPLICAS}{replicas}"),
            (true, replicas) => write!(f, "{FSYNC}, {REPLICAS}{replicas}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_fsync_or_1_to_9_replicas_or_both() {
        for (text, normal) in [
            ("fsync", "fsync"),
            ("replicas=1", "replicas=1"),
            (" replicas=9 ,fsync", "fsync, replicas=9"),
            ("replicas=1, fsync, replicas=2", "fsync, replicas=2"),
        ] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), normal, "{text:?}");
        }
        for text in
            ["", ",", "fsync,", "FSYNC", "replicas", "replicas=", "replicas=0", "replicas=10", "replicas=+1", "1"]
        {
            assert_eq!(text.parse::<Durability>(), Err(InvalidDurability), "{text:?}");
        }
        assert!(DURABILITY_ACCEPTED.contains(&format!("from 1 to {REPLICAS_MAX}")));
    }
}
