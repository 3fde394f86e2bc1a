//! The HTTP client of the commands, and why the service does not respond to it.

use std::path::Path;

use reqwest::{Client, Url};
use thiserror::Error;
use tokio_rustls::rustls::RootCertStore;

use super::error::Error;
use super::tls_failure::explain;
use crate::outbound::{self, CONNECT_DURATION_MAX};

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

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => Self::Connect(format!("no response within {} s", CONNECT_DURATION_MAX.as_secs())),
            (true, false) => Self::Connect(explain(&error)),
            (false, _) => Self::Lost(outbound::root_cause(&error).to_string()),
        }
    }
}

/// Returns a client for the service at this URL. With `cacert`, only the certificates in this file
/// are trusted.
pub(super) fn client(url: &Url, cacert: Option<&Path>) -> Result<Client, Error> {
    let failed = |reason: &dyn ToString| Error::Failed(reason.to_string());
    let trusted = match cacert {
        _ if url.scheme() == "http" => RootCertStore::empty(),
        Some(file) => only_in(file)?,
        None => outbound::trusted_certificates().map_err(|error| failed(&error))?,
    };
    outbound::http_client(trusted).build().map_err(|error| failed(&error))
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
