//! The server under test: its address, and TLS if its URL begins with `https://`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::either::Either;

use crate::outbound;

/// A connection without and with TLS.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A server that connections are opened to. Cloning it is cheap.
#[derive(Clone)]
pub(super) struct Server {
    address: SocketAddr,
    /// `None` for `http` URLs.
    tls: Option<Tls>,
}

/// What TLS needs. The certificate of the server must be trusted by the system, or be in
/// `SSL_CERT_FILE`.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Server {
    pub(super) fn new(address: SocketAddr, tls: Option<Tls>) -> Self {
        Self { address, tls }
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Either::Left(stream)),
            Some(Tls { connector, name }) => {
                Ok(Either::Right(Box::new(connector.connect(name.clone(), stream).await?)))
            }
        }
    }
}

impl Tls {
    /// Prepares TLS with the server that has this name or IP address.
    pub(super) fn new(host: &str) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let config = outbound::tls_config(outbound::trusted_certificates()?);
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }
}
