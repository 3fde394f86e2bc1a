//! Tokens of Keystone, the identity service of `OpenStack`. Keystone describes each token once, and
//! again after some minutes.

mod client;
mod document;
mod trusts;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use ring::digest::{SHA256, digest};
use tokio::time::{Instant, timeout};

use self::client::{Expired, KeystoneClient, LATE};
pub use self::trusts::KeystoneTrusts;
use super::lookups::{Bounds, Lookups, Outcome};
use super::outage::Outage;
use super::token::TokenStrategy;
use crate::auth::{AuthenticationError, Identity};
use sukkal_domain::KeystoneConfig;

/// Maximum time to validate a token, with all requests to Keystone.
const VALIDATION_DURATION_MAX: Duration = Duration::from_secs(10);
/// Time for which a valid token is accepted without asking Keystone again.
const VALID_AGE_MAX: Duration = Duration::from_secs(300);
/// Time for which a token stays refused. A token may become valid, for example when a replica of
/// Keystone learns of it.
const REFUSED_AGE_MAX: Duration = Duration::from_secs(30);
/// Maximum number of tokens that are validated at the same time, beyond which only those that were
/// valid before are accepted.
const VALIDATIONS_MAX: usize = 1_024;
/// Maximum size of a token, in bytes. Those of Keystone have some hundred bytes, or about a
/// thousand if they are signed.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The strategy `keystone`. Clones share what is remembered.
#[derive(Clone)]
pub struct Keystone(Arc<Inner>);

struct Inner {
    public_uri: String,
    service_token_roles: Vec<String>,
    client: Arc<KeystoneClient>,
    validations: Lookups<Key, Holder>,
    outage: Outage,
}

/// The SHA-256 of a token, and whether the token may have expired.
type Key = ([u8; 32], Expired);

/// The sender of a token.
struct Holder {
    identity: Identity,
    /// Whether an expired token is accepted beside this one.
    is_service: bool,
}

impl Keystone {
    /// Returns why the configuration cannot be used.
    pub fn new(config: KeystoneConfig) -> Result<Self, String> {
        for (option, is_empty) in [
            ("auth_url", config.auth_url.is_empty()),
            ("username", config.username.is_empty()),
            ("password", config.password.reveal().is_none()),
        ] {
            if is_empty {
                return Err(format!("keystone.{option} is empty; the strategy keystone needs it"));
            }
        }
        let public_url =
            if config.www_authenticate_uri.is_empty() { &config.auth_url } else { &config.www_authenticate_uri };
        Ok(Self(Arc::new(Inner {
            public_uri: public_url.clone(),
            service_token_roles: config.service_token_roles.clone(),
            outage: Outage::new(config.auth_url.clone()),
            client: Arc::new(KeystoneClient::new(config)),
            validations: Lookups::new(Bounds {
                refused_for: REFUSED_AGE_MAX,
                lookups_max: VALIDATIONS_MAX,
                wait_max: VALIDATION_DURATION_MAX,
                too_many: "too many tokens are being validated",
                late: LATE,
            }),
        })))
    }

    /// Returns the URL of Keystone for clients.
    #[must_use]
    pub fn public_uri(&self) -> &str {
        &self.0.public_uri
    }

    /// Returns the trusts of users for the service user.
    #[must_use]
    pub fn trusts(&self) -> KeystoneTrusts {
        KeystoneTrusts::new(self.0.client.clone())
    }

    /// Returns the identity that a token proves. A service that calls on behalf of a user sends a
    /// token of its own as well. If that has an accepted role, the token of the user may have
    /// expired.
    pub async fn identify(&self, token: &str, service_token: Option<&str>) -> Result<Identity, AuthenticationError> {
        let service = match service_token {
            None => None,
            Some(token) => Some(self.holder(token, Expired::Refused).await?),
        };
        let Some(service) = service.filter(|service| service.is_service) else {
            return self.holder(token, Expired::Refused).await?.with_project();
        };
        let mut identity = self.holder(token, Expired::Accepted).await?.with_project()?;
        // The two tokens together are valid as long as one of them is.
        identity.expires_at = identity.expires_at.max(service.identity.expires_at);
        Ok(identity)
    }

    async fn holder(&self, token: &str, expired: Expired) -> Outcome<Holder> {
        // Keystone ignores white space around a token, and so do its other clients.
        let token = token.trim();
        if token.len() > TOKEN_BYTES_MAX || token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AuthenticationError::Refused("the token is not one of Keystone".to_owned()));
        }
        let digest = digest(&SHA256, token.as_bytes());
        let key = (digest.as_ref().try_into().expect("SHA-256 has 32 bytes"), expired);
        let (inner, token) = (self.0.clone(), token.to_owned());
        let validate = |was_valid| async move {
            let outcome = timeout(VALIDATION_DURATION_MAX, inner.validate(&token, expired, was_valid)).await;
            outcome.unwrap_or_else(|_| Err(AuthenticationError::Unavailable(LATE.to_owned())))
        };
        self.0.validations.get(key, validate).await
    }
}

impl Holder {
    /// Returns the identity for requests, which need a project. The sender cannot name one, because
    /// Keystone decides in which projects a user has roles.
    fn with_project(&self) -> Result<Identity, AuthenticationError> {
        if self.identity.project.is_none() {
            return Err(AuthenticationError::NoProject);
        }
        Ok(self.identity.clone())
    }
}

#[async_trait]
impl TokenStrategy for Keystone {
    async fn identify(&self, token: &str, service_token: Option<&str>) -> Result<Identity, AuthenticationError> {
        self.identify(token, service_token).await
    }
}

impl Inner {
    /// Returns the holder of a token, and until when the token is accepted without asking Keystone
    /// again.
    async fn validate(
        &self,
        token: &str,
        expired: Expired,
        was_valid: bool,
    ) -> Result<(Holder, Instant), AuthenticationError> {
        let described = self.client.describe(token, expired, was_valid).await;
        let outcome = described.and_then(|document| {
            let is_service = document.has_role_of(&self.service_token_roles);
            let identity = document.identity()?;
            let life_left = identity.expires_at.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
            if expired == Expired::Refused && life_left == Some(Duration::ZERO) {
                return Err(AuthenticationError::Refused("the token has expired; request a new one".to_owned()));
            }
            let accepted_for = life_left.unwrap_or(VALID_AGE_MAX).min(VALID_AGE_MAX);
            Ok((Holder { identity, is_service }, Instant::now() + accepted_for))
        });
        self.outage.note(match &outcome {
            Err(AuthenticationError::Unavailable(reason)) => Some(reason),
            Ok(_) | Err(_) => None,
        });
        outcome
    }
}
