//! A rule in the form in which it is evaluated.

use crate::auth::Client;
use crate::domain::ProjectId;

/// A condition that a client meets or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Every client meets it.
    Everybody,
    /// No client meets it.
    Nobody,
    /// The client has this role. Upper and lower case are equal.
    Role(Box<str>),
    /// The client works on the queues of this project.
    Project(ProjectId),
    /// The client does not meet this condition.
    Not(Box<Check>),
    /// The client meets all of these conditions.
    All(Vec<Check>),
    /// The client meets one of these conditions.
    Any(Vec<Check>),
}

impl Check {
    /// Returns whether the client meets the condition.
    pub(super) fn allows(&self, client: &Client) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::Role(role) => client.roles.iter().any(|own| own.eq_ignore_ascii_case(role)),
            Self::Project(project) => client.project == *project,
            Self::Not(check) => !check.allows(client),
            Self::All(checks) => checks.iter().all(|check| check.allows(client)),
            Self::Any(checks) => checks.iter().any(|check| check.allows(client)),
        }
    }
}
