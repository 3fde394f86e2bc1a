//! `sukkal ready`: checks whether the service on this machine is ready.
//!
//! The exit code is 0 if it is, 1 with the reason if it is not, and 2 if an option is wrong. Health
//! checks of containers run this command, so the image needs no shell and no HTTP client.
//!
//! With TLS, the certificate of the service is not verified. It is valid for the name that clients
//! use and not for this machine, and the request contains no secret.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{self, CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::{Failure, serve};
use crate::config::Bind;
use sukkal_cli::exit::FAILED;

/// Longer than the service takes to detect that its store does not respond.
const TIMEOUT: Duration = Duration::from_secs(4);
const REQUEST: &[u8] = b"GET /readyz HTTP/1.0\r\n\r\n";
const RESPONSE_BYTES_MAX: u64 = 64 << 10;

const SEE_LOG: &str = "the log of the service says more";
const SAME_OPTIONS: &str =
    "start the service, or give this command the options, variables and file with which it was started";

pub(super) fn run(options: &serve::Options) -> Result<ExitCode, Failure> {
    let config = options.load()?;
    let scheme = if config.tls.certificate.is_some() { Scheme::Https } else { Scheme::Http };
    let bind = config.operations.bind.unwrap_or(config.bind);
    let unresolved = |error| Failure(FAILED, format!("cannot resolve the address {bind}: {error}"));
    let address = local_address(&bind).map_err(unresolved)?;
    let url = format!("{}://{address}/readyz", if scheme == Scheme::Https { "https" } else { "http" });
    let (reason, sees_log) = match get_readiness(address, scheme) {
        Ok(response) if response.status == "204" => return Ok(ExitCode::SUCCESS),
        Ok(response) => (format!("answers {response}"), response.status == "503"),
        Err(error) => {
            let is_slow = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            (format!("does not answer: {error}"), is_slow)
        }
    };
    Err(Failure(FAILED, format!("{url} {reason}; {}", if sees_log { SEE_LOG } else { SAME_OPTIONS })))
}

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Http,
    Https,
}

/// The address at which a process on this machine reaches a service that listens on `bind`.
fn local_address(bind: &Bind) -> io::Result<SocketAddr> {
    let host = bind.host.as_deref().unwrap_or("127.0.0.1");
    let found = (host, bind.port).to_socket_addrs()?.min_by_key(SocketAddr::is_ipv6);
    let mut address = found.ok_or(io::ErrorKind::AddrNotAvailable)?;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Ok(address)
}

fn get_readiness(address: SocketAddr, scheme: Scheme) -> io::Result<Response> {
    let connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    let text = match scheme {
        Scheme::Http => exchange(connection)?,
        Scheme::Https => {
            let session = ClientConnection::new(unverified_tls(), address.ip().into()).map_err(io::Error::other)?;
            exchange(StreamOwned::new(session, connection))?
        }
    };
    Ok(Response::parse(&text))
}

fn exchange(mut connection: impl Read + Write) -> io::Result<String> {
    connection.write_all(REQUEST)?;
    let mut text = String::new();
    connection.take(RESPONSE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn unverified_tls() -> Arc<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider supports them")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Arc::new(config)
}

/// Accepts any certificate whose key the server has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[derive(Debug, PartialEq)]
struct Response {
    status: String,
    /// Empty if the body has no description.
    description: String,
}

impl Response {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        Self {
            status: head.split_whitespace().nth(1).unwrap_or("without a status").to_owned(),
            description: body["description"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.description.is_empty() { "" } else { ": " };
        write!(formatter, "{}{separator}{}", self.status, self.description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_listens_on_all_addresses_is_reached_on_loopback() {
        for (bind, address) in [
            ("0.0.0.0:8888", "127.0.0.1:8888"),
            ("[::]:8888", "[::1]:8888"),
            (":8888", "127.0.0.1:8888"),
            ("localhost:8888", "127.0.0.1:8888"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("192.0.2.7:8888", "192.0.2.7:8888"),
        ] {
            assert_eq!(local_address(&bind.parse().unwrap()).unwrap(), address.parse().unwrap());
        }
    }

    #[test]
    fn a_response_of_another_service_is_shown_as_far_as_it_can_be_parsed() {
        for (text, shown) in [
            ("HTTP/1.1 404 Not Found\r\n\r\nnot json", "404"),
            ("HTTP/1.0 503 x\r\n\r\n{\"description\": \"no store\"}", "503: no store"),
            ("", "without a status"),
        ] {
            assert_eq!(Response::parse(text).to_string(), shown);
        }
    }
}
