//! Finds out why no Sentinel can be used. `fred` reports only that it is so.

use std::time::Duration;

use fred::error::{Error as FredError, ErrorKind};
use fred::types::config::{Config, Server, ServerConfig, TlsConnector};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

/// Maximum duration of a probe.
const TIMEOUT: Duration = Duration::from_secs(1);
const NO_SENTINEL: &str = "Failed to connect to all sentinel nodes";

/// Returns the failure of the first configured Sentinel that cannot be used, if `failure` says that
/// none can be used. Returns any other failure unchanged.
pub(super) async fn explain(config: &Config, failure: FredError) -> FredError {
    let ServerConfig::Sentinel { hosts, .. } = &config.server else { return failure };
    if !failure.details().starts_with(NO_SENTINEL) {
        return failure;
    }
    for server in hosts {
        match timeout(TIMEOUT, probe(config, server)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_elapsed) => return FredError::new(ErrorKind::Timeout, "a Sentinel does not answer"),
        }
    }
    // The Sentinels reply, so they refuse the credentials, or could be reached only now.
    let details = match &config.password {
        Some(_) => "no Sentinel can be used; the Sentinels must accept the user and password of the store's URI",
        None => "no Sentinel can be used",
    };
    FredError::new(ErrorKind::Sentinel, details)
}

/// Connects to a Sentinel and sends a command.
async fn probe(config: &Config, server: &Server) -> Result<(), FredError> {
    let stream = TcpStream::connect((&*server.host, server.port)).await?;
    match &config.tls {
        Some(tls) => {
            let TlsConnector::Rustls(connector) = &tls.connector;
            let name = ServerName::try_from(server.host.to_string())?;
            ping(connector.connect(name, stream).await?).await
        }
        None => ping(stream).await,
    }
}

/// Any reply will do: that of a Sentinel with a password is an error.
async fn ping(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), FredError> {
    stream.write_all(b"PING\r\n").await?;
    stream.flush().await?;
    match stream.read(&mut [0; 64]).await? {
        0 => Err(FredError::new(ErrorKind::IO, "the Sentinel closes the connection")),
        _ => Ok(()),
    }
}
