//! One keep-alive HTTP connection, which carries one request at a time and is reopened when it was
//! closed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::http::uri::Scheme;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::either::Either;

use sukkal_base::outbound;

/// Maximum time to open a connection, and for a request with its response.
const DURATION_MAX: Duration = Duration::from_secs(30);

/// A request with its complete body.
pub(super) type Outgoing = Request<Full<Bytes>>;

/// Why a request has failed.
#[derive(Debug, Error)]
pub(super) enum LoadFailure {
    /// A response with a status other than 2xx.
    #[error("{0}")]
    Status(u16),
    /// No complete response within 30 seconds.
    #[error("timeout")]
    Timeout,
    #[error("no connection: {0}")]
    Connect(io::ErrorKind),
    /// The connection was closed before the response was complete.
    #[error("connection closed")]
    Closed,
    /// The response does not contain the expected document.
    #[error("unreadable response")]
    Unreadable,
    /// The names or ids in the request do not fit into a URL.
    #[error("URL too long")]
    TooLong,
    /// Open loop: the request was due, but its connection was still waiting for an earlier response
    /// when the run ended.
    #[error("never sent")]
    NeverSent,
}

/// The server under test.
#[derive(Clone)]
pub(super) struct Server {
    host: String,
    port: u16,
    /// `None` for `http` URLs. The certificate of the server must be trusted by the system, or be
    /// in `SSL_CERT_FILE`.
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Server {
    pub(super) fn new(url: &Uri) -> io::Result<Self> {
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_https = url.scheme() == Some(&Scheme::HTTPS);
        let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let tls = if is_https {
            let config = outbound::tls_config(outbound::trusted_certificates()?);
            Some((Arc::new(config).into(), ServerName::try_from(host.clone()).map_err(io::Error::other)?))
        } else {
            None
        };
        Ok(Self { host, port, tls })
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let stream = match &self.tls {
            None => Either::Left(stream),
            Some((tls, name)) => Either::Right(tls.connect(name.clone(), stream).await?),
        };
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // It ends with the connection. Errors reach the request that they concern.
        tokio::spawn(driver);
        Ok(sender)
    }
}

/// A connection to the service.
pub(super) struct LoadConnection {
    server: Server,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl LoadConnection {
    /// Creates a connection that is opened by its first request.
    pub(super) fn to(server: &Server) -> Self {
        Self { server: server.clone(), sender: None }
    }

    /// Opens a connection now.
    pub(super) async fn open(server: &Server) -> io::Result<Self> {
        Ok(Self { server: server.clone(), sender: Some(timeout(DURATION_MAX, server.connect()).await??) })
    }

    /// Sends a request, if it could be built, and returns the complete response, whatever its
    /// status.
    pub(super) async fn exchange(
        &mut self,
        request: Result<Outgoing, LoadFailure>,
    ) -> Result<Response<Bytes>, LoadFailure> {
        timeout(DURATION_MAX, self.try_exchange(request?)).await.unwrap_or(Err(LoadFailure::Timeout))
    }

    async fn try_exchange(&mut self, mut request: Outgoing) -> Result<Response<Bytes>, LoadFailure> {
        loop {
            // Taken out, so that an error or a dropped future closes the connection. Otherwise the
            // rest of a response would be left on it.
            let was_open = self.sender.take();
            let is_new = was_open.is_none();
            let mut sender = match was_open {
                Some(sender) => sender,
                None => self.server.connect().await.map_err(|error| LoadFailure::Connect(error.kind()))?,
            };
            if sender.ready().await.is_err() && !is_new {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    let body = body.collect().await.map_err(|_| LoadFailure::Closed)?.to_bytes();
                    self.sender = Some(sender);
                    return Ok(Response::from_parts(head, body));
                }
                Err(mut error) => match error.take_message() {
                    // Services close idle and old connections, which is not a failed request.
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(LoadFailure::Closed),
                },
            }
        }
    }
}
