//! Callers, the roles of clients, and the requests that a pre-signed URL allows.

mod identity;
pub mod signed_url;

pub use self::identity::{AuthenticationError, Identity};

use crate::domain::{ClientId, ProjectId};

/// The role of operators.
const ADMIN: &str = "admin";

/// The party on whose behalf an operation runs. Every operation of the broker takes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A client whose request named its project and its client id.
    Client(Client),
    /// A request without a project and a client id, such as a readiness probe.
    Anonymous,
    /// The service itself: background work, for example returning messages that were not delivered.
    System,
}

/// A client, as the headers of its request describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The project on whose queues the client works.
    pub project: ProjectId,
    /// The id that the client gives itself.
    pub id: ClientId,
    /// The client's roles, as set by the identity service in front of this one.
    pub roles: Vec<String>,
}

impl Caller {
    /// Returns the client, unless the caller is anonymous or the service itself.
    #[must_use]
    pub fn as_client(&self) -> Option<&Client> {
        match self {
            Self::Client(client) => Some(client),
            Self::Anonymous | Self::System => None,
        }
    }
}

impl Client {
    /// Returns whether the client has the role of operators (Zaqar's `role:admin`).
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.roles.iter().any(|role| role.eq_ignore_ascii_case(ADMIN))
    }
}
