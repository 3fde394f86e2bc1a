//! The errors of a store.

use std::fmt::Display;

use thiserror::Error;

use sukkal_domain::{Durability, PoolName};

/// A failure of a store. That something does not exist is not a failure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// The store cannot be reached, does not reply in time or does not accept writes at present. A
    /// requested write may or may not have been applied.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store cannot be reached, and nothing was sent to it. Only commands that take messages
    /// have this error instead of [`Self::Unavailable`].
    #[error("the store is unavailable: {0}")]
    NotSent(String),
    /// The messages of a post were stored, or may have been, but have not reached the durability
    /// that the post requires.
    #[error(
        "The messages may exist, but are not known to have reached Durability: {level}. Please try again. A retry \
         with the same Idempotency-Key is safe; without a key, it may post the messages twice."
    )]
    NotDurable {
        /// The required durability.
        level: Durability,
        /// Why it was not reached.
        reason: String,
    },
    /// The server of the queue has too few replicas for the durability that a post requires. The
    /// post was not sent to the store.
    #[error(
        "The server of the queue has too few replicas for Durability: {level}; their number is {connected} at present. \
         This request has stored nothing. Please try again in a few seconds."
    )]
    TooFewReplicas {
        /// The required durability.
        level: Durability,
        /// Number of replicas that are connected to the server.
        connected: u64,
    },
    /// The store cannot reach a durability as it is configured. Nothing was stored. The text says
    /// what is possible.
    #[error("{0}")]
    Unsupported(String),
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
    /// The queue is not in this store. Only stores that require the queue to exist have this error,
    /// and nothing was changed.
    #[error("the queue is not in this store")]
    NoQueue,
    /// A list needs metadata of queues in this pool, and it is down.
    #[error(
        "The pool {0} is down, so the metadata of its queues cannot be read. Please try again in a few seconds. \
         A list of the names only does not need the pool."
    )]
    PoolDown(PoolName),
    /// The move of a queue has not finished, because a pool is down.
    #[error("The pool {0} is down, so the move has not finished. Please try again when the pool is up.")]
    PoolOfMoveDown(PoolName),
    /// There is no pool for a new queue. The text says for which queues.
    #[error("There is no pool for {0}. The operator of the service must create one.")]
    NoPool(String),
    /// The store contains or has returned data that this release cannot read. This is a defect.
    #[error("the store has returned invalid data: {0}")]
    Corrupt(String),
}

impl Error {
    /// Names the record that cannot be read, if that is the failure.
    #[must_use]
    pub(super) fn of(self, record: impl Display) -> Self {
        match self {
            Self::Corrupt(reason) => Self::Corrupt(format!("{record}: {reason}")),
            other => other,
        }
    }

    /// Returns the reason for the failure without the kind of failure.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Unavailable(reason)
            | Self::NotSent(reason)
            | Self::NotDurable { reason, .. }
            | Self::Unsupported(reason)
            | Self::DiskFull(reason)
            | Self::MemoryFull(reason)
            | Self::Corrupt(reason) => reason,
            Self::NoPool(_) => "there is no pool for the queue",
            Self::TooFewReplicas { .. } => "its server has too few replicas",
            Self::Overloaded => "it has more requests than it can serve in time",
            Self::NoQueue => "it does not have the queue",
            Self::PoolDown(_) | Self::PoolOfMoveDown(_) => "one of its pools is down",
        }
    }

    /// Returns whether the operation may have been carried out, or may still be. What the store has
    /// returned may not be readable.
    #[must_use]
    pub fn leaves_outcome_unknown(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::NotDurable { .. } | Self::Corrupt(_))
    }

    /// Returns the error without whether anything was sent.
    #[must_use]
    pub(super) fn sent_or_not(self) -> Self {
        match self {
            Self::NotSent(reason) => Self::Unavailable(reason),
            error => error,
        }
    }

    /// Returns whether the same operation may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_)
            | Self::NotSent(_)
            | Self::NotDurable { .. }
            | Self::TooFewReplicas { .. }
            | Self::Overloaded
            | Self::DiskFull(_)
            | Self::MemoryFull(_)
            | Self::NoQueue
            | Self::PoolDown(_)
            | Self::PoolOfMoveDown(_)
            | Self::NoPool(_) => true,
            Self::Unsupported(_) | Self::Corrupt(_) => false,
        }
    }
}

/// Returns what was read, or `None` for a record that cannot be read, so that it does not keep
/// others from being used. The log has the error, which names the record.
pub fn unless_unreadable<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(Error::Corrupt(reason)) => {
            tracing::warn!(reason, "leaving out a record that cannot be read; `sukkal check` lists all of them");
            Ok(None)
        }
        read => read.map(Some),
    }
}
