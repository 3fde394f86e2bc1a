//! Why the broker does not do what a caller asks.

use thiserror::Error;

use crate::domain::QueueId;
use crate::domain::fairness::TENANT_CHARS_MAX;
use crate::domain::metadata::InvalidMetadata;
use crate::domain::patch::PatchConflict;
use crate::storage;

/// A refusal, or a failure of the store.
#[derive(Debug, Error)]
pub enum Error {
    /// The request asks for more, or less, than the limits allow.
    #[error("{0}")]
    Limit(String),
    /// A message's delay is no integer.
    #[error("The value of the \"delay\" field must be a int.")]
    DelayType,
    /// A message's tenant is none.
    #[error("The value of the \"tenant\" field must be a text of 1 to {TENANT_CHARS_MAX} characters.")]
    TenantType,
    /// An idempotency key was given to another request before.
    #[error("this Idempotency-Key came with another request before; each request needs a key of its own")]
    OtherContent,
    /// A reserved metadata key has a value that it does not take.
    #[error("{0}")]
    Metadata(#[from] InvalidMetadata),
    /// The metadata is not such that the patch fits.
    #[error("{0}")]
    Conflict(#[from] PatchConflict),
    /// The queue has to exist for this.
    #[error("Queue {} does not exist for project {}", .0.name(), .0.project())]
    NoQueue(QueueId),
    /// None of the messages is there.
    #[error("{0}")]
    NoMessage(String),
    /// There is no such live claim.
    #[error("{0}")]
    NoClaim(String),
    /// It takes a claim to delete the message, or another one.
    #[error("This message is claimed; it cannot be deleted without a valid claim ID.")]
    Claimed,
    /// The message is under no claim, but one was named to allow its deletion.
    #[error("A claim was specified, but the message is not currently claimed.")]
    NotClaimed,
    /// The claim that was named to allow a deletion is not live.
    #[error("The specified claim does not exist or has expired.")]
    UnknownClaim,
    /// This process has not the key that the queue or the message takes. The operator's fault.
    #[error("{0}")]
    Key(String),
    /// A message is not what was stored, so nobody can read it.
    #[error("{0}")]
    Damaged(String),
    /// The project has as many of these as it may have at the same time.
    #[error("A project may have at most {max} {kind} at the same time. Please try again later.")]
    Share {
        /// What there are too many of.
        kind: &'static str,
        /// How many there may be.
        max: u32,
    },
    /// The caller's roles do not allow it.
    #[error("You are not authorized to complete this action.")]
    Forbidden,
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] storage::Error),
}
