//! The certificate of a client that has identified itself with mutual TLS.

use std::sync::Arc;

/// A verified certificate of a client. Each request of its connection has it as an extension.
/// Cloning it is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The subject as in RFC 4514, such as `CN=proxy-1,O=Acme`. It is empty if the certificate has
    /// none.
    pub subject: Arc<str>,
}
