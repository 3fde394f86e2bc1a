//! The strategy `proxy`: a proxy authenticates the sender of a request and describes it in headers,
//! which are believed because of the connection that they came by.

use std::net::IpAddr;
use std::sync::Arc;

use crate::auth::ClientCertificate;
use sukkal_domain::network::Network;
use sukkal_domain::trusted_proxy::TrustedProxy;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The IP address. An IPv4 address in an IPv6 address is an IPv4 address.
    pub address: IpAddr,
    /// The certificate that the peer has identified itself with, if it has one.
    pub certificate: Option<ClientCertificate>,
}

/// The proxies whose headers are believed.
#[derive(Clone, Debug)]
pub struct TrustedProxies {
    networks: Vec<Network>,
    subjects: Vec<String>,
}

impl Peer {
    /// Returns the peer with this address and without a certificate.
    #[must_use]
    pub fn new(address: IpAddr) -> Self {
        // A socket for both IPv6 and IPv4 shows the latter as `::ffff:192.0.2.1`.
        Self { address: address.to_canonical(), certificate: None }
    }

    /// Returns the same peer with this certificate.
    #[must_use]
    pub fn with_certificate(self, certificate: Option<ClientCertificate>) -> Self {
        Self { certificate, ..self }
    }

    /// Returns the subject of the peer's certificate, if it has one that is not empty.
    #[must_use]
    pub fn subject(&self) -> Option<Arc<str>> {
        self.certificate.as_ref().map(|certificate| certificate.subject.clone()).filter(|subject| !subject.is_empty())
    }
}

impl TrustedProxies {
    /// Trusts these proxies.
    #[must_use]
    pub fn new(proxies: &[TrustedProxy]) -> Self {
        let (mut networks, mut subjects) = (Vec::new(), Vec::new());
        for proxy in proxies {
            match proxy {
                TrustedProxy::Network(network) => networks.push(*network),
                TrustedProxy::Certificate(subject) => subjects.push(subject.clone()),
            }
        }
        Self { networks, subjects }
    }

    /// Returns whether the peer is one of the proxies.
    #[must_use]
    pub fn trust(&self, peer: &Peer) -> bool {
        let has_subject = |subject: &str| self.subjects.iter().any(|trusted| trusted == subject);
        self.networks.iter().any(|network| network.contains(peer.address))
            || peer.subject().is_some_and(|subject| has_subject(&subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusting(proxies: &[&str]) -> TrustedProxies {
        TrustedProxies::new(&proxies.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn a_proxy_is_trusted_by_its_address() {
        let proxies = trusting(&["10.0.0.0/8", "127.0.0.1", "fd00::/8"]);
        let trusts = |address: &str| proxies.trust(&Peer::new(address.parse().unwrap()));

        for trusted in ["10.1.2.3", "127.0.0.1", "::ffff:10.1.2.3", "fd00::1"] {
            assert!(trusts(trusted), "{trusted}");
        }
        for other in ["127.0.0.2", "11.0.0.1", "::1", "::10.1.2.3", "fe80::1"] {
            assert!(!trusts(other), "{other}");
        }
        assert!(!trusting(&[]).trust(&Peer::new("127.0.0.1".parse().unwrap())));
    }

    #[test]
    fn a_proxy_is_trusted_by_the_whole_subject_of_its_certificate() {
        let proxies = trusting(&["certificate:CN=proxy,O=Acme"]);
        let trusts = |subject: Option<&str>| {
            let certificate = subject.map(|subject| ClientCertificate { subject: subject.into() });
            proxies.trust(&Peer::new("10.0.0.1".parse().unwrap()).with_certificate(certificate))
        };

        assert!(trusts(Some("CN=proxy,O=Acme")));
        for other in [None, Some(""), Some("CN=proxy"), Some("CN=Proxy,O=Acme"), Some("CN=proxy,O=Acme,C=US")] {
            assert!(!trusts(other), "{other:?}");
        }
    }
}
