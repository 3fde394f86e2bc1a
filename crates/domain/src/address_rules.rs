//! The addresses, ports and schemes that notifications may be sent to.
//!
//! Subscribers are named by clients, but this service connects to them. Without rules, a client
//! could reach services that only this machine or its network can reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

use super::network::Network;
use crate::options::{Rule, options};

/// Networks that are not on the public internet, each with a name. Only the kind of the first
/// network that includes an address is shown, so the more specific ones come first.
const SPECIAL_IPV4: [(Network, &str); 20] = [
    (Network::v4([169, 254, 169, 254], 32), "the address of a metadata service"),
    (Network::v4([100, 100, 100, 200], 32), "the address of a metadata service"),
    (Network::v4([168, 63, 129, 16], 32), "the address of a metadata service"),
    (Network::v4([255, 255, 255, 255], 32), "the broadcast address"),
    (Network::v4([0, 0, 0, 0], 32), "the unspecified address"),
    (Network::v4([0, 0, 0, 0], 8), "an address of the local network"),
    (Network::v4([10, 0, 0, 0], 8), PRIVATE),
    (Network::v4([100, 64, 0, 0], 10), "an address behind the NAT of a provider"),
    (Network::v4([127, 0, 0, 0], 8), LOOPBACK),
    (Network::v4([169, 254, 0, 0], 16), LINK_LOCAL),
    (Network::v4([172, 16, 0, 0], 12), PRIVATE),
    (Network::v4([192, 0, 0, 0], 24), RESERVED),
    (Network::v4([192, 0, 2, 0], 24), DOCUMENTATION),
    (Network::v4([192, 88, 99, 0], 24), RESERVED),
    (Network::v4([192, 168, 0, 0], 16), PRIVATE),
    (Network::v4([198, 18, 0, 0], 15), "an address for benchmarks"),
    (Network::v4([198, 51, 100, 0], 24), DOCUMENTATION),
    (Network::v4([203, 0, 113, 0], 24), DOCUMENTATION),
    (Network::v4([224, 0, 0, 0], 4), MULTICAST),
    (Network::v4([240, 0, 0, 0], 4), RESERVED),
];
const SPECIAL_IPV6: [(Network, &str); 13] = [
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "the unspecified address"),
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), LOOPBACK),
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "an IPv4-compatible address"),
    // A gateway may read the IPv4 address from different bytes here, so no address is judged by it.
    (Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "an address of a local NAT64 gateway"),
    (Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), "the address of a metadata service"),
    (Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "a unique-local address"),
    (Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), LINK_LOCAL),
    (Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), MULTICAST),
    (Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), "an address of a Teredo tunnel"),
    (Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), RESERVED),
    (Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), DOCUMENTATION),
    (Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "an address of a 6to4 tunnel"),
    (Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), DOCUMENTATION),
];
/// All public IPv6 addresses are in this network.
const PUBLIC_IPV6: Network = Network::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
/// Networks whose addresses stand for the IPv4 address in their last four bytes.
const EMBEDDED_IPV4: [Network; 2] =
    [Network::v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96)];

const LOOPBACK: &str = "a loopback address";
const PRIVATE: &str = "a private address";
const LINK_LOCAL: &str = "a link-local address";
const MULTICAST: &str = "a multicast address";
const DOCUMENTATION: &str = "an address for documentation";
const RESERVED: &str = "a reserved address";

const NETWORKS: Rule = Rule::list_of::<Network>(
    "a list of IP networks and addresses such as \"10.0.0.0/8\", without bits after the prefix",
);
const PORTS: Rule = Rule::list_of::<PortRange>("a list of ports from 1 to 65535 and ranges such as \"1024-65535\"");
const SCHEMES: Rule = Rule::List(|text| ["http", "https"].contains(&text), "a list of \"http\" and \"https\"");

options! {
    /// The addresses, ports and schemes that notifications may be sent to.
    #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
    pub struct AddressRules {
        /// Networks that subscribers may be in, besides the public internet. Loopback, private,
        /// link-local, unique-local, multicast and other special addresses are refused unless they
        /// are listed here. Every client of the API can then send requests to the listed networks.
        /// Accepted: a list of networks and addresses, such as ["10.0.0.0/8", "fd00::/8",
        /// "127.0.0.1"]. In the environment, they are separated by commas. The default is [].
        #[serde(rename = "allowed_networks")]
        networks: Vec<Network> = [] in NETWORKS,
        /// Ports of subscribers. Accepted: a list of ports and ranges of ports. In the environment,
        /// they are separated by commas. The default is ["80", "443", "1024-65535"].
        #[serde(rename = "allowed_ports")]
        ports: Vec<PortRange> = ["80", "443", "1024-65535"] in PORTS,
        /// Schemes of subscribers. Accepted: a list of "http" and "https". In the environment, they
        /// are separated by commas. The default is both.
        #[serde(rename = "allowed_schemes")]
        schemes: Vec<String> = ["http", "https"] in SCHEMES;
    }
}

/// A range of ports: one port, or the first and the last one with a hyphen.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct PortRange(RangeInclusive<u16>);

/// The text is not a port or a range of ports.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("it must be a port from 1 to 65535, or two ports such as 1024-65535")]
pub struct InvalidPortRange;

/// Why notifications may not be sent to an address.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "{address} is {kind}; the operator can allow it by \"{}\", or a network that includes it, in allowed_networks of [push]",
    Network::of(*.judged)
)]
pub struct Refusal {
    address: IpAddr,
    /// The address itself, or the IPv4 address that it stands for.
    judged: IpAddr,
    kind: &'static str,
}

/// A host whose name resolves to no allowed address. Clients do not learn to which address, because
/// they could read internal names so; the log has it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the host {0:?} resolves to an address that is not allowed; the log of the service names it, and the operator can \
     allow it in allowed_networks of [push]"
)]
pub struct RefusedName(pub String);

impl AddressRules {
    /// Creates rules that allow all public addresses and these networks, and only these ports and
    /// schemes.
    #[must_use]
    pub fn new(networks: Vec<Network>, ports: Vec<PortRange>, schemes: Vec<String>) -> Self {
        Self { networks, ports, schemes }
    }

    /// Returns rules that also allow this scheme, which is in lower case.
    #[must_use]
    pub fn with_scheme(mut self, scheme: &str) -> Self {
        self.schemes.push(scheme.to_owned());
        self
    }

    /// Succeeds if notifications may be sent to this address.
    pub fn permits(&self, address: IpAddr) -> Result<(), Refusal> {
        let is_listed = |address: IpAddr| self.networks.iter().any(|network| network.contains(address));
        let judged = judged_address(address);
        match kind(judged) {
            Some(kind) if !is_listed(address) && !is_listed(judged) => Err(Refusal { address, judged, kind }),
            _ => Ok(()),
        }
    }

    /// Returns whether notifications may be sent to this port.
    #[must_use]
    pub fn port_is_allowed(&self, port: u16) -> bool {
        self.ports.iter().any(|range| range.0.contains(&port))
    }

    /// Returns whether notifications may be sent with this scheme, which is in lower case.
    #[must_use]
    pub fn scheme_is_allowed(&self, scheme: &str) -> bool {
        self.schemes.iter().any(|allowed| allowed == scheme)
    }

    /// Returns the allowed ports.
    #[must_use]
    pub fn ports(&self) -> &[PortRange] {
        &self.ports
    }

    /// Returns the allowed schemes.
    #[must_use]
    pub fn schemes(&self) -> &[String] {
        &self.schemes
    }
}

/// Returns the IPv4 address that an IPv6 address stands for, and any other address unchanged.
fn judged_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if EMBEDDED_IPV4.iter().any(|network| network.contains(address)) => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        address => address,
    }
}

/// Returns what an address is if it is not on the public internet.
fn kind(address: IpAddr) -> Option<&'static str> {
    let special: &[(Network, &str)] = if address.is_ipv4() { &SPECIAL_IPV4 } else { &SPECIAL_IPV6 };
    let kind = special.iter().find(|(network, _)| network.contains(address)).map(|(_, kind)| *kind);
    kind.or_else(|| (address.is_ipv6() && !PUBLIC_IPV6.contains(address)).then_some(RESERVED))
}

impl FromStr for PortRange {
    type Err = InvalidPortRange;

    fn from_str(text: &str) -> Result<Self, InvalidPortRange> {
        let port = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u16>().ok().filter(|port| is_number && *port > 0).ok_or(InvalidPortRange)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = port(first.trim())?..=port(last.trim())?;
        if range.is_empty() { Err(InvalidPortRange) } else { Ok(Self(range)) }
    }
}

impl TryFrom<String> for PortRange {
    type Error = InvalidPortRange;

    fn try_from(text: String) -> Result<Self, InvalidPortRange> {
        text.parse()
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.start(), self.0.end());
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::{Host, Url};

    use super::*;

    fn rules(networks: &[&str]) -> AddressRules {
        let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        let ports = ["80", "443", "1024-65535"].map(|range| range.parse().unwrap()).to_vec();
        AddressRules::new(networks, ports, vec!["https".to_owned()])
    }

    fn refusal(address: &str) -> Option<String> {
        rules(&[]).permits(address.parse().unwrap()).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn public_addresses_are_permitted() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001:82a::200e",
            "2001:200::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
        ] {
            assert_eq!(refusal(address), None, "{address}");
        }
    }

    #[test]
    fn addresses_that_are_not_public_are_refused() {
        for (address, kind) in [
            ("127.0.0.1", LOOPBACK),
            ("127.255.255.255", LOOPBACK),
            ("0.0.0.0", "the unspecified address"),
            ("0.0.0.1", "an address of the local network"),
            ("10.0.0.1", PRIVATE),
            ("172.16.0.1", PRIVATE),
            ("172.31.255.255", PRIVATE),
            ("192.168.1.1", PRIVATE),
            ("100.64.0.1", "an address behind the NAT of a provider"),
            ("169.254.1.1", LINK_LOCAL),
            ("169.254.169.254", "the address of a metadata service"),
            ("192.0.0.8", RESERVED),
            ("192.0.2.1", DOCUMENTATION),
            ("198.51.100.1", DOCUMENTATION),
            ("203.0.113.1", DOCUMENTATION),
            ("198.19.255.255", "an address for benchmarks"),
            ("224.0.0.1", MULTICAST),
            ("239.255.255.255", MULTICAST),
            ("240.0.0.1", RESERVED),
            ("255.255.255.255", "the broadcast address"),
            ("::", "the unspecified address"),
            ("::1", LOOPBACK),
            ("::7f00:1", "an IPv4-compatible address"),
            ("::1.1.1.1", "an IPv4-compatible address"),
            ("::ffff:127.0.0.1", LOOPBACK),
            ("::ffff:a00:1", PRIVATE),
            ("::ffff:0:7f00:1", RESERVED),
            ("64:ff9b::127.0.0.1", LOOPBACK),
            ("64:ff9b::169.254.169.254", "the address of a metadata service"),
            ("64:ff9b:1::1.1.1.1", "an address of a local NAT64 gateway"),
            ("64:ff9b:1:7f00:0:100::", "an address of a local NAT64 gateway"),
            ("100::1", RESERVED),
            ("2001::7f00:1", "an address of a Teredo tunnel"),
            ("2001:2::1", RESERVED),
            ("2001:db8::1", DOCUMENTATION),
            ("2002:7f00:1::1", "an address of a 6to4 tunnel"),
            ("3fff::1", DOCUMENTATION),
            ("4000::1", RESERVED),
            ("fc00::1", "a unique-local address"),
            ("fd00:ec2::254", "the address of a metadata service"),
            ("fe80::1", LINK_LOCAL),
            ("fec0::1", RESERVED),
            ("ff02::1", MULTICAST),
        ] {
            let text = refusal(address).unwrap_or_else(|| panic!("{address} is permitted"));
            assert!(text.contains(&format!(" is {kind}; ")), "{address}: {text}");
        }
    }

    #[test]
    fn a_refusal_names_the_network_that_would_allow_the_address() {
        for (address, network) in [
            ("127.0.0.1", "127.0.0.1/32"),
            ("::1", "::1/128"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
            ("64:ff9b::10.1.2.3", "10.1.2.3/32"),
            ("fd00::1", "fd00::1/128"),
        ] {
            let text = refusal(address).unwrap();

            assert!(text.contains(&format!("{network:?}")), "{text}");
            assert_eq!(rules(&[network]).permits(address.parse().unwrap()), Ok(()), "{address}");
        }
    }

    #[test]
    fn a_listed_network_allows_only_its_own_addresses() {
        let rules = rules(&["10.0.0.0/8", "fd00::/8", "::ffff:127.0.0.2/128"]);
        let is_permitted = |address: &str| rules.permits(address.parse().unwrap()).is_ok();

        for address in ["10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "fd12::1", "::ffff:127.0.0.2"] {
            assert!(is_permitted(address), "{address}");
        }
        for address in ["127.0.0.2", "192.168.0.1", "2002:a00:1::1", "::10.0.0.1", "fc00::1", "::1"] {
            assert!(!is_permitted(address), "{address}");
        }
    }

    #[test]
    fn every_spelling_of_an_ipv4_address_is_judged() {
        for host in
            ["2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "0x7f.1", "127.1", "127.0.1", "%31%32%37.1"]
        {
            let url: Url = format!("http://{host}/").parse().unwrap();
            let Some(Host::Ipv4(address)) = url.host() else { panic!("{host} is {url}") };

            assert!(rules(&[]).permits(address.into()).is_err(), "{host} is {address}");
        }
    }

    #[test]
    fn only_listed_ports_and_schemes_are_allowed() {
        let rules = rules(&[]);
        let ports = [80, 443, 1024, 65535].map(|port| rules.port_is_allowed(port));
        let others = [0, 22, 25, 81, 1023].map(|port| rules.port_is_allowed(port));

        assert_eq!((ports, others), ([true; 4], [false; 5]));
        assert!(rules.scheme_is_allowed("https") && !rules.scheme_is_allowed("http"));
        assert_eq!(rules.ports()[2].to_string(), "1024-65535");
        for text in ["", "0", "65536", "1-", "2-1", "http", "+80", "1-2-3"] {
            assert_eq!(text.parse::<PortRange>(), Err(InvalidPortRange), "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_ipv4_address_is_judged_alike_in_every_form(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            let is_permitted = |address: IpAddr| rules(&["10.0.0.0/9"]).permits(address).is_ok();
            let nat64 = format!("64:ff9b::{address}").parse().unwrap();
            let compatible = format!("::{address}").parse().unwrap();

            prop_assert_eq!(is_permitted(address.to_ipv6_mapped().into()), is_permitted(address.into()));
            prop_assert_eq!(is_permitted(nat64), is_permitted(address.into()));
            prop_assert!(!is_permitted(compatible));
        }
    }
}
