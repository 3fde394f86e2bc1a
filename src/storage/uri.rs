//! Where messages are kept, as a URI: `embedded:PATH`, `memory:`, or the address of a Redis.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use super::redis::{self, RedisUri};

const EMBEDDED: &str = "embedded:";
const MEMORY: &str = "memory:";

/// The address of a store. Shown without a password.
#[derive(Clone, Debug)]
pub enum StoreUri {
    /// A file in that folder, in this process.
    Embedded(PathBuf),
    /// This process' memory.
    Memory,
    /// A Redis server, cluster or Sentinel group.
    Redis(RedisUri),
}

/// Why a text is no address of a store.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidUri {
    /// The folder is missing.
    #[error("\"{EMBEDDED}\" names no folder: write {EMBEDDED}PATH")]
    NoFolder,
    /// Nothing but the scheme makes sense.
    #[error("nothing may follow {MEMORY}")]
    Memory,
    /// It is none of the above, and no address of a Redis.
    #[error(
        "it must be {EMBEDDED}PATH, {MEMORY}, or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://"
    )]
    Other,
    /// It is no address of a Redis.
    #[error(transparent)]
    Redis(redis::InvalidUri),
}

impl FromStr for StoreUri {
    type Err = InvalidUri;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(folder) = text.strip_prefix(EMBEDDED) {
            // Such a folder would be a mistake, and its name may hold a password.
            let is_folder = !folder.is_empty() && !folder.contains("://");
            return if is_folder { Ok(Self::Embedded(folder.into())) } else { Err(InvalidUri::NoFolder) };
        }
        match text.strip_prefix(MEMORY) {
            Some("") => Ok(Self::Memory),
            Some(_) => Err(InvalidUri::Memory),
            None if text.starts_with("redis") => text.parse().map(Self::Redis).map_err(InvalidUri::Redis),
            None => Err(InvalidUri::Other),
        }
    }
}

impl fmt::Display for StoreUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(folder) => write!(f, "{EMBEDDED}{}", folder.display()),
            Self::Memory => f.write_str(MEMORY),
            Self::Redis(uri) => uri.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_store_has_its_scheme() {
        for text in ["embedded:./sukkal-data", "embedded:/var/lib/a b", "memory:", "redis://h:6379", "rediss://h"] {
            let uri: StoreUri = text.parse().unwrap();

            assert_eq!(uri.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_store_is_refused_in_one_line() {
        for text in [
            "",
            "embedded:",
            "embedded:redis://:secret@h",
            "memory:x",
            "memory",
            "embedded",
            "./sukkal-data",
            "http://h",
            "redis://",
        ] {
            let error = text.parse::<StoreUri>().unwrap_err().to_string();

            assert_eq!(error.lines().count(), 1, "{text}: {error}");
        }
    }
}
