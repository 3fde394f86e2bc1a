//! Pools, which are stores that keep queues, and flavors, which are named sets of pools.

use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use super::queue_id::{QUEUE_NAME_CHARS_MAX, is_plain_name, is_removed_from_paths};
use super::shared_text::shared_text;
use super::{PoolUri, ProjectId};

/// Maximum size of the options of a pool, in bytes of JSON. Processes read the list of all pools as
/// a whole.
pub const POOL_OPTIONS_BYTES_MAX: usize = 1_024;

/// Name of a pool: it follows the rule for queue names, and clients can use it in a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolName(Arc<str>);

/// Name of a flavor: it follows the rule for queue names, and clients can use it in a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlavorName(Arc<str>);

/// The reason why a name is refused.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a {kind} name must have 1 to {QUEUE_NAME_CHARS_MAX} characters of A-Z a-z 0-9 _ - . and must not be . or ..")]
pub struct InvalidName {
    kind: &'static str,
}

/// A store that keeps queues.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The name of the pool.
    pub name: PoolName,
    /// The address of the pool.
    pub uri: PoolUri,
    /// How often the pool is chosen for a new queue, relative to the others. 0 is never.
    pub weight: u32,
    /// The flavor that the pool belongs to.
    pub flavor: Option<FlavorName>,
    /// Free options of the operator, without an effect: at most [`POOL_OPTIONS_BYTES_MAX`] as JSON.
    pub options: Map<String, Value>,
    /// Whether the pool was deleted. It keeps the queues that it has, and gets no new ones.
    pub is_retired: bool,
}

/// A set of pools that queues of a project can name. The pools name the flavor that they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// The project that shows the flavor.
    pub project: ProjectId,
    /// The name of the flavor.
    pub name: FlavorName,
}

impl FromStr for PoolName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_name(text) { Ok(Self(text.into())) } else { Err(InvalidName { kind: "pool" }) }
    }
}

impl FromStr for FlavorName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_name(text) { Ok(Self(text.into())) } else { Err(InvalidName { kind: "flavor" }) }
    }
}

fn is_name(text: &str) -> bool {
    is_plain_name(text) && !is_removed_from_paths(text)
}

shared_text!(PoolName, FlavorName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_clients_remove_from_a_path_is_refused() {
        for name in [".", ".."] {
            assert!(name.parse::<PoolName>().is_err() && name.parse::<FlavorName>().is_err());
        }
        assert!("...".parse::<PoolName>().is_ok() && ".a".parse::<FlavorName>().is_ok());
    }
}
