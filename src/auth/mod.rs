//! Callers, what their policy allows them, and the requests that a pre-signed URL allows.

mod client_certificate;
mod identity;
pub mod policy;
pub mod signed_url;
mod trusts;

pub use self::client_certificate::ClientCertificate;
pub use self::identity::{AuthenticationError, Challenges, Identity, instant_of};
pub use self::trusts::Trusts;

use std::sync::Arc;
use std::time::SystemTime;

use sukkal_domain::{Author, ClientId, ProjectId, role};

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
    /// The service itself, which needs the project and the client id of an operation. It may do
    /// everything, and its operations take their turn among those of clients.
    SystemAs(Client),
}

/// A client, as the credential and the headers of its request describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The project on whose queues the client works.
    pub project: ProjectId,
    /// The id that the client gives itself.
    pub id: ClientId,
    /// The client's roles.
    pub roles: Vec<String>,
    /// What the credential of the request proves; `None` if the request has none.
    pub identity: Option<Arc<Identity>>,
}

impl Caller {
    /// Returns the client of the operation, if it has one.
    #[must_use]
    pub fn as_client(&self) -> Option<&Client> {
        match self {
            Self::Client(client) | Self::SystemAs(client) => Some(client),
            Self::Anonymous | Self::System => None,
        }
    }
}

impl Client {
    /// Returns a client for unit tests.
    #[cfg(test)]
    pub(crate) fn of_test(project: &str, roles: &[&str]) -> Self {
        let id = sukkal_domain::ClientIdRule::Text(1..=9).parse("me").unwrap();
        let roles = roles.iter().map(|&role| role.to_owned()).collect();
        Self { project: ProjectId::new(project).unwrap(), id, roles, identity: None }
    }

    /// Returns the time at which the client's credential expires; `None` if it does not expire.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.identity.as_ref()?.expires_at
    }

    /// Returns whether the client is a guest: the holder of a pre-signed URL for one queue.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        !self.roles.iter().all(|role| role::is_role_of_credentials(role))
    }

    /// Returns the client as it is stored with what the service does later in its name.
    #[must_use]
    pub fn to_author(&self) -> Author {
        let user = self.identity.as_ref().map(|identity| identity.subject.clone());
        Author { user, roles: self.roles.clone() }
    }

    /// Returns whether the client has the role of operators (Zaqar's `role:admin`).
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.roles.iter().any(|role| role.eq_ignore_ascii_case(ADMIN))
    }
}
