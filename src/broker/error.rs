//! Errors of the broker.

use std::fmt;

use thiserror::Error;

use sukkal_domain::metadata::InvalidMetadata;
use sukkal_domain::queue_id::InvalidQueueId;
use sukkal_domain::sharding::TENANT_CHARS_MAX;
use sukkal_domain::subscription_draft::InvalidSubscription;
use sukkal_domain::token_draft::InvalidToken;
use sukkal_domain::{FlavorName, QueueId, Quota, RateLimitStatus};
pub use sukkal_storage::Error as StoreError;

/// The reason why an operation was refused or failed.
#[derive(Debug, Error)]
pub enum Error {
    /// A parameter is outside its limits.
    #[error("{0}")]
    Limit(String),
    /// A new queue cannot have the name.
    #[error("{0}")]
    QueueName(#[from] InvalidQueueId),
    /// The delay of a message is not an integer.
    #[error("The value of the \"delay\" field must be a int.")]
    DelayType,
    /// The tenant of a message is not valid.
    #[error("The value of the \"tenant\" field must be a text of 1 to {TENANT_CHARS_MAX} characters.")]
    TenantType,
    /// The idempotency key was used by a request with other content.
    #[error("this Idempotency-Key was used with other messages; use a new key for each post")]
    OtherContent,
    /// The value of a reserved metadata key is not valid.
    #[error("{0}")]
    Metadata(#[from] InvalidMetadata),
    /// What the client has sent for a subscription is not valid.
    #[error("{0}")]
    Subscription(#[from] InvalidSubscription),
    /// A request to change a subscription names nothing that can be changed.
    #[error("the body has nothing to change; it accepts \"subscriber\", \"ttl\", \"options\" and \"secret\"")]
    NoChange,
    /// The change cannot be applied to the queue's metadata, or a task of the queue is running.
    #[error("{0}")]
    Conflict(String),
    /// The queue or the topic does not exist, and the operation requires it.
    #[error("{} {} does not exist for project {}", .0.name().kind().title(), .0.name(), .0.project())]
    NoQueue(QueueId),
    /// What the request names, other than a queue, does not exist or has expired.
    #[error("{0}")]
    NotFound(String),
    /// A new token is not valid.
    #[error("{0}")]
    Token(#[from] InvalidToken),
    /// What the client has sent for a pool is not valid, or the pool cannot be reached.
    #[error("{0}")]
    Pool(String),
    /// The pool is the last one of this flavor.
    #[error("This pool is used by flavors {0}; It cannot be deleted.")]
    PoolInUse(FlavorName),
    /// A new flavor has no pools, or one that does not exist.
    #[error("{0}")]
    FlavorNotCreated(String),
    /// A flavor would have a pool that does not exist.
    #[error("{0}")]
    FlavorNotUpdated(String),
    /// The message is claimed, and the request to delete it does not name its claim.
    #[error("This message is claimed; it cannot be deleted without a valid claim ID.")]
    Claimed,
    /// The request to delete the message names a claim, but the message is not claimed.
    #[error("A claim was specified, but the message is not currently claimed.")]
    NotClaimed,
    /// The request to delete a message names a claim that does not exist or has expired.
    #[error("The specified claim does not exist or has expired.")]
    UnknownClaim,
    /// This process does not have the encryption key of the queue or the message, which is the
    /// operator's fault.
    #[error("{0}")]
    Key(String),
    /// An encrypted message was changed in the store, so it cannot be read.
    #[error("{0}")]
    Damaged(String),
    /// The project has as many things of this kind as it may have at the same time.
    #[error("A project may have at most {max} {kind} at the same time. Please try again later.")]
    TooManyAtOnce {
        /// The name of the kind, in the plural.
        kind: &'static str,
        /// Maximum number of them.
        max: u64,
    },
    /// The request would exceed a quota of the project.
    #[error("the request would exceed the quota {}, which is {max}; {advice}, or ask the operator for a higher quota", .quota.name())]
    QuotaExceeded {
        /// The quota.
        quota: Quota,
        /// The limit.
        max: u64,
        /// What the client can do.
        advice: &'static str,
    },
    /// The project exceeds a rate.
    #[error("the project exceeds its quota {}, which is {max}; wait for the time in Retry-After", .quota.name())]
    RateExceeded {
        /// The quota.
        quota: Quota,
        /// The limit.
        max: u64,
        /// Time in seconds after which the request is within the rate.
        retry_after_s: u64,
        /// How the refusal is reported.
        status: RateLimitStatus,
    },
    /// The caller may not perform the action.
    #[error("You are not authorized to complete this action.")]
    Forbidden,
    /// A rule of the policy does not allow the action to the caller.
    #[error("You are not authorized to complete this action. {0}")]
    Denied(Requirement),
    /// The caller may not do what it wants to share.
    #[error(
        "You cannot share {method} on {path}, because you are not authorized to do all that it allows. {requirement}"
    )]
    ForbiddenShare {
        /// The HTTP method.
        method: String,
        /// The path.
        path: String,
        /// What the caller does not meet.
        requirement: Requirement,
    },
    /// The caller may not post to a queue that it names for messages of the service.
    #[error("You cannot name a queue in {key}, because you are not authorized to post messages to it. {requirement}")]
    ForbiddenTarget {
        /// The key or the option that names the queue.
        key: &'static str,
        /// What the caller does not meet.
        requirement: Requirement,
    },
    /// The caller may not create a token with this project and these roles.
    #[error(
        "You can create tokens for your own project only, with roles that you have. The role manager includes reader, \
         producer and worker, and the role admin all projects and roles."
    )]
    ForbiddenGrant,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A rule of the policy that a caller does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The name of the rule.
    pub rule: &'static str,
    /// The expression of the rule.
    pub expression: String,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The rule {} requires {}.", self.rule, self.expression)
    }
}

impl Error {
    /// Returns the error of a second subscription for a subscriber.
    #[must_use]
    pub fn subscriber_taken() -> Self {
        let text = "Such subscription already exists. Subscriptions are unique by project + queue + subscriber URI.";
        Self::Conflict(text.to_owned())
    }
}
