//! Why a store could not do what was asked.

use thiserror::Error;

/// A store's failure. What is merely not there is no failure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// The store cannot be reached, does not answer in time or takes no writes now. A write that it
    /// was asked for may or may not have happened.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// More requests wait for the store than it can serve in time. Nothing was sent to it.
    #[error("The service has more requests than it can serve in time. Please try again in a few seconds.")]
    Overloaded,
    /// The store's disk is full: this was not written, and of small writes and deletions only some are. Reading works.
    #[error("the disk of the store is full: {0}")]
    DiskFull(String),
    /// The store has no memory left for this. Reading, claiming and deleting work. Nothing was written.
    #[error("the memory of the store is full: {0}")]
    MemoryFull(String),
    /// The store holds or said something that this version cannot read: a defect.
    #[error("the store's answer makes no sense: {0}")]
    Corrupt(String),
}

impl Error {
    /// What the store said, or what is known about it.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Unavailable(reason) | Self::DiskFull(reason) | Self::MemoryFull(reason) | Self::Corrupt(reason) => {
                reason
            }
            Self::Overloaded => "it has more requests than it can serve in time",
        }
    }

    /// Whether the store may be able to do the same later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Overloaded | Self::DiskFull(_) | Self::MemoryFull(_) => true,
            Self::Corrupt(_) => false,
        }
    }
}
