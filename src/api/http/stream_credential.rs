//! The credential of the reader of a stream, which ends with it. A token may also be revoked, so it is
//! presented again from time to time.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use tokio::time::{Instant, sleep_until};

use super::middleware::authentication::presented_token;
use super::service::Settings;
use crate::auth::AuthenticationError;
use crate::authentication::{Authenticator, OwnedToken};

/// Pause between two checks of a token. A strategy may cache a token for two seconds, and a stream
/// must end within five seconds after its credential.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The credential of the reader of a stream.
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
        let revoked = async {
            match &mut self.token {
                Some(token) => token.refused().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = expired => {}
            () = revoked => {}
        }
    }
}

impl PresentedToken {
    /// Completes when the token is refused. While it cannot be verified, it counts as valid.
    async fn refused(&mut self) {
        loop {
            sleep_until(self.next_check).await;
            let outcome = self.authenticator.identify(self.token.as_token()).await;
            if matches!(outcome, Err(AuthenticationError::Refused(_))) {
                return;
            }
            self.next_check = Instant::now() + CHECK_INTERVAL;
        }
    }
}
