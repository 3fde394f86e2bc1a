//! `[tls]`: certificates of the listeners and of clients.

use std::path::PathBuf;

use serde::Deserialize;

use super::values::optional_file;
use sukkal_domain::options::{Rule, options};

options! {
    /// The files that TLS needs.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Tls {
        //! With a certificate, the API and the listener in [operations] accept only connections
        //! with TLS 1.2 or 1.3, with HTTP/1.1 or HTTP/2. The files are in PEM format. When a file
        //! has been replaced or changed, new connections use its new contents after two or three
        //! seconds, without a restart. If the new files cannot be used, a warning is logged and the
        //! old certificate stays in use.

        /// File with the certificate of the service, followed by those that link it to its
        /// authority. Accepted: a path, or empty. The default is empty: connections are not
        /// encrypted.
        #[serde(deserialize_with = "optional_file")]
        pub certificate: Option<PathBuf> = "" in Rule::OPTIONAL_FILE,
        /// File with the private key of the certificate, without a passphrase. Only the user that
        /// runs Sukkal should be able to read it. Accepted: a path, or empty, but certificate and
        /// key need each other. The default is empty.
        #[serde(deserialize_with = "optional_file")]
        pub key: Option<PathBuf> = "" in Rule::OPTIONAL_FILE;

        /// File with the certificates of the authorities that clients get their certificates from
        /// (mutual TLS). The listener in [operations] asks for no certificates, because health
        /// checks have none. Accepted: a path, or empty. The default is empty: clients are not
        /// asked for certificates.
        #[serde(deserialize_with = "optional_file")]
        pub client_ca: Option<PathBuf> = "" in Rule::OPTIONAL_FILE,
        /// Whether a client of the API must have a certificate. Accepted: "required", or
        /// "optional": a client may have no certificate, but one from another authority is refused.
        /// Without client_ca, the option has no effect. The default is "required".
        pub client_certificate: ClientCertificate = "required" in Rule::OneOf(&["required", "optional"]);
    }
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
