//! Mail addresses, and patterns that match them.

use std::str::FromStr;

use lettre::Address;
use serde::Deserialize;
use thiserror::Error;

use super::dns_name::is_dns_name;

/// Maximum length of an address and of the name before its `@`, in bytes (RFC 5321, section
/// 4.5.3.1).
const ADDRESS_BYTES_MAX: usize = 254;
const NAME_BYTES_MAX: usize = 64;

/// The beginning of an encoded word (RFC 2047). Mail programs decode it in headers, so a text with
/// it may be shown as any other text, also with line breaks.
pub(super) const ENCODED_WORD: &str = "=?";

/// Parses a mail address. Only the common form is accepted: ASCII, without quotes and slashes, at a
/// DNS name. All mail servers can deliver to it, and its text has no meaning in a header or a
/// command.
#[must_use]
pub fn parse_address(text: &str) -> Option<Address> {
    let (name, domain) = text.split_once('@')?;
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-=?^_`{|}~".contains(&byte);
    let is_atom = |atom: &str| !atom.is_empty() && atom.bytes().all(is_in_name);
    let last_label = domain.rsplit('.').next().unwrap_or_default();
    let is_accepted = text.len() <= ADDRESS_BYTES_MAX
        && name.len() <= NAME_BYTES_MAX
        && name.split('.').all(is_atom)
        && !name.contains(ENCODED_WORD)
        && is_dns_name(domain)
        && !domain.contains('_')
        // An IPv4 address is no name.
        && !last_label.bytes().all(|byte| byte.is_ascii_digit());
    if is_accepted { text.parse().ok() } else { None }
}

/// Matches mail addresses, without regard to case.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub enum AddressPattern {
    /// `*`: all addresses.
    All,
    /// `@DOMAIN`: the addresses at this domain, which is in lower case.
    Domain(String),
    /// One address, in lower case.
    Address(String),
}

/// The text is not a pattern.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("it must be a mail address, \"@\" and a domain, or \"*\"")]
pub struct InvalidAddressPattern;

impl AddressPattern {
    /// Returns whether the pattern matches an address.
    #[must_use]
    pub fn matches(&self, address: &Address) -> bool {
        match self {
            Self::All => true,
            Self::Domain(domain) => address.domain().eq_ignore_ascii_case(domain),
            Self::Address(one) => AsRef::<str>::as_ref(address).eq_ignore_ascii_case(one),
        }
    }
}

impl FromStr for AddressPattern {
    type Err = InvalidAddressPattern;

    fn from_str(text: &str) -> Result<Self, InvalidAddressPattern> {
        let lower = text.to_ascii_lowercase();
        if text == "*" {
            return Ok(Self::All);
        }
        // It would match no address, and is no pattern.
        if text.contains('*') {
            return Err(InvalidAddressPattern);
        }
        match lower.strip_prefix('@') {
            // The name does not matter here.
            Some(domain) => parse_address(&format!("name@{domain}"))
                .map(|_| Self::Domain(domain.to_owned()))
                .ok_or(InvalidAddressPattern),
            None => parse_address(&lower).map(|_| Self::Address(lower)).ok_or(InvalidAddressPattern),
        }
    }
}

impl TryFrom<String> for AddressPattern {
    type Error = InvalidAddressPattern;

    fn try_from(text: String) -> Result<Self, InvalidAddressPattern> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_name_and_a_domain_in_ascii() {
        let longest = format!("{}@{}.example", "n".repeat(64), "d".repeat(63));
        for text in
            ["a@example.com", "A.b+c=d@mail.example.com", "o'neil@xn--bcher-kva.example", "a@localhost", &longest]
        {
            assert_eq!(parse_address(text).map(|address| address.to_string()).as_deref(), Some(text));
        }
        let too_long = format!("{}@example.com", "n".repeat(65));
        for text in [
            "",
            "@",
            "a",
            "a@",
            "@example.com",
            "a@b@example.com",
            ".a@example.com",
            "a.@example.com",
            "a..b@example.com",
            "\"a b\"@example.com",
            "a b@example.com",
            "a,b@example.com",
            "a@example.com,b@example.com",
            "<a@example.com>",
            "a@[127.0.0.1]",
            "a@127.0.0.1",
            "a@[IPv6:::1]",
            "a@under_score.example",
            "a@-",
            "a@example..com",
            "é@example.com",
            "a@bücher.example",
            "a@example.com\r\n",
            "a\r\nBcc:x@example.com",
            "a\0@example.com",
            "a\n@example.com",
            "=?utf-8?q?boss=40bank.example?=@example.com",
            &too_long,
        ] {
            assert_eq!(parse_address(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_pattern_matches_an_address_a_domain_or_everything() {
        let address = |text: &str| parse_address(text).unwrap();
        for (pattern, matching, other) in [
            ("Ops@Example.com", "ops@EXAMPLE.com", "dev@example.com"),
            ("@example.com", "anybody@Example.COM", "a@mail.example.com"),
        ] {
            let pattern: AddressPattern = pattern.parse().unwrap();
            assert!(pattern.matches(&address(matching)) && !pattern.matches(&address(other)), "{pattern:?}");
        }
        assert!("*".parse::<AddressPattern>().unwrap().matches(&address("a@b.example")));
        for text in ["", "@", "example.com", "*@example.com", "@*.example.com", "a b@example.com"] {
            assert_eq!(text.parse::<AddressPattern>(), Err(InvalidAddressPattern), "{text:?}");
        }
    }
}
