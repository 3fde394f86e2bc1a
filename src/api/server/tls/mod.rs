//! TLS on a listener: handshakes, and new certificates without a restart.

mod files;
mod subject;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};
use webpki::EndEntityCert;

pub use self::files::{ClientCertificates, TlsError, TlsFiles};
use self::files::{Configurations, Versions};
use crate::auth::ClientCertificate;

/// The name of HTTP/2 in TLS handshakes.
pub(super) const HTTP2: &[u8] = b"h2";
/// Pause between two checks whether the files have changed.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// The certificates of a listener. Clones share them.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<Configurations>>,
    /// The versions of the files when they were first read.
    first_versions: Versions,
    asks_for_client_certificates: bool,
}

/// A new connection to a listener with TLS.
pub(super) enum Accepted {
    Tls(Box<TlsStream<TcpStream>>, Option<ClientCertificate>),
    /// The client speaks HTTP without TLS.
    PlainHttp(TcpStream),
}

impl Tls {
    /// Reads the files.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let first_versions = files.versions();
        let current = Arc::new(RwLock::new(files.load()?));
        Ok(Self { files: Arc::new(files), current, first_versions, asks_for_client_certificates: true })
    }

    /// Returns the same certificates for a listener whose clients are not asked for certificates.
    #[must_use]
    pub fn without_client_certificates(&self) -> Self {
        Self { asks_for_client_certificates: false, ..self.clone() }
    }

    /// Reads the files again whenever they have changed. If they cannot be used, the certificates
    /// stay as they are.
    pub async fn follow_files(self) {
        let mut loaded = self.first_versions.clone();
        let mut seen = loaded.clone();
        loop {
            sleep(CHECK_PAUSE).await;
            let files = self.files.clone();
            let Ok(versions) = spawn_blocking(move || files.versions()).await else { continue };
            // Certificate and key may be replaced one after the other.
            let is_settled = versions == std::mem::replace(&mut seen, versions.clone());
            if versions == loaded || !is_settled {
                continue;
            }
            loaded = versions;
            let files = self.files.clone();
            match spawn_blocking(move || files.load()).await {
                Ok(Ok(configurations)) => {
                    *self.current.write() = configurations;
                    info!("the TLS certificate has been reloaded");
                }
                Ok(Err(error)) => warn!(%error, "cannot reload the TLS certificate; the old one stays in use"),
                Err(error) => warn!(%error, "cannot reload the TLS certificate; the old one stays in use"),
            }
        }
    }

    /// Does the handshake of a new connection.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Accepted> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // A request begins with its method, and no message of TLS begins with a letter.
        if first[0].is_ascii_uppercase() {
            return Ok(Accepted::PlainHttp(stream));
        }
        let stream = TlsAcceptor::from(self.configuration()).accept(stream).await?;
        let certificate = client_certificate(stream.get_ref().1)?;
        Ok(Accepted::Tls(Box::new(stream), certificate))
    }

    fn configuration(&self) -> Arc<ServerConfig> {
        let current = self.current.read();
        if self.asks_for_client_certificates {
            current.with_client_certificates.clone()
        } else {
            current.without_client_certificates.clone()
        }
    }
}

/// Returns the certificate of the client, which the handshake has verified.
fn client_certificate(session: &ServerConnection) -> io::Result<Option<ClientCertificate>> {
    let Some(certificate) = session.peer_certificates().and_then(<[_]>::first) else { return Ok(None) };
    let unreadable = || io::Error::other("the subject of the client certificate cannot be read");
    let parsed = EndEntityCert::try_from(certificate).map_err(|_| unreadable())?;
    let subject = subject::text(parsed.subject()).ok_or_else(unreadable)?;
    Ok(Some(ClientCertificate { subject: subject.into() }))
}
