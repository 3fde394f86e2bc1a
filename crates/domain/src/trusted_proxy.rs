//! The proxies whose identity headers are believed (`trusted_proxies` in `[auth]`).

use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

use super::network::Network;

/// The start of an entry that names a client certificate.
const CERTIFICATE: &str = "certificate:";

/// A proxy that authenticates callers.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub enum TrustedProxy {
    /// Every client in this network.
    Network(Network),
    /// Every client whose certificate has this subject, in the form of RFC 4514.
    Certificate(String),
}

/// The text names neither a network nor a certificate.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("it must be an IP address, a network such as 10.0.0.0/8, or certificate:SUBJECT")]
pub struct InvalidTrustedProxy;

impl TrustedProxy {
    /// Returns whether all addresses of a family are trusted.
    #[must_use]
    pub fn is_anybody(&self) -> bool {
        matches!(self, Self::Network(network) if network.is_everything())
    }
}

impl FromStr for TrustedProxy {
    type Err = InvalidTrustedProxy;

    /// Parses `ADDRESS/PREFIX`, `ADDRESS` or `certificate:SUBJECT`. A subject has at least one
    /// attribute, such as `CN=proxy`.
    fn from_str(text: &str) -> Result<Self, InvalidTrustedProxy> {
        match text.strip_prefix(CERTIFICATE) {
            Some(subject) if is_subject(subject) => Ok(Self::Certificate(subject.to_owned())),
            Some(_) => Err(InvalidTrustedProxy),
            None => text.parse().map(Self::Network).map_err(|_| InvalidTrustedProxy),
        }
    }
}

/// Returns whether a text begins like a subject. A subject without a value is never that of a
/// proxy.
fn is_subject(text: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    text.split_once('=').is_some_and(|(name, value)| is_name(name) && !value.is_empty())
}

impl TryFrom<String> for TrustedProxy {
    type Error = InvalidTrustedProxy;

    fn try_from(text: String) -> Result<Self, InvalidTrustedProxy> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_network_or_the_subject_of_a_certificate() {
        for (text, expected) in [
            ("10.0.0.7", TrustedProxy::Network("10.0.0.7".parse().unwrap())),
            ("fd00::/8", TrustedProxy::Network("fd00::/8".parse().unwrap())),
            (
                "certificate:CN=proxy-1,O=Acme\\, Inc.",
                TrustedProxy::Certificate("CN=proxy-1,O=Acme\\, Inc.".to_owned()),
            ),
        ] {
            assert_eq!(text.parse::<TrustedProxy>(), Ok(expected), "{text}");
        }
        for text in
            ["", "CN=proxy", "certificate:", "certificate:proxy", "certificate:CN=", "certificate: CN=proxy", "O=Acme"]
        {
            assert_eq!(text.parse::<TrustedProxy>(), Err(InvalidTrustedProxy), "{text}");
        }
    }
}
