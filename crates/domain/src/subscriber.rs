//! Subscribers: the URIs that receive notifications.

use std::fmt;
use std::net::IpAddr;

use thiserror::Error;
use url::{Host, Url};

use super::AddressRules;
use super::address_rules::{Refusal, RefusedName};
use super::dns_name::is_dns_name;
use super::mailto::{InvalidMailTo, MAILTO, MailTo};

/// Maximum length of a URI, in bytes.
const URI_BYTES_MAX: usize = 2_048;
/// The start of the schemes `trust+http` and `trust+https`, which are known from Zaqar: the request
/// to the subscriber has a token of the user who has created the subscription.
const TRUST: &str = "trust+";

/// The URI of a subscriber. It follows the rules for schemes and ports, and for addresses if it has
/// an address and not a name.
#[derive(Clone, PartialEq, Eq)]
pub struct Subscriber {
    text: String,
    receiver: Receiver,
}

/// What receives the notifications of a subscriber.
#[derive(Clone, PartialEq, Eq)]
enum Receiver {
    /// The URL that is called.
    Url(Url),
    /// Mail addresses.
    Mail(MailTo),
}

/// Reasons for which a URI is refused. The errors do not show the URI, which may contain secrets.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidSubscriber {
    /// The URI is too long.
    #[error("subscriber has {0} bytes; at most {URI_BYTES_MAX} are allowed")]
    Length(usize),
    /// The scheme is not allowed.
    #[error(
        "subscriber has {}; the subscriber type must be supported in the list {allowed:?}{}",
        .scheme.as_ref().map_or_else(|| "no scheme".to_owned(), |scheme| format!("the scheme {scheme:?}")),
        if .scheme.as_deref() == Some(MAILTO) { "; for mailto, the operator of the service must set up [mail]" } else { "" }
    )]
    Scheme {
        /// The scheme, if the text has one.
        scheme: Option<String>,
        /// The schemes that are allowed.
        allowed: Vec<String>,
    },
    /// The scheme needs Keystone.
    #[error(
        "subscriber has a scheme with trust+, which only a request with a token of Keystone can use; use http or https"
    )]
    Keystone,
    /// The `mailto` URI is not accepted.
    #[error(transparent)]
    MailTo(#[from] InvalidMailTo),
    /// The text is not a URI.
    #[error("subscriber is not a URI: {0}")]
    Syntax(&'static str),
    /// The URI contains a user or a password.
    #[error("subscriber contains a user or a password; send them in a header with the option post_headers")]
    Credentials,
    /// The port is not allowed.
    #[error(
        "subscriber has the port {port}; the ports {allowed} are allowed, and the operator can allow others by allowed_ports of [push]"
    )]
    Port {
        /// The port.
        port: u16,
        /// The ports that are allowed.
        allowed: String,
    },
    /// The name resolves to an address that is not allowed.
    #[error("subscriber is not allowed: {0}")]
    Name(RefusedName),
    /// The address is not allowed.
    #[error("subscriber is not allowed: {0}")]
    Address(Refusal),
}

impl Subscriber {
    /// Parses a URI under these rules. A name in it is not resolved.
    pub fn parse(text: &str, rules: &AddressRules) -> Result<Self, InvalidSubscriber> {
        if text.len() > URI_BYTES_MAX {
            return Err(InvalidSubscriber::Length(text.len()));
        }
        check_scheme(text, rules)?;
        // The parser would ignore them, so the text would not be the URI that is notified.
        if text.contains(|character: char| character.is_control() || character.is_whitespace()) {
            return Err(InvalidSubscriber::Syntax("it contains a space or a control character"));
        }
        if let Some(addresses) = MailTo::of_uri(text) {
            let receiver = Receiver::Mail(MailTo::parse(addresses)?);
            return Ok(Self { text: text.to_owned(), receiver });
        }
        let called = if Self::is_text_for_trust(text) { &text[TRUST.len()..] } else { text };
        let url = Url::parse(called).map_err(|error| InvalidSubscriber::Syntax(reason(error)))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidSubscriber::Credentials);
        }
        if !url.domain().is_none_or(is_dns_name) {
            return Err(InvalidSubscriber::Syntax("its host is not a DNS name or an IP address"));
        }
        let port = port_of(&url);
        if !rules.port_is_allowed(port) {
            let allowed = rules.ports().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(InvalidSubscriber::Port { port, allowed });
        }
        address_of(&url).map_or(Ok(()), |address| rules.permits(address)).map_err(InvalidSubscriber::Address)?;
        Ok(Self { text: text.to_owned(), receiver: Receiver::Url(url) })
    }

    /// Returns the URI as its owner has written it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether requests to the subscriber need a trust.
    #[must_use]
    pub fn needs_trust(&self) -> bool {
        Self::is_text_for_trust(&self.text)
    }

    /// Returns whether a URI has a scheme that needs a trust.
    #[must_use]
    pub fn is_text_for_trust(text: &str) -> bool {
        text.get(..TRUST.len()).is_some_and(|start| start.eq_ignore_ascii_case(TRUST))
    }

    /// Returns the URL that is called, if one is.
    #[must_use]
    pub fn url(&self) -> Option<&Url> {
        match &self.receiver {
            Receiver::Url(url) => Some(url),
            Receiver::Mail(_) => None,
        }
    }

    /// Returns the addresses that mails are sent to, if they are.
    #[must_use]
    pub fn mail(&self) -> Option<&MailTo> {
        match &self.receiver {
            Receiver::Url(_) => None,
            Receiver::Mail(mailto) => Some(mailto),
        }
    }

    /// Returns the name of the host that is called, unless the URI has an address.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.url()?.domain()
    }

    /// Returns the port that is called, which may be that of the scheme.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.url().map(port_of).unwrap_or_default()
    }
}

fn port_of(url: &Url) -> u16 {
    url.port_or_known_default().unwrap_or_default()
}

/// Returns the address of the host, unless the URL has a name.
fn address_of(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

fn check_scheme(text: &str, rules: &AddressRules) -> Result<(), InvalidSubscriber> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).filter(|text| is_scheme(text));
    let is_allowed = |scheme: &str| match scheme.strip_prefix(TRUST) {
        Some(bare) => bare != MAILTO && rules.scheme_is_allowed(bare),
        None => rules.scheme_is_allowed(scheme),
    };
    match scheme {
        Some(scheme) if is_allowed(&scheme) => Ok(()),
        scheme => Err(InvalidSubscriber::Scheme { scheme, allowed: rules.schemes().to_vec() }),
    }
}

fn reason(error: url::ParseError) -> &'static str {
    match error {
        url::ParseError::EmptyHost => "it has no host",
        url::ParseError::InvalidPort => "its port is invalid",
        url::ParseError::InvalidIpv4Address => "its IPv4 address is invalid",
        url::ParseError::InvalidIpv6Address => "its IPv6 address is invalid",
        _ => "its host is invalid",
    }
}

/// Shows the URI without its path and query, which may contain secrets.
impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.receiver {
            Receiver::Url(url) => write!(f, "Subscriber({})", url.origin().ascii_serialization()),
            Receiver::Mail(_) => f.write_str("Subscriber(mailto)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> AddressRules {
        let ports = ["80", "443", "1024-65535"].map(|range| range.parse().unwrap()).to_vec();
        AddressRules::new(Vec::new(), ports, ["http", "https"].map(str::to_owned).to_vec())
    }

    fn error_of(text: &str) -> String {
        Subscriber::parse(text, &rules()).map_or_else(|error| error.to_string(), |_| panic!("{text} is accepted"))
    }

    /// Row 8.3-4.
    #[test]
    fn a_subscriber_is_a_uri_with_a_host() {
        for (text, name, port) in [
            ("http://triger.me", "triger.me", 80),
            ("HTTPS://Hooks.example.com/a?b=%20#c", "hooks.example.com", 443),
            ("http://hooks.example.com:8080", "hooks.example.com", 8080),
            ("http://under_score.example./", "under_score.example.", 80),
            ("https://bücher.example/", "xn--bcher-kva.example", 443),
        ] {
            let subscriber = Subscriber::parse(text, &rules()).unwrap();

            assert_eq!((subscriber.name(), subscriber.port(), subscriber.as_str()), (Some(name), port, text));
        }
        let literal = Subscriber::parse("http://[2606:4700::1]:8080/secret", &rules()).unwrap();
        assert_eq!(literal.url().and_then(address_of), Some("2606:4700::1".parse().unwrap()));
        assert!(!format!("{literal:?}").contains("secret"));
    }

    /// Rows 8.3-4, 8.7-1.
    #[test]
    fn an_unsupported_scheme_is_refused_with_the_supported_ones() {
        for text in ["email://fake", "ftp://a", "fake", "", "//a", "://a", "1http://a"] {
            let error = error_of(text);
            assert!(error.ends_with("must be supported in the list [\"http\", \"https\"]"), "{text}: {error}");
        }
        assert!(
            error_of("mailto:a@b.example").ends_with(
                "the list [\"http\", \"https\"]; for mailto, the operator of the service must set up [mail]"
            )
        );
        for text in ["trust+ftp://a", "trust+://a", "trust+trust+http://a", "trust+"] {
            assert!(error_of(text).contains("must be supported in the list"), "{text}");
        }
    }

    #[test]
    fn a_mailto_uri_is_accepted_only_if_the_operator_allows_the_scheme() {
        let rules = rules().with_scheme(MAILTO);
        let subscriber = Subscriber::parse("MailTo:a@b.example", &rules).unwrap();
        assert_eq!((subscriber.mail().unwrap().recipients.len(), subscriber.name(), subscriber.url()), (1, None, None));
        for text in ["trust+mailto:a@b.example", "mailto+x:a@b.example"] {
            let error = Subscriber::parse(text, &rules).unwrap_err().to_string();
            assert!(error.ends_with("supported in the list [\"http\", \"https\", \"mailto\"]"), "{error}");
        }
        for text in ["mailto:a@b.example\r\nBcc: c@d.example", "mailto:a@b.example ", "mailto:a@b.example\0", "mailto:"]
        {
            assert!(Subscriber::parse(text, &rules).is_err(), "{text:?}");
        }
    }

    /// Row 8.7-2.
    #[test]
    fn a_uri_with_trust_names_the_url_that_is_called() {
        for (text, url) in [("trust+http://a:8080/b", "http://a:8080/b"), ("TRUST+HTTPS://a/b", "https://a/b")] {
            let subscriber = Subscriber::parse(text, &rules()).unwrap();
            assert_eq!((subscriber.url().unwrap().as_str(), subscriber.as_str()), (url, text));
            assert!(subscriber.needs_trust());
        }
        assert!(!Subscriber::parse("http://trust+http", &rules()).is_ok_and(|subscriber| subscriber.needs_trust()));
        assert!(error_of("trust+http://127.0.0.1").contains("is a loopback address"));
    }

    #[test]
    fn an_ambiguous_or_forbidden_uri_is_refused() {
        for (text, reason) in [
            ("http://", "not a URI: it has no host"),
            ("http://user@a.example", "contains a user or a password"),
            ("http://user:hush@a.example", "contains a user or a password"),
            ("http://:hush@a.example", "contains a user or a password"),
            ("http://a.example@127.0.0.1", "contains a user or a password"),
            ("http://a.example/\nb", "a space or a control character"),
            ("http://a .example", "a space or a control character"),
            ("http://a.example:22", "has the port 22; the ports 80, 443, 1024-65535 are allowed"),
            ("http://a.example:99999", "its port is invalid"),
            ("http://0x7f.1", "127.0.0.1 is a loopback address"),
            ("http://[::ffff:7f00:1]", "is a loopback address"),
            ("http://169.254.169.254/latest", "a metadata service"),
            ("http://1.2.3.4.5", "its IPv4 address is invalid"),
            ("http://a\"b.example", "its host is not a DNS name or an IP address"),
            ("http://a..b", "its host is not a DNS name or an IP address"),
            ("http://..", "its host is not a DNS name or an IP address"),
        ] {
            let error = error_of(text);
            assert!(error.contains(reason) && !error.contains("hush"), "{text}: {error}");
        }
        let long = |bytes: usize| format!("http://a.example/{}", "x".repeat(bytes - 17));
        assert!(Subscriber::parse(&long(2_048), &rules()).is_ok());
        assert!(error_of(&long(2_049)).contains("2049 bytes; at most 2048"));
    }
}
