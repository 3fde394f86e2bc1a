//! TLS to Redis: which certificates are trusted, and the certificate that identifies this process.
//!
//! The files are read again for each new connection, so that certificates can be replaced without a
//! restart. If a file cannot be used then, the certificates that were read before stay in use.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as RustlsError, OtherError, RootCertStore,
    SignatureScheme,
};
use tracing::warn;

use sukkal_base::outbound;
use sukkal_base::text;

/// The files for TLS to Redis, in PEM format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates of the trusted authorities; `None` for those of the operating system.
    pub ca: Option<PathBuf>,
    /// The certificate that identifies this process, with those that link it to its authority.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
}

/// The reason why TLS cannot be used as configured.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The address of the store does not ask for TLS.
    #[error("{0} is set in [redis], but the store does not use TLS; its URI must begin with rediss")]
    NoTls(&'static str),
    /// One of the two options is missing.
    #[error("{0} in [redis] needs {1}")]
    Incomplete(&'static str, &'static str),
    /// A file cannot be used.
    #[error("{0} in [redis] is {path}: {2}", path = .1.display())]
    File(&'static str, PathBuf, String),
    /// The operating system has no trusted certificates.
    #[error("{0}; set ca_file in [redis] to the certificate of the authority of Redis")]
    NoAuthority(io::Error),
}

const CA: &str = "ca_file";
const CERTIFICATE: &str = "certificate_file";
const KEY: &str = "key_file";

impl TlsFiles {
    /// Returns an error if a file is named.
    pub(super) fn require_none(&self) -> Result<(), TlsError> {
        let named = [(CA, &self.ca), (CERTIFICATE, &self.certificate), (KEY, &self.key)];
        let named = named.into_iter().find(|(_, file)| file.is_some());
        named.map_or(Ok(()), |(option, _)| Err(TlsError::NoTls(option)))
    }

    /// Reads the files and returns the configuration of connections.
    pub(super) fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let verifier = ServerVerifier::new(self.ca.clone())?;
        let mut config = outbound::tls_config(RootCertStore::empty());
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                config.client_auth_cert_resolver = Arc::new(OwnCertificate::new(certificate.clone(), key.clone())?);
            }
            (None, None) => {}
            (Some(_), None) => return Err(TlsError::Incomplete(CERTIFICATE, KEY)),
            (None, Some(_)) => return Err(TlsError::Incomplete(KEY, CERTIFICATE)),
        }
        // A resumed session is not verified again, and connections are rare.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Verifies the certificates of servers, and says in plain words why one is not accepted.
#[derive(Debug)]
struct ServerVerifier {
    /// The file with the trusted certificates; `None` for those of the operating system.
    ca: Option<PathBuf>,
    current: Mutex<Arc<WebPkiServerVerifier>>,
}

impl ServerVerifier {
    fn new(ca: Option<PathBuf>) -> Result<Self, TlsError> {
        let roots = match &ca {
            Some(path) => read_roots(path)?,
            None => outbound::trusted_certificates().map_err(TlsError::NoAuthority)?,
        };
        let current = Mutex::new(verifier_of(roots));
        Ok(Self { ca, current })
    }

    fn current(&self) -> Arc<WebPkiServerVerifier> {
        self.current.lock().clone()
    }

    /// Reads the trusted certificates again.
    fn reload(&self) -> Arc<WebPkiServerVerifier> {
        match self.ca.as_deref().map(read_roots) {
            Some(Ok(roots)) => {
                *self.current.lock() = verifier_of(roots);
            }
            Some(Err(error)) => warn!(%error, "the certificates that were read before are used"),
            None => {}
        }
        self.current()
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        let verified = self.reload().verify_server_cert(certificate, intermediates, name, ocsp, now);
        verified.map_err(|error| match error {
            RustlsError::InvalidCertificate(reason) => {
                let rejection = Rejection(format!("the TLS certificate of {} {}", name.to_str(), problem(&reason)));
                RustlsError::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(rejection))))
            }
            error => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.current().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.current().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().supported_verify_schemes()
    }
}

/// Says what is wrong with a certificate, after "the TLS certificate of NAME".
fn problem(reason: &CertificateError) -> String {
    match reason {
        // An authority with the same name and another key is another authority.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "was issued by an authority that is not trusted; set ca_file in [redis] to the certificate of that authority"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "is not valid yet".to_owned(),
        CertificateError::NotValidForName => "is for another name".to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "has no subject alternative name".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            // The library writes names as DnsName("...") and IpAddress(...).
            let names = presented.join(", ").replace("DnsName(", "").replace("IpAddress(", "");
            format!("is for another name: {}", names.replace(['"', ')'], ""))
        }
        other => format!("is not accepted: {other:?}").replace('"', ""),
    }
}

/// Why a certificate is not accepted. `fred` formats it with `Debug`, so that form is the text in
/// quotes.
#[derive(Error)]
#[error("{0}")]
struct Rejection(String);

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// Returns why the certificate of a server was not accepted, if an error of `fred` with these
/// details says so.
pub(super) fn rejection(details: &str) -> Option<&str> {
    details.split_once("OtherError(\"")?.1.split('"').next()
}

/// The certificate that identifies this process.
#[derive(Debug)]
struct OwnCertificate {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Arc<CertifiedKey>>,
}

impl OwnCertificate {
    fn new(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let current = Mutex::new(Arc::new(read_own(&certificate, &key)?));
        Ok(Self { certificate, key, current })
    }
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let mut current = self.current.lock();
        match read_own(&self.certificate, &self.key) {
            Ok(read) => *current = Arc::new(read),
            Err(error) => warn!(%error, "the certificate that was read before is used"),
        }
        Some(current.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn provider() -> Arc<CryptoProvider> {
    // A default provider would be a setting of the whole process.
    Arc::new(ring::default_provider())
}

fn verifier_of(roots: RootCertStore) -> Arc<WebPkiServerVerifier> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .expect("there are roots, and no revocation lists")
}

fn read_certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |reason: String| TlsError::File(option, path.to_owned(), reason);
    let certificates = outbound::certificates_in(path).map_err(|error| unusable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("it contains no certificate in PEM format".to_owned()));
    }
    Ok(certificates)
}

fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    outbound::only(read_certificates(CA, path)?).map_err(|error| TlsError::File(CA, path.to_owned(), error.to_string()))
}

fn read_own(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates(CERTIFICATE, certificate)?;
    let unusable = |reason: String| TlsError::File(KEY, key.to_owned(), reason);
    let text = text::read_bytes(key).map_err(|error| unusable(error.to_string()))?;
    let private = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| unusable("it contains no private key in PEM format that is not encrypted".to_owned()))?;
    CertifiedKey::from_der(chain, private, &provider()).map_err(|error| match error {
        RustlsError::InconsistentKeys(_) => {
            unusable("it is not the key of the certificate in certificate_file".to_owned())
        }
        error => unusable(error.to_string()),
    })
}
