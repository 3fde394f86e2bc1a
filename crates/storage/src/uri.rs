//! The URI of a store: `embedded:PATH`, `memory:`, or the address of Redis.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use super::redis::{self, RedisUri};

const EMBEDDED: &str = "embedded:";
const MEMORY: &str = "memory:";

/// The URI of a store. It is displayed without its password.
#[derive(Clone, Debug)]
pub enum StoreUri {
    /// The embedded store, with its file in this folder.
    Embedded(PathBuf),
    /// The embedded store, in the memory of this process.
    Memory,
    /// A Redis server, cluster or Sentinel group.
    Redis(Box<RedisUri>),
}

/// Reasons for which a store URI is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidUri {
    /// The folder is missing, or its path is not as it was meant.
    #[error(
        "\"{EMBEDDED}\" must be followed by the path of a folder, such as {EMBEDDED}./data or {EMBEDDED}/var/lib/data, \
         which does not begin with ~, // or white space"
    )]
    NoFolder,
    /// `memory:` is followed by more text.
    #[error("nothing may follow {MEMORY}")]
    Memory,
    /// The scheme is unknown.
    #[error(
        "it must be {EMBEDDED}PATH, {MEMORY}, or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://"
    )]
    Other,
    /// The address of Redis is not valid.
    #[error(transparent)]
    Redis(redis::InvalidUri),
}

impl FromStr for StoreUri {
    type Err = InvalidUri;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(folder) = text.strip_prefix(EMBEDDED) {
            // A folder name with `://` is a mistake, and may contain a password. Other programs
            // take `//` for the start of a host, and replace `~` with a home.
            let is_mistake = folder.contains("://")
                || folder.starts_with("//") && !folder.starts_with("///")
                || folder.starts_with(|first: char| first == '~' || first.is_whitespace());
            let is_folder = !folder.is_empty() && !is_mistake;
            return if is_folder { Ok(Self::Embedded(folder.into())) } else { Err(InvalidUri::NoFolder) };
        }
        match text.strip_prefix(MEMORY) {
            Some("") => Ok(Self::Memory),
            Some(_) => Err(InvalidUri::Memory),
            None if text.starts_with("redis") => {
                text.parse().map(|uri| Self::Redis(Box::new(uri))).map_err(InvalidUri::Redis)
            }
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
    fn a_uri_is_displayed_as_it_was_written() {
        for text in ["embedded:./sukkal-data", "embedded:/var/lib/a b", "memory:", "redis://h:6379", "rediss://h"] {
            let uri: StoreUri = text.parse().unwrap();

            assert_eq!(uri.to_string(), text);
        }
    }

    #[test]
    fn an_invalid_uri_is_refused_with_an_error_of_one_line() {
        for text in [
            "",
            "embedded:",
            "embedded:redis://:secret@h",
            "embedded://data",
            "embedded:~/data",
            "embedded: ./data",
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
