//! Trusts of Keystone (its extension `OS-TRUST`): users let the service user act for them.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, timeout};

use super::client::{KeystoneClient, LATE, OWN_TOKEN, RENEWAL_TIME, issued_token, unavailable};
use super::document::user_login;
use crate::auth::{AuthenticationError, Identity, Trusts};
use crate::authentication::lookups::{Bounds, Lookups};
use sukkal_base::outbound::json_client::Answer;
use sukkal_domain::{ProjectId, Secret};

/// Maximum time to create, use or delete a trust, with all requests to Keystone.
const DURATION_MAX: Duration = Duration::from_secs(10);

/// The trusts of a Keystone. Clones share what is remembered.
#[derive(Clone)]
pub struct KeystoneTrusts {
    client: Arc<KeystoneClient>,
    /// Tokens by the id of their trust.
    tokens: Lookups<String, Secret>,
}

#[derive(Deserialize)]
struct TrustDocument {
    trust: Trust,
}

#[derive(Deserialize)]
struct Trust {
    id: String,
}

impl KeystoneTrusts {
    pub(super) fn new(client: Arc<KeystoneClient>) -> Self {
        let tokens = Lookups::new(Bounds {
            refused_for: Duration::ZERO,
            lookups_max: usize::MAX,
            wait_max: DURATION_MAX,
            too_many: "",
            late: LATE,
        });
        Self { client, tokens }
    }

    async fn create_trust(
        &self,
        token: &Secret,
        user: &Identity,
        ttl: Duration,
    ) -> Result<String, AuthenticationError> {
        let expires_at = SystemTime::now().checked_add(ttl).map(OffsetDateTime::from);
        let expires_at = expires_at.and_then(|time| time.replace_nanosecond(0).ok()?.format(&Rfc3339).ok());
        let body = json!({ "trust": {
            "trustor_user_id": user.subject,
            "trustee_user_id": self.client.own_user_id().await?,
            "project_id": user.project.as_ref().map(ProjectId::as_str),
            "roles": user.roles.iter().map(|role| json!({ "name": role })).collect::<Vec<_>>(),
            "impersonation": true,
            "expires_at": expires_at,
        } });
        let answer = self.request(Method::POST, "/OS-TRUST/trusts", Some(token), Some(&body)).await?;
        match answer.status {
            StatusCode::CREATED => {
                let TrustDocument { trust: Trust { id } } = answer.json()?;
                // It becomes a part of URLs.
                let is_id =
                    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
                if is_id { Ok(id) } else { Err(unavailable("Keystone returned a trust without a valid id")) }
            }
            status if status.is_client_error() => Err(AuthenticationError::Refused(format!(
                "Keystone does not let the owner of the token create a trust (status {})",
                status.as_u16()
            ))),
            status => Err(unavailable(format!("Keystone answers to a trust with the status {}", status.as_u16()))),
        }
    }

    async fn trust_token(&self, trust: &str) -> Result<Secret, AuthenticationError> {
        let (this, id) = (self.clone(), trust.to_owned());
        let fetch = |_was_known| async move { this.fetch_trust_token(&id).await };
        Ok((*self.tokens.get(trust.to_owned(), fetch).await?).clone())
    }

    /// Returns a token, and until when it is used. One that expires soon is used once.
    async fn fetch_trust_token(&self, trust: &str) -> Result<(Secret, Instant), AuthenticationError> {
        let scope = json!({ "OS-TRUST:trust": { "id": trust } });
        let body = user_login(self.client.config(), &scope);
        let answer = self.request(Method::POST, "/auth/tokens", None, Some(&body)).await?;
        match answer.status {
            StatusCode::CREATED => {
                let (token, expires_at) = issued_token(&answer)?;
                let token = token.to_str().map_err(|_| unavailable("Keystone returned a token that is not ASCII"))?;
                let lasts = expires_at.duration_since(SystemTime::now() + RENEWAL_TIME).unwrap_or_default();
                Ok((Secret::new(token), Instant::now() + lasts))
            }
            status if status.is_client_error() => Err(AuthenticationError::Refused(format!(
                "Keystone issues no token for the trust of the subscription (status {}); the trust may have expired or \
                 have been deleted",
                status.as_u16()
            ))),
            status => Err(unavailable(format!("Keystone answers a login with the status {}", status.as_u16()))),
        }
    }

    async fn delete_trust(&self, trust: &str) -> Result<(), AuthenticationError> {
        // Only its owner may delete a trust, and the service acts for the owner.
        let token = self.trust_token(trust).await?;
        self.forget_token(trust);
        let answer = self.request(Method::DELETE, &format!("/OS-TRUST/trusts/{trust}"), Some(&token), None).await?;
        match answer.status {
            status if status.is_success() || status == StatusCode::NOT_FOUND => Ok(()),
            status => Err(unavailable(format!("Keystone does not delete a trust (status {})", status.as_u16()))),
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        token: Option<&Secret>,
        body: Option<&Value>,
    ) -> Result<Answer, AuthenticationError> {
        let mut request = self.client.request(method, path).header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(token.reveal().unwrap_or_default())
                .map_err(|_| AuthenticationError::Refused("the token is not a valid header".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(OWN_TOKEN, value);
        }
        self.client.send(request.body(body.map(Value::to_string).unwrap_or_default())).await
    }
}

#[async_trait]
impl Trusts for KeystoneTrusts {
    async fn create(&self, token: &Secret, user: &Identity, ttl: Duration) -> Result<String, AuthenticationError> {
        in_time(self.create_trust(token, user, ttl)).await
    }

    async fn token(&self, trust: &str) -> Result<Secret, AuthenticationError> {
        in_time(self.trust_token(trust)).await
    }

    fn forget_token(&self, trust: &str) {
        self.tokens.forget(&trust.to_owned());
    }

    async fn delete(&self, trust: &str) -> Result<(), AuthenticationError> {
        in_time(self.delete_trust(trust)).await
    }
}

async fn in_time<T>(outcome: impl Future<Output = Result<T, AuthenticationError>>) -> Result<T, AuthenticationError> {
    let late = |_| Err(unavailable(LATE));
    timeout(DURATION_MAX, outcome).await.unwrap_or_else(late)
}
