//! The options of Keystone. `[keystone]` in `config/default.toml` explains each of them.

use serde::Deserialize;

use super::Secret;

/// The options of Keystone, the identity service of `OpenStack`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct KeystoneConfig {
    /// The URL of Keystone, with or without `/v3`; empty if there is none.
    pub auth_url: String,
    /// The URL of Keystone for clients; empty if it is `auth_url`.
    pub www_authenticate_uri: String,
    /// The name of the service user, which validates the tokens of clients.
    pub username: String,
    /// The password of the service user.
    pub password: Secret,
    /// The domain of the service user.
    pub user_domain_name: String,
    /// The project of the service user.
    pub project_name: String,
    /// The domain of the service user's project.
    pub project_domain_name: String,
    /// The roles of which a service token must have one, so that an expired token is accepted beside
    /// it.
    pub service_token_roles: Vec<String>,
}
