//! Who calls, what a role is needed for, and what a pre-signed URL allows.

pub mod signed_url;

use crate::domain::{ClientId, ProjectId};

/// The role that operators have.
const ADMIN: &str = "admin";

/// Who makes a request: taken from its headers once, before anything else looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The tenant on whose queues the caller works.
    pub project: ProjectId,
    /// The name that the client gives itself.
    pub client: ClientId,
    /// The caller's roles, as the identity service in front has found them.
    pub roles: Vec<String>,
}

impl Caller {
    /// Whether the caller may do what is the operators' business (Zaqar's `role:admin`).
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.roles.iter().any(|role| role.eq_ignore_ascii_case(ADMIN))
    }
}
