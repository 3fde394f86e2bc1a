//! Authentication: the strategies that the operator has chosen, and which of them decides about a
//! request.
//!
//! The form of the credential selects the strategy, and the decision of that strategy is final. The
//! signature of a pre-signed URL is a credential too, but it belongs to one request and is checked
//! in `api/middleware/signature.rs`.

pub mod jwt;
pub mod keystone;
mod lookups;
mod outage;
mod proxy;
mod token;
mod tokens;

use std::fmt;
use std::sync::Arc;

use tracing::debug;

pub use self::proxy::{Peer, TrustedProxies};
pub use self::token::{OwnedToken, Token, TokenForm, TokenStrategy};
pub use self::tokens::Tokens;
use crate::auth::{AuthenticationError, Challenges, Identity};

/// The sentence with which the middleware of Keystone refuses a request. Its clients may expect it.
const REFUSED_BY_KEYSTONE: &str = "The request you have made requires authentication.";

/// The strategies that are on. Without any, no request has a known sender.
#[derive(Default)]
pub struct Authenticator {
    /// The strategy `none`.
    pub none: Option<Openness>,
    /// The strategy `proxy`.
    pub proxies: Option<TrustedProxies>,
    /// The strategy `tokens`.
    pub api_keys: Option<Box<dyn TokenStrategy>>,
    /// The strategy `keystone`, and the URI at which clients get tokens.
    pub keystone: Option<(Box<dyn TokenStrategy>, String)>,
    /// The strategy `jwt`.
    pub jwt: Option<Box<dyn TokenStrategy>>,
}

/// The requests that are believed without a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Openness {
    /// Those whose header `Host` names this machine, because no strategy is on.
    ThisMachine,
    /// All.
    Everybody,
}

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Anybody, with the subject of their client certificate if they have one. The headers of the
    /// request say for which project and with which roles, and they are believed.
    Anybody(Option<Arc<str>>),
    /// A client of this trusted proxy. The headers of the request say which one.
    ProxyClient(Peer),
    /// The owner of a credential.
    Identified(Identity),
}

impl Authenticator {
    /// Returns whether tokens are credentials. Otherwise they are for somebody else, such as a
    /// proxy, and have no effect.
    #[must_use]
    pub fn verifies_tokens(&self) -> bool {
        self.api_keys.is_some() || self.keystone.is_some() || self.jwt.is_some()
    }

    /// Returns whether only requests are believed whose header `Host` names this machine.
    #[must_use]
    pub fn requires_own_host(&self) -> bool {
        self.none == Some(Openness::ThisMachine)
    }

    /// Returns whether the tokens that the service issues are credentials.
    #[must_use]
    pub fn verifies_api_keys(&self) -> bool {
        self.api_keys.is_some()
    }

    /// Returns what a token proves. With the strategy `keystone`, tokens in `X-Auth-Token` are
    /// refused with the sentence of its middleware, and the log has the reason.
    ///
    /// # Errors
    ///
    /// [`AuthenticationError::Refused`] also if the strategy for such tokens is not on.
    pub async fn identify(&self, token: Token<'_>) -> Result<Sender, AuthenticationError> {
        match self.verify(token).await {
            Err(AuthenticationError::Refused(reason))
                if self.keystone.is_some() && token.form() == TokenForm::AuthToken =>
            {
                debug!(reason, "a token of Keystone is refused");
                Err(AuthenticationError::Refused(REFUSED_BY_KEYSTONE.to_owned()))
            }
            outcome => outcome,
        }
    }

    async fn verify(&self, token: Token<'_>) -> Result<Sender, AuthenticationError> {
        let strategy = match token.form() {
            TokenForm::ApiKey => self.api_keys.as_deref(),
            TokenForm::AuthToken => self.keystone.as_ref().map(|(strategy, _)| &**strategy),
            TokenForm::Bearer => self.jwt.as_deref(),
        };
        let refused = |reason| Err(AuthenticationError::Refused(reason));
        match (strategy, token.texts()) {
            (Some(strategy), Some((text, service_token))) => {
                strategy.identify(text, service_token).await.map(Sender::Identified)
            }
            (Some(_), None) => refused("The token is empty or has other characters than ASCII.".to_owned()),
            (None, _) => refused(format!("This service does not accept {}.", token.form())),
        }
    }

    /// Returns the sender of a request without a credential, which came from this peer.
    ///
    /// # Errors
    ///
    /// [`AuthenticationError::Refused`] if such requests are not accepted.
    pub fn sender_of_plain_request(&self, peer: Option<Peer>) -> Result<Sender, AuthenticationError> {
        if let (Some(proxies), Some(peer)) = (&self.proxies, &peer)
            && proxies.trust(peer)
        {
            return Ok(Sender::ProxyClient(peer.clone()));
        }
        if self.none.is_some() {
            return Ok(Sender::Anybody(peer.and_then(|peer| peer.subject())));
        }
        let reason = if self.keystone.is_some() {
            REFUSED_BY_KEYSTONE.to_owned()
        } else if self.verifies_tokens() {
            format!("The request you have made requires authentication, by {}.", self.accepted_tokens())
        } else {
            "The request did not come from a proxy that this service trusts.".to_owned()
        };
        Err(AuthenticationError::Refused(reason))
    }

    /// Names the tokens that are accepted.
    fn accepted_tokens(&self) -> String {
        let api_key = self.api_keys.is_some().then_some(TokenForm::ApiKey);
        let bearer = self.jwt.is_some().then_some(TokenForm::Bearer);
        let accepted = [api_key, bearer].into_iter().flatten();
        accepted.map(|form| form.to_string()).collect::<Vec<_>>().join(" or by ")
    }

    /// Returns how clients can authenticate.
    #[must_use]
    pub fn challenges(&self) -> Challenges {
        Challenges {
            keystone_uri: self.keystone.as_ref().map(|(_, uri)| uri.clone()),
            bearer: self.api_keys.is_some() || self.jwt.is_some(),
        }
    }
}

/// Shows which strategies are on, and nothing of their configuration.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("none", &self.none)
            .field("proxy", &self.proxies.is_some())
            .field("keystone", &self.keystone.is_some())
            .field("jwt", &self.jwt.is_some())
            .field("tokens", &self.api_keys.is_some())
            .finish()
    }
}
