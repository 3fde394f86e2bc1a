//! Opens a WebSocket (RFC 6455, section 4.2).

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest;
use tracing::debug;

use super::connection;
use super::session::Session;
use crate::api::middleware::authentication::authenticate;
use crate::api::middleware::own_host;
use crate::api::server::connection::Connection;
use crate::api::service::Service;
use crate::wire::Error;

/// What a server appends to the key of the client before it hashes it.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Number of bytes of the key of a client.
const KEY_BYTES: usize = 16;

/// Opens a WebSocket: `101`. The connection needs no credential yet, and a credential in the
/// headers is that of the connection.
pub(in crate::api) async fn open(State(service): State<Service>, mut request: Request) -> Result<Response, Error> {
    if service.settings.websocket.connections_max == 0 {
        return Err(Error::TooManySockets(0));
    }
    own_host::check_origin(request.headers(), &service.settings)?;
    let accept = accept_key(request.method(), request.headers()).ok_or(Error::NoUpgrade)?;
    // The connection could be upgraded only after the body has arrived.
    if !request.body().is_end_stream() {
        return Err(Error::Request("a request that opens a WebSocket must not have a body".to_owned()));
    }
    let upgrade = request.extensions_mut().remove::<OnUpgrade>().ok_or(Error::NoUpgrade)?;
    let connection = request.extensions().get::<Arc<Connection>>().cloned().ok_or(Error::NoUpgrade)?;
    let proof = authenticate(&request, &service.settings).await;
    let session = Session::begin(&request, proof, connection.clone(), &service.settings)?;
    let slot = service.socket_slots.take(session.is_known())?;
    connection.upgrade(Box::new(move |close| {
        Box::pin(async move {
            match upgrade.await {
                Ok(upgraded) => connection::serve(TokioIo::new(upgraded), session, slot, service, close).await,
                Err(error) => debug!(%error, "a WebSocket was not opened"),
            }
        })
    }));
    let headers = [
        (CONNECTION, HeaderValue::from_static("upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// Returns the proof that the server understands a request for a WebSocket; `None` if the request
/// is another one.
fn accept_key(method: &Method, headers: &HeaderMap) -> Option<HeaderValue> {
    let has = |name: &HeaderName, expected: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(expected))
    };
    let key = headers.get(SEC_WEBSOCKET_KEY)?;
    let is_key = STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY_BYTES);
    let is_request = method == Method::GET
        && headers.contains_key(HOST)
        && has(&CONNECTION, "upgrade")
        && has(&UPGRADE, "websocket")
        && has(&SEC_WEBSOCKET_VERSION, "13");
    if !is_key || !is_request {
        return None;
    }
    let text = [key.as_bytes(), KEY_SUFFIX.as_bytes()].concat();
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    HeaderValue::try_from(STANDARD.encode(hash)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455, section 1.3.
    #[test]
    fn a_key_is_accepted_as_the_standard_says() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (HOST, "server.example.com"),
            (UPGRADE, "WebSocket"),
            (CONNECTION, "keep-alive, Upgrade"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
            (SEC_WEBSOCKET_VERSION, "13"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }

        assert_eq!(accept_key(&Method::GET, &headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(accept_key(&Method::POST, &headers).is_none());
        for (name, value) in [
            (SEC_WEBSOCKET_VERSION, "8"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZQ=="),
            (UPGRADE, "h2c"),
            (CONNECTION, "keep-alive"),
        ] {
            let mut other = headers.clone();
            other.insert(name, HeaderValue::from_static(value));
            assert!(accept_key(&Method::GET, &other).is_none(), "{value}");
        }
    }
}
