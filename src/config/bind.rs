//! The address of a listener: `HOST:PORT`, `:PORT` or `PORT`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use sukkal_domain::HostAndPort;
use sukkal_domain::host_and_port::{host_of, port_of};
use sukkal_domain::options::Rule;

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
            None => (Some(DEFAULT_HOST.to_owned()), text),
        };
        Ok(Self { host, port: port_of(port).ok_or(InvalidBind)? })
    }
}

/// Reads an address; `None` for an empty text.
pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bind>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(serde::de::Error::custom) }
}

impl TryFrom<String> for Bind {
    type Error = InvalidBind;

    fn try_from(text: String) -> Result<Self, InvalidBind> {
        text.parse()
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (self.host.clone().unwrap_or_default(), self.port);
        HostAndPort { host, port }.fmt(f)
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
