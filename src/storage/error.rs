//! The errors of a store.

use thiserror::Error;

/// A failure of a store. That something does not exist is not a failure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// The store cannot be reached, does not reply in time or does not accept writes at present. A
    /// requested write may or may not have been applied.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// More requests wait for the store than it can serve in time. Nothing was sent to the store.
    #[error("The service has more requests than it can serve in time. Please try again in a few seconds.")]
    Overloaded,
    /// The store's disk is full. This write was not applied; small writes and deletions may still
    /// succeed. Reads work.
    #[error("the disk of the store is full: {0}")]
    DiskFull(String),
    /// The store has no memory left for this write, which was not applied. Reading, claiming and
    /// deleting work.
    #[error("the memory of the store is full: {0}")]
    MemoryFull(String),
    /// The queue is not in this store. Only stores that require the queue to exist have this error, and
    /// nothing was changed: see [`super::catalogue`].
    #[error("the queue is not in this store")]
    NoQueue,
    /// The store contains or has returned data that this release cannot read. This is a defect.
    #[error("the store has returned invalid data: {0}")]
    Corrupt(String),
}

impl Error {
    /// Returns the reason for the failure without the kind of failure.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Unavailable(reason) | Self::DiskFull(reason) | Self::MemoryFull(reason) | Self::Corrupt(reason) => {
                reason
            }
            Self::Overloaded => "it has more requests than it can serve in time",
            Self::NoQueue => "it does not have the queue",
        }
    }

    /// Returns whether the same operation may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Overloaded | Self::DiskFull(_) | Self::MemoryFull(_) | Self::NoQueue => true,
            Self::Corrupt(_) => false,
        }
    }
}
