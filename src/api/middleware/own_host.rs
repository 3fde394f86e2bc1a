//! Tells requests that name this service in `Host` from those that a web page of somebody else may
//! have let a browser send.
//!
//! The owner of a page can make the name of its host an alias of 127.0.0.1 (DNS rebinding). The
//! browser then takes the service for the origin of the page: `Host` and `Origin` agree, and a
//! `GET` has no `Origin`. So `Host` must be a name that no such page can have.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};

use crate::api::service::Settings;
use crate::wire::Error;
use sukkal_domain::WebOrigins;
use sukkal_domain::warning::shown;

/// Refuses a request whose `Host` is not a name of this service, unless the operator has chosen
/// strategies of authentication. An old client without a `Host` is not a browser.
pub(super) fn check(headers: &HeaderMap, settings: &Settings) -> Result<(), Error> {
    let names = OwnNames::of(settings);
    match headers.get(HOST).filter(|host| !names.include(host)) {
        Some(host) if settings.authenticator.requires_own_host() => {
            Err(Error::ForeignHost(shown(&String::from_utf8_lossy(host.as_bytes()))))
        }
        _ => Ok(()),
    }
}

/// Returns whether a browser may have sent the request for a page that may not use the API: a page
/// neither of an allowed origin nor of the service itself.
///
/// Any web page can let a browser send a `POST` without headers of its own, even if the page may
/// not read the response.
pub(super) fn may_be_foreign(headers: &HeaderMap, settings: &Settings) -> bool {
    let names = OwnNames::of(settings);
    let host = headers.get(HOST).filter(|host| names.include(host));
    let Some(origin) = headers.get(ORIGIN) else { return host.is_none() };
    let page = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, page)| page.as_bytes());
    let is_own_page = page.is_some() && page == host.map(HeaderValue::as_bytes);
    !(is_own_page || names.origins.is_some_and(|origins| origins.allow(origin.as_bytes())))
}

/// Refuses a request that a browser sends for a page of another origin, unless the origin may use
/// the API. A browser asks nobody before it opens a WebSocket for a page.
pub(in crate::api) fn check_origin(headers: &HeaderMap, settings: &Settings) -> Result<(), Error> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let page = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, page)| page.as_bytes());
    let is_own = page.is_some() && page == headers.get(HOST).map(HeaderValue::as_bytes);
    let is_allowed = || settings.cors_origins.as_ref().is_some_and(|origins| origins.allow(origin.as_bytes()));
    if is_own || is_allowed() { Ok(()) } else { Err(Error::ForeignOrigin) }
}

/// The names of this service: `localhost` and names below it, every IP address, the names on which
/// it listens, and the hosts of allowed origins.
struct OwnNames<'s> {
    bound_names: &'s [String],
    origins: Option<&'s WebOrigins>,
}

impl<'s> OwnNames<'s> {
    fn of(settings: &'s Settings) -> Self {
        Self { bound_names: &settings.bound_names, origins: settings.cors_origins.as_ref() }
    }

    /// Returns whether one of the names is in the value of a `Host`, with any port.
    fn include(&self, host: &HeaderValue) -> bool {
        let Some(name) = host.to_str().ok().and_then(name_of) else { return false };
        let is_bound = self.bound_names.iter().any(|own| own.eq_ignore_ascii_case(name));
        is_bound || is_local(name) || is_address(name) || self.origins.is_some_and(|origins| origins.have_host(name))
    }
}

/// Returns the value of a `Host` without the port.
fn name_of(host: &str) -> Option<&str> {
    let end = host.rfind(']').map_or_else(|| host.find(':'), |bracket| Some(bracket + 1));
    let (name, port) = host.split_at(end.unwrap_or(host.len()));
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Returns whether a name is `localhost` or below it. Browsers resolve these names to their own
/// machine, and ask no name server (RFC 6761, section 6.3), so nobody can make one an alias.
fn is_local(name: &str) -> bool {
    let top = name.rsplit('.').next().unwrap_or_default();
    top.eq_ignore_ascii_case("localhost") && !name.starts_with('.')
}

/// Returns whether the host of a URL is an IP address.
fn is_address(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_other_page_can_have_are_own_names() {
        let origins = WebOrigins::Listed(vec!["https://app.example.com:8443".parse().unwrap()]);
        let bound_names = ["laptop.lan".to_owned()];
        let names = OwnNames { bound_names: &bound_names, origins: Some(&origins) };
        let include = |host: &str| names.include(&HeaderValue::from_str(host).unwrap());

        for own in [
            "localhost",
            "localhost:8888",
            "LocalHost:8888",
            "sukkal.LocalHost:8888",
            "127.0.0.1",
            "127.0.0.1:8888",
            "192.168.1.7:8888",
            "[::1]",
            "[::1]:8888",
            "laptop.lan:8888",
            "app.example.com",
            "app.example.com:1",
        ] {
            assert!(include(own), "{own}");
        }
        for other in [
            "",
            "evil.example:8888",
            "localhost.evil.example",
            ".localhost",
            "mylocalhost",
            "127.0.0.1.evil.example:8888",
            "127.1.evil",
            "::1",
            "[evil]",
            "example.com",
            "laptop.lan.evil.example",
            "localhost:80@evil.example",
            "localhost:@evil.example:80",
            "localhost@evil.example",
            "[::1]evil.example",
            "[::1].evil.example:80",
            "[::1]:80:80",
            "localhost:80/",
        ] {
            assert!(!include(other), "{other}");
        }
    }
}
