//! What Keystone says about a token (Identity API v3), and the request for a token of the service
//! user.

use std::time::SystemTime;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::auth::{AuthenticationError, Identity};
use sukkal_domain::queue_id::PROJECT_ID_CHARS_MAX;
use sukkal_domain::{KeystoneConfig, ProjectId};

/// The description of a token.
#[derive(Debug, Deserialize)]
pub(super) struct TokenDocument {
    token: Token,
}

#[derive(Debug, Deserialize)]
struct Token {
    expires_at: String,
    user: User,
    project: Option<Project>,
    #[serde(default)]
    roles: Vec<Role>,
    application_credential: Option<ApplicationCredential>,
}

#[derive(Debug, Deserialize)]
struct User {
    id: String,
}

#[derive(Debug, Deserialize)]
struct Project {
    id: String,
}

#[derive(Debug, Deserialize)]
struct Role {
    name: String,
}

#[derive(Debug, Deserialize)]
struct ApplicationCredential {
    /// The requests that the token is restricted to.
    access_rules: Option<IgnoredAny>,
}

impl TokenDocument {
    /// Returns the time at which the token expires.
    pub(super) fn expires_at(&self) -> Result<SystemTime, AuthenticationError> {
        OffsetDateTime::parse(&self.token.expires_at, &Rfc3339).map(SystemTime::from).map_err(|_| {
            AuthenticationError::Unavailable("Keystone returned a token without a valid expires_at".to_owned())
        })
    }

    /// Returns the id of the owner of the token.
    pub(super) fn user_id(&self) -> &str {
        &self.token.user.id
    }

    /// Returns whether the token has one of these roles.
    pub(super) fn has_role_of(&self, roles: &[String]) -> bool {
        self.token.roles.iter().any(|role| roles.contains(&role.name))
    }

    /// Returns the identity that the token proves, even if the token has expired. A token that is
    /// not for a project has none.
    pub(super) fn identity(self) -> Result<Identity, AuthenticationError> {
        let expires_at = Some(self.expires_at()?);
        let token = self.token;
        if token.application_credential.is_some_and(|credential| credential.access_rules.is_some()) {
            return Err(AuthenticationError::Refused(
                "tokens of application credentials with access rules are not supported".to_owned(),
            ));
        }
        let project = match token.project {
            None => None,
            Some(Project { id }) => {
                let is_legal = id.chars().count() <= PROJECT_ID_CHARS_MAX && !id.contains(char::is_control);
                let invalid = "Keystone returned a token whose project has no valid id";
                let project = ProjectId::new(&id).filter(|_| is_legal);
                Some(project.ok_or_else(|| AuthenticationError::Unavailable(invalid.to_owned()))?)
            }
        };
        let roles = token.roles.into_iter().map(|role| role.name).collect();
        Ok(Identity { subject: token.user.id, project, roles, expires_at })
    }
}

/// Returns the body of a request for a token of the service user, for its own project.
pub(super) fn login(config: &KeystoneConfig) -> Value {
    let scope = json!({ "project": {
        "name": config.project_name,
        "domain": { "name": config.project_domain_name },
    } });
    user_login(config, &scope)
}

/// Returns the body of a request for a token of the service user with this scope.
pub(super) fn user_login(config: &KeystoneConfig, scope: &Value) -> Value {
    json!({ "auth": {
        "identity": { "methods": ["password"], "password": { "user": {
            "name": config.username,
            "domain": { "name": config.user_domain_name },
            "password": config.password.reveal().unwrap_or_default(),
        } } },
        "scope": scope,
    } })
}
