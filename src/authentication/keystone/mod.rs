//! Tokens of Keystone, the identity service of `OpenStack`. Keystone describes each token once, and
//! again after some minutes.

mod client;
mod document;
mod trusts;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use quick_cache::sync::Cache;
use ring::digest::{SHA256, digest};
use tokio::time::{Instant, timeout};

use self::client::{Expired, KeystoneClient};
pub use self::trusts::KeystoneTrusts;
use super::outage::Outage;
use super::token::TokenStrategy;
use crate::auth::{AuthenticationError, Identity};
use crate::domain::KeystoneConfig;

/// Maximum time to validate a token, with all requests to Keystone.
const VALIDATION_DURATION_MAX: Duration = Duration::from_secs(10);
/// Time for which a valid token is accepted without asking Keystone again.
const VALID_AGE_MAX: Duration = Duration::from_secs(300);
/// Time for which a token stays refused. A token may become valid, for example when a replica of
/// Keystone learns of it.
const REFUSED_AGE_MAX: Duration = Duration::from_secs(30);
/// Maximum number of valid tokens that are remembered.
const VALID_TOKENS_MAX: usize = 10_000;
/// Maximum number of refused tokens that are remembered. They are kept apart from the valid ones,
/// because anybody can send many.
const REFUSED_TOKENS_MAX: usize = 10_000;
/// Maximum number of tokens that are validated at the same time, beyond which only those that were
/// valid before are accepted.
const VALIDATIONS_MAX: usize = 1_024;
/// Maximum size of a token, in bytes. Those of Keystone have some hundred bytes, or about a thousand
/// if they are signed.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The strategy `keystone`. Clones share what is remembered.
#[derive(Clone)]
pub struct Keystone(Arc<Inner>);

struct Inner {
    public_uri: String,
    service_token_roles: Vec<String>,
    client: Arc<KeystoneClient>,
    valid: Cache<Key, Arc<Remembered>>,
    refused: Cache<Key, Arc<Remembered>>,
    validations: Mutex<HashMap<Key, Shared<BoxFuture<'static, Outcome>>>>,
    outage: Outage,
}

/// The SHA-256 of a token, and whether the token may have expired.
type Key = ([u8; 32], Expired);

/// Who has sent the token, or why it is not accepted.
type Outcome = Result<Arc<Holder>, AuthenticationError>;

/// The sender of a token.
struct Holder {
    identity: Identity,
    /// Whether an expired token is accepted beside this one.
    is_service: bool,
}

struct Remembered {
    outcome: Outcome,
    until: Instant,
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
            valid: Cache::new(VALID_TOKENS_MAX),
            refused: Cache::new(REFUSED_TOKENS_MAX),
            validations: Mutex::default(),
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
    /// token of its own as well. If that has an accepted role, the token of the user may have expired.
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

    async fn holder(&self, token: &str, expired: Expired) -> Outcome {
        // Keystone ignores white space around a token, and so do its other clients.
        let token = token.trim();
        if token.len() > TOKEN_BYTES_MAX || token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AuthenticationError::Refused("the token is not one of Keystone".to_owned()));
        }
        let digest = digest(&SHA256, token.as_bytes());
        let key = (digest.as_ref().try_into().expect("SHA-256 has 32 bytes"), expired);
        if let Some(outcome) = self.0.remembered(&key) {
            return outcome;
        }
        let validation = match self.validation(key, token) {
            Ok(validation) => validation,
            Err(outcome) => return outcome,
        };
        let late = || Err(AuthenticationError::Unavailable("Keystone does not answer in time".to_owned()));
        timeout(VALIDATION_DURATION_MAX, validation).await.unwrap_or_else(|_| late())
    }

    /// Returns the validation of a token that is in progress, or begins one. Returns the outcome if it
    /// is there by now. A validation goes on if nobody waits for it any more.
    fn validation(&self, key: Key, token: &str) -> Result<Shared<BoxFuture<'static, Outcome>>, Outcome> {
        let mut validations = self.0.validations();
        if let Some(outcome) = self.0.remembered(&key) {
            return Err(outcome);
        }
        // A validation that has panicked is still here.
        if let Some(validation) = validations.get(&key).filter(|validation| validation.peek().is_none()) {
            return Ok(validation.clone());
        }
        // Invented tokens must not keep out those that are only due for another validation.
        let was_valid = self.0.valid.peek(&key).is_some();
        if !was_valid && validations.len() >= VALIDATIONS_MAX {
            return Err(Err(AuthenticationError::Unavailable("too many tokens are being validated".to_owned())));
        }
        let (inner, token) = (self.0.clone(), token.to_owned());
        let task = tokio::spawn(async move {
            let outcome = timeout(VALIDATION_DURATION_MAX, inner.validate(&token, key.1, was_valid)).await;
            let late = || Err(AuthenticationError::Unavailable("Keystone does not answer in time".to_owned()));
            let outcome = outcome.unwrap_or_else(|_| late());
            inner.remember(key, &outcome);
            inner.validations().remove(&key);
            outcome
        });
        let panicked = || Err(AuthenticationError::Unavailable("the validation of a token panicked".to_owned()));
        let validation = task.map(move |outcome| outcome.unwrap_or_else(|_| panicked())).boxed().shared();
        validations.insert(key, validation.clone());
        Ok(validation)
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

impl TokenStrategy for Keystone {
    fn identify<'a>(
        &'a self,
        token: &'a str,
        service_token: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Identity, AuthenticationError>> {
        Box::pin(self.identify(token, service_token))
    }
}

impl Inner {
    fn validations(&self) -> MutexGuard<'_, HashMap<Key, Shared<BoxFuture<'static, Outcome>>>> {
        self.validations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn validate(&self, token: &str, expired: Expired, was_valid: bool) -> Outcome {
        let described = self.client.describe(token, expired, was_valid).await;
        let outcome = described.and_then(|document| {
            let is_service = document.has_role_of(&self.service_token_roles);
            let identity = document.identity()?;
            if expired == Expired::Refused && is_over(&identity) {
                return Err(AuthenticationError::Refused("the token has expired; request a new one".to_owned()));
            }
            Ok(Arc::new(Holder { identity, is_service }))
        });
        self.outage.note(match &outcome {
            Err(AuthenticationError::Unavailable(reason)) => Some(reason),
            Ok(_) | Err(_) => None,
        });
        outcome
    }

    /// Returns the outcome of an earlier validation.
    fn remembered(&self, key: &Key) -> Option<Outcome> {
        let (now, is_expired) =
            (Instant::now(), |outcome: &Outcome| outcome.as_ref().is_ok_and(|holder| is_over(&holder.identity)));
        let find = |outcomes: &Cache<Key, Arc<Remembered>>| {
            let remembered = outcomes.get(key)?;
            (now < remembered.until && !is_expired(&remembered.outcome)).then(|| remembered.outcome.clone())
        };
        find(&self.valid).or_else(|| find(&self.refused))
    }

    fn remember(&self, key: Key, outcome: &Outcome) {
        let (outcomes, age_max) = match outcome {
            Ok(_) => (&self.valid, VALID_AGE_MAX),
            Err(AuthenticationError::Unavailable(_)) => return,
            Err(_) => {
                self.valid.remove(&key);
                (&self.refused, REFUSED_AGE_MAX)
            }
        };
        outcomes.insert(key, Arc::new(Remembered { outcome: outcome.clone(), until: Instant::now() + age_max }));
    }
}

/// Returns whether a credential has expired.
fn is_over(identity: &Identity) -> bool {
    identity.expires_at.is_some_and(|expires_at| expires_at <= SystemTime::now())
}
