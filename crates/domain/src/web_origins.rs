//! The web origins whose pages may use the API in a browser. They have nothing to do with the
//! origins of dead letters.

use std::str::FromStr;

use thiserror::Error;
use url::Url;

/// The web origins whose pages may use the API (`cors_origins` in the configuration).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebOrigins {
    /// All origins.
    Any,
    /// These origins.
    Listed(Vec<WebOrigin>),
}

/// The scheme, host and port of web pages, as browsers send them in the header `Origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin(Box<str>);

/// The text is not a web origin as browsers send it.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("it must be a scheme and a host, and the port unless it is the default, in lower case")]
pub struct InvalidWebOrigin;

impl FromStr for WebOrigin {
    type Err = InvalidWebOrigin;

    /// Accepts only the spelling that browsers use, because any other one would never match.
    fn from_str(text: &str) -> Result<Self, InvalidWebOrigin> {
        let is_web = text.starts_with("http://") || text.starts_with("https://");
        // A URL may contain an asterisk, but it would not stand for all subdomains.
        if !is_web || text.contains('*') {
            return Err(InvalidWebOrigin);
        }
        let url = Url::parse(text).map_err(|_| InvalidWebOrigin)?;
        if url.origin().ascii_serialization() == text { Ok(Self(text.into())) } else { Err(InvalidWebOrigin) }
    }
}

impl WebOrigin {
    /// Returns the host without the port.
    fn host(&self) -> &str {
        let (_, address) = self.0.split_once("://").unwrap_or_default();
        match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => address,
        }
    }
}

impl WebOrigins {
    /// Returns whether pages of this origin may use the API. `origin` is the value of the header
    /// `Origin`.
    #[must_use]
    pub fn allow(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(origins) => origins.iter().any(|listed| listed.0.as_bytes() == origin),
        }
    }

    /// Returns whether one of the origins has this host, on any port.
    #[must_use]
    pub fn have_host(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(origins) => origins.iter().any(|listed| listed.host() == host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_the_spelling_of_browsers() {
        for text in [
            "https://app.example.com",
            "https://app.example.com:8443",
            "http://localhost:3000",
            "http://127.0.0.1",
            "http://[::1]:3000",
            "https://xn--bcher-kva.example",
        ] {
            let origin: WebOrigin = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));

            assert!(WebOrigins::Listed(vec![origin]).allow(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "*",
            "null",
            "app.example.com",
            "//app.example.com",
            "https://",
            "https://app.example.com/",
            "https://app.example.com/page",
            "https://app.example.com:443",
            "http://app.example.com:80",
            "http://app.example.com:",
            "http://app.example.com:65536",
            "https://App.example.com",
            "HTTPS://app.example.com",
            "https://*.example.com",
            "https://user@app.example.com",
            "https://app.example.com?",
            "https://app.example.com#",
            "https://bücher.example",
            "https://127.1",
            " https://app.example.com",
            "ftp://app.example.com",
            "file:///",
        ] {
            assert_eq!(text.parse::<WebOrigin>(), Err(InvalidWebOrigin), "{text}");
        }
    }

    #[test]
    fn the_host_of_an_origin_has_no_port() {
        for (origin, host) in [
            ("https://app.example.com", "app.example.com"),
            ("http://app.example.com:3000", "app.example.com"),
            ("http://[::1]", "[::1]"),
            ("http://[::1]:3000", "[::1]"),
        ] {
            let origins = WebOrigins::Listed(vec![origin.parse().unwrap()]);

            assert!(origins.have_host(host), "{origin}");
            for other in ["", "example.com", "app.example.com.evil.example", "[", "[:"] {
                assert!(!origins.have_host(other) && WebOrigins::Any.have_host(other), "{origin}: {other}");
            }
        }
    }

    #[test]
    fn an_origin_matches_only_itself() {
        let origins = WebOrigins::Listed(vec!["https://app.example.com".parse().unwrap()]);

        for other in [
            "null",
            "",
            "*",
            "https://app.example.co",
            "https://app.example.com.evil.example",
            "https://evil.example/https://app.example.com",
            "http://app.example.com",
            "https://app.example.com:443",
            "https://app.example.com:8443",
            "https://APP.example.com",
            "https://sub.app.example.com",
            "https://app.example.com https://app.example.com",
        ] {
            assert!(!origins.allow(other.as_bytes()), "{other}");
            assert!(WebOrigins::Any.allow(other.as_bytes()), "{other}");
        }
    }
}
