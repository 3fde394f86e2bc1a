//! The address of a listener: `HOST:PORT`, `:PORT` or `PORT`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::options::Rule;

/// The host of an address that consists of a port only.
const DEFAULT_HOST: &str = "127.0.0.1";
pub(super) const ADDRESS: Rule =
    Rule::Text(|text| text.parse::<Bind>().is_ok(), "HOST:PORT, :PORT or PORT, with a port from 0 to 65535");
pub(super) const OPTIONAL_ADDRESS: Rule = Rule::Text(
    |text| text.is_empty() || text.parse::<Bind>().is_ok(),
    "HOST:PORT, :PORT or PORT, with a port from 0 to 65535, or empty",
);

/// An address to listen on. The host may be a name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Bind {
    /// A name or an IP address; `None` for all addresses of the machine.
    pub host: Option<String>,
    /// The port; 0 for any free port.
    pub port: u16,
}

/// The text is not an address to listen on.
#[derive(Debug, Error)]
#[error("it must be HOST:PORT, :PORT or PORT")]
pub struct InvalidBind;

impl FromStr for Bind {
    type Err = InvalidBind;

    fn from_str(text: &str) -> Result<Self, InvalidBind> {
        let (host, port) = match text.rsplit_once(':') {
            Some(("", port)) => (None, port),
            Some((host, port)) => (Some(host_of(host).ok_or(InvalidBind)?), port),
            None => (Some(DEFAULT_HOST), text),
        };
        // `parse` alone would accept a sign.
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number).ok_or(InvalidBind)?;
        Ok(Self { host: host.map(str::to_owned), port })
    }
}

/// Reads an address; `None` for an empty text.
pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bind>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(serde::de::Error::custom) }
}

/// Returns the host without the brackets of an IPv6 address, or `None` if it is not a host.
fn host_of(text: &str) -> Option<&str> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok().then_some(address),
        None => text.chars().all(is_legal).then_some(text),
    }
}

impl TryFrom<String> for Bind {
    type Error = InvalidBind;

    fn try_from(text: String) -> Result<Self, InvalidBind> {
        text.parse()
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_deref() {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            host => write!(f, "{}:{}", host.unwrap_or_default(), self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_a_port_or_only_a_port() {
        for (text, shown, host) in [
            ("127.0.0.1:8888", "127.0.0.1:8888", Some("127.0.0.1")),
            ("localhost:0", "localhost:0", Some("localhost")),
            ("[::1]:8888", "[::1]:8888", Some("::1")),
            ("8888", "127.0.0.1:8888", Some("127.0.0.1")),
            (":8888", ":8888", None),
        ] {
            let bind: Bind = text.parse().unwrap();

            assert_eq!((bind.to_string().as_str(), bind.host.as_deref()), (shown, host), "{text}");
        }
    }

    #[test]
    fn any_other_text_is_rejected() {
        for text in [
            "",
            ":",
            "nowhere",
            "127.0.0.1",
            "::1",
            "::1:8888",
            "[::1]",
            "[x]:1",
            "h:65536",
            "h:+1",
            "-1",
            "http://h:1",
        ] {
            assert!(text.parse::<Bind>().is_err(), "{text}");
        }
    }
}
