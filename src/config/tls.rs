//! `[tls]`: certificates of the listeners and of clients.

use std::path::PathBuf;

use serde::Deserialize;

use super::values::optional_file;

/// The files that TLS needs.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Tls {
    /// The certificate of the service; `None` for listeners without TLS.
    #[serde(deserialize_with = "optional_file")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    #[serde(deserialize_with = "optional_file")]
    pub key: Option<PathBuf>,
    /// The authorities of client certificates; `None` if clients are not asked for certificates.
    #[serde(deserialize_with = "optional_file")]
    pub client_ca: Option<PathBuf>,
    /// Whether a client must have a certificate.
    pub client_certificate: ClientCertificate,
}

/// Whether a client must have a certificate.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// A client without a certificate is refused.
    Required,
    /// A client may have no certificate.
    Optional,
}

impl Tls {
    /// Checks that no file is missing that another one needs.
    pub(super) fn check(&self) -> Result<(), String> {
        match (&self.certificate, &self.key, &self.client_ca) {
            (Some(_), None, _) => Err("tls.certificate is set, so tls.key must be set too".to_owned()),
            (None, Some(_), _) => Err("tls.key is set, so tls.certificate must be set too".to_owned()),
            (None, None, Some(_)) => {
                Err("tls.client_ca is set, so tls.certificate and tls.key must be set too".to_owned())
            }
            (Some(_), Some(_), _) | (None, None, None) => Ok(()),
        }
    }
}
