//! The credential of a stream or of a request that waits, which ends with it. A token may also be
//! revoked, so it is presented again from time to time.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use tokio::time::{Instant, sleep_until};

use super::middleware::authentication::{authentication_error, presented_token};
use super::service::Settings;
use crate::auth::AuthenticationError;
use crate::authentication::{Authenticator, OwnedToken};
use crate::broker;
use crate::wire::Error;

/// Time for which a token counts as valid while it cannot be verified, after which a stream ends at
/// the next check. A short outage ends no stream. Strategies remember tokens that were verified
/// before.
const UNVERIFIED_MAX: Duration = Duration::from_secs(2);
/// Pause between two checks of a token. A strategy may cache a token for two seconds, and a stream
/// must end within five seconds after its credential.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The credential of the reader of a stream, or of a client that waits.
pub(super) struct StreamCredential {
    /// When it expires; `None` if it does not expire.
    expiry: Option<Instant>,
    token: Option<PresentedToken>,
}

/// A token that is checked again.
struct PresentedToken {
    token: OwnedToken,
    authenticator: Arc<Authenticator>,
    next_check: Instant,
    /// When the first of the checks was due that could not verify the token; `None` if the last
    /// check has verified it.
    unverified_since: Option<Instant>,
}

impl StreamCredential {
    /// Returns the credential of a request that has passed the checks.
    pub(super) fn of(headers: &HeaderMap, settings: &Settings, expiry: Option<Instant>) -> Self {
        let authenticator = settings.authenticator.clone();
        let next_check = Instant::now() + CHECK_INTERVAL;
        let token = presented_token(headers, &authenticator);
        let presented = |token| PresentedToken { token, authenticator, next_check, unverified_since: None };
        Self { expiry, token: token.map(presented) }
    }

    /// Completes when the credential has expired, is not valid any more, or cannot be verified. A
    /// call that is not awaited to its end is continued by the next one.
    pub(super) async fn ended(&mut self) {
        let expired = async {
            match self.expiry {
                Some(expiry) => sleep_until(expiry).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = expired => {}
            _error = rejected(&mut self.token) => {}
        }
    }
}

/// Returns what an operation returns that waits for this number of seconds. If the token of the
/// request is revoked, the operation ends as if the client had disconnected, and the request gets a
/// `401`; a `503` if the token cannot be verified any more. Operations themselves end when a
/// credential expires.
pub(super) async fn while_valid<T>(
    headers: &HeaderMap,
    settings: &Settings,
    wait_s: Option<i64>,
    operation: impl Future<Output = Result<T, broker::Error>>,
) -> Result<T, Error> {
    if wait_s.unwrap_or_default() <= 0 {
        return Ok(operation.await?);
    }
    let mut token = StreamCredential::of(headers, settings, None).token;
    tokio::select! {
        outcome = operation => Ok(outcome?),
        error = rejected(&mut token) => Err(authentication_error(error, &settings.authenticator)),
    }
}

/// Completes when the token is not accepted any more, and returns why.
async fn rejected(token: &mut Option<PresentedToken>) -> AuthenticationError {
    match token {
        Some(token) => token.rejected().await,
        None => pending().await,
    }
}

impl PresentedToken {
    /// Completes when the token is refused, or when it could not be verified for too long. Returns
    /// why.
    async fn rejected(&mut self) -> AuthenticationError {
        loop {
            sleep_until(self.next_check).await;
            match self.authenticator.identify(self.token.as_token()).await {
                Ok(_) => self.unverified_since = None,
                Err(error @ (AuthenticationError::Unavailable(_) | AuthenticationError::UnknownKey(_))) => {
                    let since = *self.unverified_since.get_or_insert(self.next_check);
                    if since.elapsed() >= UNVERIFIED_MAX {
                        return error;
                    }
                }
                Err(refused) => return refused,
            }
            self.next_check = Instant::now() + CHECK_INTERVAL;
        }
    }
}
