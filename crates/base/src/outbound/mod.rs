//! What connections to other servers share: which certificates are trusted, how a failure is
//! described, the settings of HTTP clients, and a client for JSON documents.

pub mod json_client;

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{ClientBuilder, Response, redirect, retry};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, Error as TlsError, RootCertStore, crypto::ring};

use crate::text;

/// Maximum time to connect.
pub const CONNECT_DURATION_MAX: Duration = Duration::from_secs(5);

/// Returns the certificates that the operating system trusts, or those in `SSL_CERT_FILE`.
///
/// # Errors
///
/// Why there are none.
pub fn trusted_certificates() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        return Err(io::Error::other(format!("this system has no trusted certificates{reason}")));
    }
    Ok(roots)
}

/// Reads the certificates in a file in PEM format, which may have none.
///
/// # Errors
///
/// The file cannot be read, or one of its certificates cannot be decoded.
pub fn certificates_in(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let text = text::read_bytes(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    certificates.map_err(|error| io::Error::other(error.to_string()))
}

/// Returns a store that trusts these certificates and no others.
///
/// # Errors
///
/// A certificate is malformed.
pub fn only(certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    certificates.into_iter().try_for_each(|certificate| roots.add(certificate))?;
    Ok(roots)
}

/// Returns a TLS configuration for clients that trusts these certificates.
#[must_use]
pub fn tls_config(trusted: RootCertStore) -> ClientConfig {
    // A default provider would be a setting of the whole process.
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider supports them")
        .with_root_certificates(trusted)
        .with_no_client_auth()
}

/// Returns the settings of an HTTP client with this TLS configuration. The client uses no proxy,
/// follows no redirects, and sends a request again only if nothing of it was sent on a connection
/// that was closed.
pub fn http_client(tls: ClientConfig) -> ClientBuilder {
    ClientBuilder::new()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .connect_timeout(CONNECT_DURATION_MAX)
}

/// Reads the body of a response. Returns `None` if it has more than `bytes_max` bytes.
pub async fn body_of(mut response: Response, bytes_max: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await? {
        if body.len() + part.len() > bytes_max {
            return Ok(None);
        }
        body.extend_from_slice(&part);
    }
    Ok(Some(body))
}

/// Returns the innermost cause of an error, which says what is wrong. The outer ones often say only
/// that there is one.
#[must_use]
pub fn root_cause<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    loop {
        // The source of an I/O error is not the error that it contains, but the source of that.
        let contained = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match contained.map(|contained| contained as _).or_else(|| error.source()) {
            Some(cause) => error = cause,
            None => return error,
        }
    }
}
