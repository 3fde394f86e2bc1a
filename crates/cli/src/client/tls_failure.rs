//! Why a TLS connection to the service fails, and what to do about it.

use reqwest::Url;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};

use sukkal_base::outbound::root_cause;

/// Returns the reason for the person who ran the command.
pub(super) fn explain(error: &reqwest::Error) -> String {
    let host = error.url().and_then(Url::host_str).unwrap_or_default().trim_matches(['[', ']']);
    let cause = root_cause(error);
    match cause.downcast_ref::<Error>() {
        Some(Error::InvalidCertificate(cause)) => {
            format!("the certificate of the service {}", certificate(cause, host))
        }
        Some(Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            "the service requires a client certificate; name the file that has it and its key with --cert FILE"
                .to_owned()
        }
        Some(Error::InvalidMessage(_)) => {
            "the service does not use TLS at this port; does its URL begin with http://?".to_owned()
        }
        _ => cause.to_string(),
    }
}

fn certificate(cause: &CertificateError, host: &str) -> String {
    match cause {
        // The last two: an issuer of this name is known, but it has another key.
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => "is not trusted, because its issuer is unknown; name the certificate of the \
                                            issuer, or a certificate that is self-signed, with --cacert FILE"
            .to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            format!("is not valid for {host}, but for {}; use a name of the certificate in the URL", presented.join(", "))
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("is not valid for {host}; use a name of the certificate in the URL")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired; renew it, or set the clock of this machine".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet; set the clock of this machine".to_owned()
        }
        // Certificates that openssl signs itself have CA:TRUE by default.
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "is that of an authority (CA:TRUE), which services cannot use; make one with CA:FALSE, as docs/operating.md \
             shows"
                .to_owned()
        }
        other => format!("is not accepted: {other}"),
    }
}
