//! IP networks in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

/// A network of IPv4 or IPv6 addresses, or a single address.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Network {
    address: IpAddr,
    /// Number of leading bits that all addresses of the network have in common.
    prefix: u8,
}

/// The text is not a network.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("it must be an IP address or a network such as 10.0.0.0/8 or fd00::/8, without bits after the prefix")]
pub struct InvalidNetwork;

impl Network {
    /// Returns a network of IPv4 addresses.
    #[must_use]
    pub const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    /// Returns a network of IPv6 addresses.
    #[must_use]
    pub const fn v6(segments: [u16; 8], prefix: u8) -> Self {
        let [first, second, third, fourth, fifth, sixth, seventh, eighth] = segments;
        let address = Ipv6Addr::new(first, second, third, fourth, fifth, sixth, seventh, eighth);
        Self { address: IpAddr::V6(address), prefix }
    }

    /// Returns the network that includes only this address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self { address, prefix: bits(address).1 }
    }

    /// Returns whether the network includes this address. The IPv4 address in an IPv6 address does
    /// not count.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((own, length), (other, other_length)) = (bits(self.address), bits(address));
        length == other_length && first_bits(own ^ other, self.prefix, length) == 0
    }
}

/// Returns the bits of an address, and their number.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (v4.to_bits().into(), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

/// Returns the first bits of a number with `length` bits.
fn first_bits(number: u128, count: u8, length: u8) -> u128 {
    number.checked_shr((length - count).into()).unwrap_or(0)
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    /// Parses `ADDRESS/PREFIX` or `ADDRESS`.
    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let network = Self::of(address.parse().map_err(|_| InvalidNetwork)?);
        let Some(prefix) = prefix else { return Ok(network) };
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|prefix| is_number && *prefix <= network.prefix);
        let network = Self { prefix: prefix.ok_or(InvalidNetwork)?, ..network };
        let (bits, length) = bits(network.address);
        // Bits after the prefix have no effect, so the text probably has a mistake.
        let kept = first_bits(bits, network.prefix, length).checked_shl((length - network.prefix).into());
        if kept.unwrap_or(0) == bits { Ok(network) } else { Err(InvalidNetwork) }
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
        write!(f, "{}/{}", self.address, self.prefix)
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
