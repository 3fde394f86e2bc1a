//! A host with a port, as options and URIs name them: `NAME:PORT`, `1.2.3.4:PORT` or `[::1]:PORT`.

use std::fmt;
use std::net::Ipv6Addr;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostAndPort {
    /// A name or an IP address, which has no brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostAndPort {
    /// Parses a host that may be followed by a port. Without a port, it is the default. Returns
    /// `None` if the text is something else, such as an IPv6 address without brackets.
    #[must_use]
    pub fn parse(text: &str, default_port: u16) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port_of(port)?),
            _ => (text, default_port),
        };
        Some(Self { host: host_of(host)?, port })
    }

    /// Parses a list of them, which are separated by commas.
    #[must_use]
    pub fn parse_list(text: &str, default_port: u16) -> Option<Vec<Self>> {
        text.split(',').map(|one| Self::parse(one, default_port)).collect()
    }
}

/// Returns the host without the brackets of an IPv6 address, or `None` if it is not a host.
#[must_use]
pub fn host_of(text: &str) -> Option<String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match text.strip_prefix('[') {
        Some(rest) => Some(rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.to_string()),
        None => (!text.is_empty() && text.chars().all(is_legal)).then(|| text.to_owned()),
    }
}

/// Returns the port, which is a number without a sign.
#[must_use]
pub fn port_of(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl fmt::Display for HostAndPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for (text, shown) in [
            ("h", "h:1"),
            ("h:06379", "h:6379"),
            ("a-b_c.example:2", "a-b_c.example:2"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]", "[::1]:1"),
            ("[::1]:65535", "[::1]:65535"),
            ("[FE80:0::1]:2", "[fe80::1]:2"),
            ("[::ffff:1.2.3.4]:2", "[::ffff:1.2.3.4]:2"),
        ] {
            assert_eq!(HostAndPort::parse(text, 1).map(|found| found.to_string()).as_deref(), Some(shown), "{text}");
        }
        for text in
            ["", ":1", "h:", "h:+1", "h:65536", "::1", "::1:2", "[::1", "::1]", "[h]", "[]:1", "[::1]2", "a/b", "a@b"]
        {
            assert_eq!(HostAndPort::parse(text, 1), None, "{text}");
        }
        assert_eq!(HostAndPort::parse_list("[::1],h:2,[::2]:3", 1).unwrap().len(), 3);
        assert_eq!(HostAndPort::parse_list("h,,h", 1), None);
    }
}
