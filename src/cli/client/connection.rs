//! One keep-alive HTTP connection to the service, with or without TLS. It is opened when it is
//! needed, and again when it was closed.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::ServerName;

use super::error::Error;
use super::tls_failure::explain;
use crate::outbound;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no response to a request.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// There is no connection, so nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection was closed before the response was complete.
    #[error("the connection was lost: {0}")]
    Lost(String),
    #[error("no response in time")]
    Timeout,
    /// The response is longer than any that a service sends.
    #[error("the response is too long")]
    TooLong,
}

/// A connection that carries one request at a time.
pub(super) struct Connection {
    host: String,
    port: u16,
    /// `None` for `http` URLs.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    open: RefCell<Option<SendRequest<Full<Bytes>>>>,
}

impl Connection {
    /// Prepares a connection to the host of a URL, which is opened by the first request. With `cacert`, only
    /// the certificates in this file are trusted.
    pub(super) fn new(url: &Uri, cacert: Option<&Path>) -> Result<Self, Error> {
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_tls = url.scheme_str() == Some("https");
        let tls = if is_tls {
            let name = ServerName::try_from(host.clone());
            Some((tls(cacert)?, name.map_err(|_| Error::Usage(format!("{host} is not the name of a host")))?))
        } else {
            None
        };
        let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { host, port, tls, open: RefCell::default() })
    }

    /// Sends a request, and returns the response when its head has arrived.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let mut request = request;
        loop {
            // Taken out, so that an error or a dropped future closes the connection. Otherwise the
            // rest of a response would be left on it.
            let was_open = self.open.take();
            let is_new = was_open.is_none();
            let mut sender = match was_open {
                Some(sender) => sender,
                None => timeout(CONNECT_TIMEOUT, self.connect()).await.unwrap_or_else(|_| {
                    Err(Failure::Connect(format!("no response within {} s", CONNECT_TIMEOUT.as_secs())))
                })?,
            };
            if let Err(error) = sender.ready().await {
                if is_new {
                    return Err(error.into());
                }
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.open.replace(Some(sender));
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    // Services close idle connections, which is not a failed request.
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(error.into_error().into()),
                },
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let refused = |error: std::io::Error| Failure::Connect(error.to_string());
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        match &self.tls {
            None => handshake(stream).await,
            Some((tls, name)) => {
                let explained = |error: std::io::Error| Failure::Connect(explain(&error, &self.host));
                handshake(tls.connect(name.clone(), stream).await.map_err(explained)?).await
            }
        }
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let opened = http1::handshake(TokioIo::new(stream)).await;
    let (sender, driver) = opened.map_err(|error| Failure::Connect(outbound::root_cause(&error).to_string()))?;
    // It ends with the connection. Errors reach the request that they concern.
    tokio::spawn(driver);
    Ok(sender)
}

fn tls(cacert: Option<&Path>) -> Result<TlsConnector, Error> {
    let trusted = match cacert {
        Some(file) => only_in(file)?,
        None => outbound::trusted_certificates().map_err(|error| Error::Failed(error.to_string()))?,
    };
    Ok(TlsConnector::from(Arc::new(outbound::tls_config(trusted))))
}

/// Returns a store that trusts only the certificates in a file.
pub(super) fn only_in(file: &Path) -> Result<RootCertStore, Error> {
    let unusable = |reason: &dyn ToString| Error::Usage(format!("{}: {}", file.display(), reason.to_string()));
    let certificates = outbound::certificates_in(file).map_err(|error| unusable(&error))?;
    if certificates.is_empty() {
        return Err(Error::Usage(format!("{} has no certificates", file.display())));
    }
    outbound::only(certificates).map_err(|error| unusable(&error))
}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        Self::Lost(outbound::root_cause(&error).to_string())
    }
}
