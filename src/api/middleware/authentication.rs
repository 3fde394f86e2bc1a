//! Finds out who sends a request, by the credential in its headers or by its connection.
//!
//! If no strategy verifies tokens, this allocates nothing and does not wait.

use std::future::Future;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::audit;
use super::own_host;
use super::signature::Carrier;
use crate::api::server::connection::Connection;
use crate::api::service::Settings;
use crate::auth::{AuthenticationError, ClientCertificate};
use crate::authentication::{Authenticator, OwnedToken, Peer, Sender, Token};
use crate::wire::Error;
use sukkal_domain::{AuthStrategy, Warning, role};

pub(in crate::api) const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
pub(in crate::api) const SERVICE_TOKEN: HeaderName = HeaderName::from_static("x-service-token");
/// The scheme of tokens in `Authorization`.
const BEARER: &[u8] = b"bearer";

/// What says who sends a request.
pub(in crate::api) enum Proof {
    /// A credential or the connection, which has been verified.
    Sender(Sender),
    /// A signature, which has to be checked with the path of the request.
    Signature(Carrier),
}

/// Returns what says who sends a request. The future borrows no body, so that it can be sent to
/// another thread.
pub(in crate::api) fn authenticate(
    request: &Request,
    settings: &Settings,
) -> impl Future<Output = Result<Proof, Error>> + Send {
    let certificate = request.extensions().get::<ClientCertificate>().cloned();
    let peer = request.extensions().get::<Arc<Connection>>();
    let peer = peer.map(|connection| connection.peer.clone().with_certificate(certificate));
    let carrier = Carrier::of(request.headers(), request.uri().query());
    let headers = request.headers();
    async move { prove(headers, peer, carrier?, settings).await }
}

async fn prove(
    headers: &HeaderMap,
    peer: Option<Peer>,
    signature: Option<Carrier>,
    settings: &Settings,
) -> Result<Proof, Error> {
    let authenticator = &settings.authenticator;
    let tokens = if authenticator.verifies_tokens() { Tokens::of(headers) } else { Tokens::default() };
    let sender = match (tokens, signature) {
        (Tokens { auth_token: None, bearer: None, .. }, None) => plain_sender(authenticator, peer),
        (Tokens { auth_token: None, bearer: None, .. }, Some(signature)) => {
            audit::note_strategy(role::SIGNED_URL);
            return Ok(Proof::Signature(signature));
        }
        (Tokens { auth_token: Some(token), bearer: None, service_token }, None) => {
            identify(authenticator, Token::of_auth_token(token).with_service_token(service_token)).await
        }
        (Tokens { auth_token: None, bearer: Some(token), .. }, None) => {
            identify(authenticator, Token::of_bearer(token)).await
        }
        _ => return Err(Error::TwoCredentials),
    };
    let sender = sender.map_err(|error| authentication_error(error, authenticator))?;
    own_host::check(headers, settings)?;
    Ok(Proof::Sender(sender))
}

fn plain_sender(authenticator: &Authenticator, peer: Option<Peer>) -> Result<Sender, AuthenticationError> {
    let sender = authenticator.sender_of_plain_request(peer)?;
    let is_proxy_client = matches!(sender, Sender::ProxyClient(_));
    let strategy = if is_proxy_client { AuthStrategy::Proxy } else { AuthStrategy::None };
    audit::note_strategy(strategy.name());
    Ok(sender)
}

async fn identify(authenticator: &Authenticator, token: Token<'_>) -> Result<Sender, AuthenticationError> {
    audit::note_strategy(token.strategy().name());
    authenticator.identify(token).await
}

/// Returns the token of a request that has passed the checks, if it has one.
pub(in crate::api) fn presented_token(headers: &HeaderMap, authenticator: &Authenticator) -> Option<OwnedToken> {
    let tokens = Some(Tokens::of(headers)).filter(|_| authenticator.verifies_tokens())?;
    let of_auth_token = |token| Token::of_auth_token(token).with_service_token(tokens.service_token);
    tokens.auth_token.map(of_auth_token).or_else(|| tokens.bearer.map(Token::of_bearer))?.to_owned()
}

/// Returns a warning if a request that nothing verifies has a credential.
pub(super) fn ignored_credential(headers: &HeaderMap) -> Option<Warning> {
    let tokens = Tokens::of(headers);
    let signature = ["url-paths", "url-methods", "url-expires"].iter().any(|name| headers.contains_key(*name));
    let without_signature = Warning::Needs { key: "URL-Paths", missing: "URL-Signature" };
    match (tokens.auth_token, tokens.bearer) {
        (Some(_), _) => Some(Warning::CredentialIgnored("X-Auth-Token")),
        (None, Some(_)) => Some(Warning::CredentialIgnored("Authorization")),
        (None, None) => signature.then_some(without_signature),
    }
}

/// Returns the error of a request whose credential is not accepted.
pub(in crate::api) fn authentication_error(error: AuthenticationError, authenticator: &Authenticator) -> Error {
    match error {
        AuthenticationError::Refused(reason) => {
            Error::Unauthenticated { reason, challenges: authenticator.challenges() }
        }
        AuthenticationError::NoProject => Error::TokenWithoutProject,
        AuthenticationError::Unavailable(reason) => Error::AuthenticationUnavailable(reason),
        AuthenticationError::UnknownKey(retry_after_s) => Error::UnknownKey(retry_after_s),
    }
}

/// The tokens in the headers of a request.
#[derive(Default)]
struct Tokens<'r> {
    auth_token: Option<&'r [u8]>,
    bearer: Option<&'r [u8]>,
    /// The token of a service that sends the request on behalf of the owner of `auth_token`.
    service_token: Option<&'r [u8]>,
}

impl<'r> Tokens<'r> {
    fn of(headers: &'r HeaderMap) -> Self {
        let value = |name| headers.get(name).map(HeaderValue::as_bytes);
        let bearer = value(AUTHORIZATION).and_then(bearer_token);
        Self { auth_token: value(AUTH_TOKEN), bearer, service_token: value(SERVICE_TOKEN) }
    }
}

/// Returns the token of an `Authorization` whose scheme is `Bearer`. Other schemes are for a proxy.
fn bearer_token(authorization: &[u8]) -> Option<&[u8]> {
    let end = authorization.iter().position(|byte| *byte == b' ').unwrap_or(authorization.len());
    let (scheme, token) = authorization.split_at(end);
    scheme.eq_ignore_ascii_case(BEARER).then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_follows_its_scheme() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer   a b ", Some("a b")),
            ("BEARER ", Some("")),
            ("Bearer", Some("")),
            ("Bearerabc", None),
            ("Basic abc", None),
            ("", None),
        ] {
            assert_eq!(bearer_token(header.as_bytes()), token.map(str::as_bytes), "{header:?}");
        }
    }
}
