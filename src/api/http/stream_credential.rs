//! The credential of a stream or of a request that waits, which ends with it. A token may also be
//! revoked, so it is presented again from time to time.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use tokio::time::{Instant, sleep_until};

use super::middleware::authentication::presented_token;
use super::service::Settings;
use crate::api::Error;
use crate::auth::AuthenticationError;
use crate::authentication::{Authenticator, OwnedToken};
use crate::broker;

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
}

impl StreamCredential {
    /// Returns the credential of a request that has passed the checks.
    pub(super) fn of(headers: &HeaderMap, settings: &Settings, expiry: Option<Instant>) -> Self {
        let authenticator = settings.authenticator.clone();
        let next_check = Instant::now() + CHECK_INTERVAL;
        let token = presented_token(headers, &authenticator);
        Self { expiry, token: token.map(|token| PresentedToken { token, authenticator, next_check }) }
    }

    /// Completes when the credential has expired or is not valid any more. A call that is not awaited
    /// to its end is continued by the next one.
    pub(super) async fn ended(&mut self) {
        let expired = async {
            match self.expiry {
                Some(expiry) => sleep_until(expiry).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = expired => {}
            _reason = refused(&mut self.token) => {}
        }
    }
}

/// Returns what an operation returns that waits for this number of seconds. If the token of the
/// request is revoked, the operation ends as if the client had disconnected, and the request gets a
/// `401`. Operations themselves end when a credential expires.
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
        reason = refused(&mut token) => {
            Err(Error::Unauthenticated { reason, challenges: settings.authenticator.challenges() })
        }
    }
}

/// Completes when the token is refused, and returns why.
async fn refused(token: &mut Option<PresentedToken>) -> String {
    match token {
        Some(token) => token.refused().await,
        None => pending().await,
    }
}

impl PresentedToken {
    /// Completes when the token is refused, and returns why. While it cannot be verified, it counts as
    /// valid.
    async fn refused(&mut self) -> String {
        loop {
            sleep_until(self.next_check).await;
            let outcome = self.authenticator.identify(self.token.as_token()).await;
            if let Err(AuthenticationError::Refused(reason)) = outcome {
                return reason;
            }
            self.next_check = Instant::now() + CHECK_INTERVAL;
        }
    }
}
