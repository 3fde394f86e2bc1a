//! The files with the certificate of the service, its key, and the authorities of client
//! certificates.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use sukkal_base::text;

/// The protocols over TLS, in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [super::HTTP2, b"http/1.1"];

/// The files that TLS needs.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, followed by those that link it to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities of client certificates; `None` if clients are not asked for certificates.
    pub client_ca: Option<PathBuf>,
    /// Whether a client must have a certificate.
    pub client_certificates: ClientCertificates,
}

/// Whether a client must have a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without a certificate is refused.
    Required,
    /// A client may have no certificate.
    Optional,
}

/// Why TLS cannot be used with these files. The text never contains a part of a key.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("cannot read {file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The file does not have what it must have.
    #[error("{file} has no {expected} in PEM format")]
    Missing {
        /// The file.
        file: String,
        /// What the file must have.
        expected: &'static str,
    },
    /// The file has something that cannot be used.
    #[error("{file} cannot be used: {reason}")]
    Unusable {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
}

/// The configurations that are made of the files.
pub(super) struct Configurations {
    /// For listeners whose clients are asked for certificates, if there are authorities for them.
    pub(super) with_client_certificates: Arc<ServerConfig>,
    /// For listeners whose clients are not asked for certificates.
    pub(super) without_client_certificates: Arc<ServerConfig>,
}

/// The versions of the files: a replaced or changed file has another version. The version of a file
/// that cannot be found is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Versions(Vec<Option<(SystemTime, u64, u64)>>);

impl TlsFiles {
    /// Returns the versions of the files.
    pub(super) fn versions(&self) -> Versions {
        let version = |file: &Path| {
            let metadata = fs::metadata(file).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        };
        let files = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()];
        Versions(files.into_iter().flatten().map(|file| version(file)).collect())
    }

    /// Reads the files.
    pub(super) fn load(&self) -> Result<Configurations, TlsError> {
        let chain = certificates(&self.certificate)?;
        let key = private_key(&self.key)?;
        let without_client_certificates = Arc::new(self.configuration(&chain, &key, None)?);
        let with_client_certificates = match &self.client_ca {
            None => without_client_certificates.clone(),
            Some(file) => Arc::new(self.configuration(&chain, &key, Some(file))?),
        };
        Ok(Configurations { with_client_certificates, without_client_certificates })
    }

    fn configuration(
        &self,
        chain: &[CertificateDer<'static>],
        key: &PrivateKeyDer<'static>,
        client_ca: Option<&PathBuf>,
    ) -> Result<ServerConfig, TlsError> {
        // A default provider would be a setting of the whole process.
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("the provider supports both versions");
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let unusable =
                    |reason: &dyn ToString| TlsError::Unusable { file: shown(file), reason: reason.to_string() };
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|error| unusable(&error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match self.client_certificates {
                    ClientCertificates::Required => verifier,
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| unusable(&error))?)
            }
        };
        // This also checks that the key belongs to the certificate.
        let mut config = builder.with_single_cert(chain.to_vec(), key.clone_key()).map_err(|error| {
            let reason = match error {
                rustls::Error::InconsistentKeys(_) => {
                    format!("its key is not the one in {}", shown(&self.key))
                }
                other => other.to_string(),
            };
            TlsError::Unusable { file: shown(&self.certificate), reason }
        })?;
        if client_ca.is_some() {
            // The certificate of a client is not verified again when its session is resumed, so it
            // may have expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(config)
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = text::read_bytes(file).map_err(|reason| TlsError::Read { file: shown(file), reason })?;
    let certificates: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    // The error of the parser could quote the file.
    let certificates = certificates.unwrap_or_default();
    if certificates.is_empty() {
        return Err(TlsError::Missing { file: shown(file), expected: "certificate" });
    }
    Ok(certificates)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = text::read_bytes(file).map_err(|reason| TlsError::Read { file: shown(file), reason })?;
    let expected = "private key without a passphrase";
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| TlsError::Missing { file: shown(file), expected })
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
