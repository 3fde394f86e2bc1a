//! What a credential proves about the sender of a request.

use std::time::SystemTime;

use thiserror::Error;
use tokio::time::Instant;

use sukkal_domain::ProjectId;

/// The sender of a request, as a credential proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user, the token or the certificate, for the audit log.
    pub subject: String,
    /// The project on whose queues the sender works; `None` if each request names it.
    pub project: Option<ProjectId>,
    /// The roles of the sender.
    pub roles: Vec<String>,
    /// The time at which the credential expires; `None` if it does not expire.
    pub expires_at: Option<SystemTime>,
}

/// Returns the instant at which a credential with this expiry ends: now if it has ended, and `None`
/// if that is too far in the future.
#[must_use]
pub fn instant_of(expires_at: SystemTime) -> Option<Instant> {
    Instant::now().checked_add(expires_at.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Says in a `401` how a client can authenticate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenges {
    /// The URI of Keystone, if its tokens are accepted.
    pub keystone_uri: Option<String>,
    /// Whether `Authorization: Bearer` is accepted.
    pub bearer: bool,
}

/// Why the sender of a request is not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuthenticationError {
    /// The credential is missing or not valid. The text says what to change, and has no part of the
    /// credential.
    #[error("{0}")]
    Refused(String),
    /// The credential is valid, but it is for no project.
    #[error("the token is for no project; request one that is for a project")]
    NoProject,
    /// The service that verifies credentials cannot be reached. The text is for the log.
    #[error("{0}")]
    Unavailable(String),
    /// The issuer did not publish the key of the token when its keys were last fetched.
    #[error("the issuer had no such key when its keys were last fetched; they are fetched again in {0} seconds")]
    UnknownKey(u64),
}
