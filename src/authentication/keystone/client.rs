//! Requests to Keystone: for a token of the service user, and for descriptions of the tokens of
//! clients.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use super::document::{TokenDocument, login};
use crate::auth::AuthenticationError;
use sukkal_base::outbound::json_client::{Answer, FetchFailure, JsonClient};
use sukkal_domain::KeystoneConfig;

/// Maximum number of descriptions of tokens that were not valid before that are requested at the
/// same time.
const REQUESTS_OF_NEW_MAX: usize = 64;
/// Maximum number of other requests at the same time.
const REQUESTS_MAX: usize = 64;
/// Minimum time between two requests for a token of the service user, which Keystone may lock after
/// wrong passwords.
const LOGIN_PAUSE: Duration = Duration::from_secs(5);
/// Time before its end at which a token that the service uses is replaced.
pub(super) const RENEWAL_TIME: Duration = Duration::from_secs(30);
pub(super) const OWN_TOKEN: &str = "X-Auth-Token";
const SUBJECT_TOKEN: &str = "X-Subject-Token";
pub(super) const LATE: &str = "Keystone does not answer in time";
const NEW_TOKEN_REFUSED: &str = "Keystone refuses the new token of the service user";

/// A client of Keystone.
pub(super) struct KeystoneClient {
    config: KeystoneConfig,
    /// The URL of Keystone with its version, without a slash at the end.
    base: String,
    http: JsonClient,
    login: Mutex<Login>,
    requests: Semaphore,
    requests_of_new: Semaphore,
}

/// The logins of the service user.
#[derive(Default)]
struct Login {
    token: Option<OwnToken>,
    /// When the last login began, and why it failed.
    began_at: Option<Instant>,
    failure: Option<AuthenticationError>,
    /// The number of logins so far.
    number: u64,
}

/// A token of the service user.
#[derive(Clone)]
struct OwnToken {
    /// Is marked as sensitive, so `Debug` does not show it.
    value: HeaderValue,
    login_number: u64,
    expires_at: SystemTime,
    user_id: String,
}

impl KeystoneClient {
    pub(super) fn new(config: KeystoneConfig) -> Self {
        let base = config.auth_url.trim_end_matches('/');
        let base = base.strip_suffix("/v3").unwrap_or(base);
        let base = format!("{base}/v3");
        let (requests, requests_of_new) = (Semaphore::new(REQUESTS_MAX), Semaphore::new(REQUESTS_OF_NEW_MAX));
        Self { config, base, http: JsonClient::default(), login: Mutex::default(), requests, requests_of_new }
    }

    pub(super) fn config(&self) -> &KeystoneConfig {
        &self.config
    }

    /// Prepares a request for a path below the version.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, &format!("{}{path}", self.base))
    }

    /// Sends a request when it has a permit.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Answer, AuthenticationError> {
        let _permit = self.requests.acquire().await.expect("the semaphore is never closed");
        Ok(self.http.send(request).await?)
    }

    /// Returns the id of the service user.
    pub(super) async fn own_user_id(&self) -> Result<String, AuthenticationError> {
        Ok(self.own_token(None).await?.user_id)
    }

    /// Returns the description of a token. Tokens that were valid before do not wait for others.
    pub(super) async fn describe(
        &self,
        token: &str,
        expired: Expired,
        was_valid: bool,
    ) -> Result<TokenDocument, AuthenticationError> {
        let requests = if was_valid { &self.requests } else { &self.requests_of_new };
        let _permit = requests.acquire().await.expect("the semaphore is never closed");
        let mut own_token = self.own_token(None).await?;
        let mut is_retry = false;
        let allow_expired = if expired == Expired::Accepted { "&allow_expired=1" } else { "" };
        let answer = loop {
            let mut subject = HeaderValue::try_from(token).map_err(|_| refused())?;
            subject.set_sensitive(true);
            let request = self.request(Method::GET, &format!("/auth/tokens?nocatalog{allow_expired}"));
            let request = request.header(OWN_TOKEN, own_token.value.clone()).header(SUBJECT_TOKEN, subject);
            let answer = self.http.send(request).await?;
            if answer.status == StatusCode::UNAUTHORIZED && !is_retry {
                own_token = self.own_token(Some(own_token.login_number)).await?;
                is_retry = true;
            } else {
                break answer;
            }
        };
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(refused()),
            StatusCode::UNAUTHORIZED => return Err(unavailable(NEW_TOKEN_REFUSED)),
            StatusCode::FORBIDDEN => return Err(unavailable("Keystone does not let the service user validate tokens")),
            status => return Err(unavailable(format!("Keystone answers with the status {}", status.as_u16()))),
        }
        if answer.headers.get(SUBJECT_TOKEN).is_some_and(|described| described.as_bytes() != token.as_bytes()) {
            return Err(unavailable("Keystone describes another token"));
        }
        Ok(answer.json()?)
    }

    /// Returns a token of the service user. Logs in if there is none, if it expires soon, or if
    /// Keystone has refused that of the login with the number `refused`.
    async fn own_token(&self, refused: Option<u64>) -> Result<OwnToken, AuthenticationError> {
        let mut login = self.login.lock().await;
        let lasts = |time: Duration| {
            let token = login.token.clone().filter(|token| refused != Some(token.login_number))?;
            (SystemTime::now() + time < token.expires_at).then_some(token)
        };
        if let Some(token) = lasts(RENEWAL_TIME) {
            return Ok(token);
        }
        let last_moments = lasts(Duration::ZERO);
        if login.began_at.is_none_or(|began_at| began_at.elapsed() >= LOGIN_PAUSE) {
            login.number += 1;
            login.began_at = Some(Instant::now());
            match self.log_in(login.number).await {
                Ok(token) => {
                    (login.token, login.failure) = (Some(token.clone()), None);
                    return Ok(token);
                }
                Err(failure) => login.failure = Some(failure),
            }
        }
        let failure = || login.failure.clone().unwrap_or_else(|| unavailable(NEW_TOKEN_REFUSED));
        last_moments.ok_or_else(failure)
    }

    async fn log_in(&self, login_number: u64) -> Result<OwnToken, AuthenticationError> {
        let request = self.request(Method::POST, "/auth/tokens").header(CONTENT_TYPE, "application/json");
        let answer = self.http.send(request.body(login(&self.config).to_string())).await?;
        match answer.status {
            StatusCode::CREATED => {}
            StatusCode::UNAUTHORIZED => return Err(unavailable("Keystone refuses the password of the service user")),
            status => {
                return Err(unavailable(format!("Keystone answers a login with the status {}", status.as_u16())));
            }
        }
        let (value, expires_at) = issued_token(&answer)?;
        let document: TokenDocument = answer.json()?;
        Ok(OwnToken { value, login_number, expires_at, user_id: document.user_id().to_owned() })
    }
}

/// Returns the token that Keystone has issued, and when it expires.
pub(super) fn issued_token(answer: &Answer) -> Result<(HeaderValue, SystemTime), AuthenticationError> {
    let token = answer.headers.get(SUBJECT_TOKEN).cloned();
    let mut token = token.ok_or_else(|| unavailable("Keystone answers a login without a token"))?;
    token.set_sensitive(true);
    let document: TokenDocument = answer.json()?;
    Ok((token, document.expires_at()?))
}

/// Whether an expired token is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Expired {
    Accepted,
    Refused,
}

impl From<FetchFailure> for AuthenticationError {
    fn from(failure: FetchFailure) -> Self {
        unavailable(failure.to_string())
    }
}

fn refused() -> AuthenticationError {
    AuthenticationError::Refused("Keystone does not accept the token; request a new one".to_owned())
}

pub(super) fn unavailable(reason: impl Into<String>) -> AuthenticationError {
    AuthenticationError::Unavailable(reason.into())
}
