//! The version of the list of pools that a process uses.

use std::sync::atomic::AtomicU64;

use tokio::sync::Mutex;

use crate::{Error, PoolsVersion};

/// The list of pools that a process uses. One task at a time reads it.
#[derive(Default)]
pub(super) struct KnownPools {
    /// Number of refreshes that have begun.
    pub(super) refreshes: AtomicU64,
    pub(super) list: Mutex<KnownList>,
}

pub(super) struct KnownList {
    /// The version of the list that the process uses.
    pub(super) version: Option<PoolsVersion>,
    /// The number of the last refresh that has ended.
    pub(super) refresh: u64,
    /// The outcome of that refresh.
    pub(super) outcome: Result<(), Error>,
}

impl Default for KnownList {
    fn default() -> Self {
        Self { version: None, refresh: 0, outcome: Ok(()) }
    }
}
