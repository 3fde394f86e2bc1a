//! A rule in the form in which it is evaluated.

use std::fmt;

use crate::auth::Client;
use sukkal_domain::ProjectId;

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

impl fmt::Display for Check {
    /// Writes the condition as a rule of the policy. The names of projects are not for other
    /// projects.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |checks: &[Self], word: &str| {
            let inner = |check: &Self| match check {
                Self::All(_) | Self::Any(_) => format!("({check})"),
                check => check.to_string(),
            };
            checks.iter().map(inner).collect::<Vec<_>>().join(word)
        };
        match self {
            Self::Everybody => f.write_str("nothing"),
            Self::Nobody => f.write_str("what nobody has"),
            Self::Role(role) => write!(f, "role:{role}"),
            Self::Project(_) => f.write_str("another project"),
            Self::Not(check) => write!(f, "not {check}"),
            Self::All(checks) => f.write_str(&join(checks, " and ")),
            Self::Any(checks) => f.write_str(&join(checks, " or ")),
        }
    }
}

impl Check {
    /// Adds the roles that the condition names.
    pub(super) fn add_roles(&self, roles: &mut Vec<Box<str>>) {
        match self {
            Self::Role(role) if !roles.contains(role) => roles.push(role.clone()),
            Self::Not(check) => check.add_roles(roles),
            Self::All(checks) | Self::Any(checks) => checks.iter().for_each(|check| check.add_roles(roles)),
            Self::Role(_) | Self::Everybody | Self::Nobody | Self::Project(_) => {}
        }
    }

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
