//! The tokens that clients send, and what a strategy that verifies them offers.

use std::fmt;

use async_trait::async_trait;
use zeroize::Zeroizing;

use crate::auth::{AuthenticationError, Identity};
use sukkal_domain::{AuthStrategy, Secret};

/// The start of every API key.
const API_KEY_PREFIX: &[u8] = b"skt_";

/// A token of a request. A valid one is ASCII text.
#[derive(Clone, Copy)]
pub struct Token<'r> {
    form: TokenForm,
    /// `None` if the token is not valid.
    text: Option<&'r str>,
    /// The token of a service that sends the request on behalf of the owner of this one.
    service: Option<&'r [u8]>,
}

/// A token that outlives its request.
#[derive(Clone)]
pub struct OwnedToken {
    form: TokenForm,
    text: Zeroizing<String>,
    service: Option<Zeroizing<String>>,
}

/// The form of a token, which selects the strategy that verifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenForm {
    /// An API key, in either header.
    ApiKey,
    /// Another value of `X-Auth-Token`.
    AuthToken,
    /// Another token of `Authorization: Bearer`.
    Bearer,
}

/// A strategy that verifies tokens.
#[async_trait]
pub trait TokenStrategy: Send + Sync {
    /// Returns what a token proves, beside the token of a service that sends it on behalf of its
    /// owner. A strategy that knows no such services ignores their tokens.
    async fn identify(&self, token: &str, service_token: Option<&str>) -> Result<Identity, AuthenticationError>;
}

impl<'r> Token<'r> {
    /// Returns the token of an `X-Auth-Token`.
    #[must_use]
    pub fn of_auth_token(token: &'r [u8]) -> Self {
        Self::new(token, TokenForm::AuthToken)
    }

    /// Returns the token of an `Authorization: Bearer`.
    #[must_use]
    pub fn of_bearer(token: &'r [u8]) -> Self {
        Self::new(token, TokenForm::Bearer)
    }

    /// Returns the token together with that of a service.
    #[must_use]
    pub fn with_service_token(self, service_token: Option<&'r [u8]>) -> Self {
        Self { service: service_token, ..self }
    }

    fn new(token: &'r [u8], other: TokenForm) -> Self {
        let form = if token.starts_with(API_KEY_PREFIX) { TokenForm::ApiKey } else { other };
        Self { form, text: ascii(token), service: None }
    }

    /// Returns the same token with a text of its own; `None` if the token is not valid.
    #[must_use]
    pub fn to_owned(self) -> Option<OwnedToken> {
        let (text, service) = self.texts()?;
        let owned = |text: &str| Zeroizing::new(text.to_owned());
        Some(OwnedToken { form: self.form, text: owned(text), service: service.map(owned) })
    }

    /// Returns the strategy that verifies such tokens, if it is on.
    #[must_use]
    pub fn strategy(self) -> AuthStrategy {
        match self.form {
            TokenForm::ApiKey => AuthStrategy::Tokens,
            TokenForm::AuthToken => AuthStrategy::Keystone,
            TokenForm::Bearer => AuthStrategy::Jwt,
        }
    }

    pub(super) fn form(self) -> TokenForm {
        self.form
    }

    /// Returns the token and that of the service, or `None` if one of them is not valid.
    pub(super) fn texts(self) -> Option<(&'r str, Option<&'r str>)> {
        match self.service {
            None => Some((self.text?, None)),
            Some(service_token) => Some((self.text?, Some(ascii(service_token)?))),
        }
    }
}

impl OwnedToken {
    /// Returns the text of a token of Keystone. Of another token, it returns no text.
    #[must_use]
    pub fn of_keystone(&self) -> Secret {
        if self.form == TokenForm::AuthToken { Secret::new(&self.text) } else { Secret::default() }
    }

    /// Returns the token.
    #[must_use]
    pub fn as_token(&self) -> Token<'_> {
        let service = self.service.as_ref().map(|token| token.as_bytes());
        Token { form: self.form, text: Some(&self.text), service }
    }
}

/// Returns a token as text if it is valid.
fn ascii(token: &[u8]) -> Option<&str> {
    str::from_utf8(token).ok().filter(|text| !text.is_empty() && text.is_ascii())
}

impl fmt::Display for TokenForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiKey => "an API key (skt_...) in X-Auth-Token or Authorization: Bearer",
            Self::AuthToken => "a Keystone token in X-Auth-Token",
            Self::Bearer => "a JWT in Authorization: Bearer",
        })
    }
}
