//! IP networks in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;
use thiserror::Error;

/// A network of IPv4 or IPv6 addresses, or a single address.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

/// The text is not a network.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("it must be an IP address or a network such as 10.0.0.0/8 or fd00::/8, without bits after the prefix")]
pub struct InvalidNetwork;

impl Network {
    /// Returns a network of IPv4 addresses.
    #[must_use]
    pub const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Self {
        Self(IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)))
    }

    /// Returns a network of IPv6 addresses.
    #[must_use]
    pub const fn v6(segments: [u16; 8], prefix: u8) -> Self {
        let [first, second, third, fourth, fifth, sixth, seventh, eighth] = segments;
        let address = Ipv6Addr::new(first, second, third, fourth, fifth, sixth, seventh, eighth);
        Self(IpNet::V6(Ipv6Net::new_assert(address, prefix)))
    }

    /// Returns the network that includes only this address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self(address.into())
    }

    /// Returns whether the network includes this address. The IPv4 address in an IPv6 address does
    /// not count.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl Network {
    /// Returns whether the network includes all addresses of its family.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.prefix_len() == 0
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    /// Parses `ADDRESS/PREFIX` or `ADDRESS`.
    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        // A client with an IPv4 address has that address, also on a listener for IPv6.
        let address =
            || text.parse().map(|address: IpAddr| Self::of(address.to_canonical())).map_err(|_| InvalidNetwork);
        let network = text.parse().map(Self).or_else(|_| address())?;
        // Bits after the prefix have no effect, so the text probably has a mistake.
        if network.0 == network.0.trunc() { Ok(network) } else { Err(InvalidNetwork) }
    }
}

impl TryFrom<String> for Network {
    type Error = InvalidNetwork;

    fn try_from(text: String) -> Result<Self, InvalidNetwork> {
        text.parse()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_with_a_prefix() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("127.0.0.1", "127.0.0.1/32"),
            ("fd00::/8", "fd00::/8"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.1/8",
            "10/8",
            "::1/127",
            "::/129",
            "localhost",
            "0x7f000001",
        ] {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork), "{text}");
        }
    }

    #[test]
    fn a_network_includes_the_addresses_with_its_prefix() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("::/0", "ffff::", "0.0.0.0"),
            ("fe80::/10", "febf:ffff::1", "fec0::"),
            ("::ffff:0:0/96", "::ffff:1.2.3.4", "1.2.3.4"),
        ] {
            let network: Network = network.parse().unwrap();

            assert!(network.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network} {outside}");
        }
    }
}
