//! The HTTP client of the commands, and why the service does not respond to it.

use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, Url};
use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error as TlsError, RootCertStore};

use super::error::Error;
use super::tls_failure::explain;
use sukkal_base::outbound::{self, CONNECT_DURATION_MAX};
use sukkal_base::text;

/// Why there is no response to a request.
#[derive(Debug, Error)]
pub(super) enum RequestFailure {
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

impl From<reqwest::Error> for RequestFailure {
    fn from(error: reqwest::Error) -> Self {
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => Self::Connect(format!("no response within {} s", CONNECT_DURATION_MAX.as_secs())),
            (true, false) => Self::Connect(explain(&error)),
            (false, _) => Self::Lost(explain(&error)),
        }
    }
}

/// Returns a client for the service at this URL. With `cacert`, only the certificates in this file
/// are trusted. With `cert`, the client has the certificate in this file.
pub(super) fn client(url: &Url, cacert: Option<&Path>, cert: Option<&Path>) -> Result<Client, Error> {
    let failed = |reason: &dyn ToString| Error::Failed(reason.to_string());
    let trusted = match cacert {
        // Checked for http too, like the certificate of the client.
        Some(file) => only_in(file)?,
        None if url.scheme() == "http" => RootCertStore::empty(),
        None => outbound::trusted_certificates().map_err(|error| failed(&error))?,
    };
    let mut tls = outbound::tls_config(trusted);
    if let Some(file) = cert {
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certificate_in(file)?));
    }
    outbound::http_client(tls).build().map_err(|error| failed(&error))
}

/// Returns a store that trusts only the certificates in a file.
pub(super) fn only_in(file: &Path) -> Result<RootCertStore, Error> {
    outbound::only(certificates_in(file)?).map_err(|error| unusable(file, &error))
}

/// Returns the certificate in a file with its private key, which the file also contains.
pub(super) fn certificate_in(file: &Path) -> Result<CertifiedKey, Error> {
    let chain = certificates_in(file)?;
    let text = text::read_bytes(file).map_err(|error| unusable(file, &error))?;
    let key = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| Error::Usage(format!("{} has no private key without a passphrase", file.display())))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
        TlsError::InconsistentKeys(_) => unusable(file, &"its key is not that of its first certificate"),
        error => unusable(file, &error),
    })
}

fn certificates_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates = outbound::certificates_in(file).map_err(|error| unusable(file, &error))?;
    if certificates.is_empty() {
        return Err(Error::Usage(format!("{} has no certificates", file.display())));
    }
    Ok(certificates)
}

fn unusable(file: &Path, reason: &dyn ToString) -> Error {
    Error::Usage(format!("{}: {}", file.display(), reason.to_string()))
}
