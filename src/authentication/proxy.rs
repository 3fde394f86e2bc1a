//! The strategy `proxy`: a proxy authenticates the sender of a request and describes it in headers,
//! which are believed because of the connection that they came by.

use std::net::IpAddr;

use crate::domain::network::Network;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The IP address. An IPv4 address in an IPv6 address is an IPv4 address.
    pub address: IpAddr,
}

/// The proxies whose headers are believed.
#[derive(Clone, Debug)]
pub struct TrustedProxies {
    networks: Vec<Network>,
}

impl Peer {
    /// Returns the peer with this address.
    #[must_use]
    pub fn new(address: IpAddr) -> Self {
        // A socket for both IPv6 and IPv4 shows the latter as `::ffff:192.0.2.1`.
        Self { address: address.to_canonical() }
    }
}

impl TrustedProxies {
    /// Trusts the proxies in these networks.
    #[must_use]
    pub fn new(networks: Vec<Network>) -> Self {
        Self { networks }
    }

    /// Returns whether the peer is one of the proxies.
    #[must_use]
    pub fn trust(&self, peer: &Peer) -> bool {
        self.networks.iter().any(|network| network.contains(peer.address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_trusted_by_its_address() {
        let proxies =
            TrustedProxies::new(["10.0.0.0/8", "127.0.0.1", "fd00::/8"].map(|net| net.parse().unwrap()).into());
        let trusts = |address: &str| proxies.trust(&Peer::new(address.parse().unwrap()));

        for trusted in ["10.1.2.3", "127.0.0.1", "::ffff:10.1.2.3", "fd00::1"] {
            assert!(trusts(trusted), "{trusted}");
        }
        for other in ["127.0.0.2", "11.0.0.1", "::1", "::10.1.2.3", "fe80::1"] {
            assert!(!trusts(other), "{other}");
        }
        assert!(!TrustedProxies::new(Vec::new()).trust(&Peer::new("127.0.0.1".parse().unwrap())));
    }
}
