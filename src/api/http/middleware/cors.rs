//! Lets web pages of other origins use the API
//! (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! The CORS layer of tower-http would answer each `OPTIONS` request itself, without the `Allow`
//! header. Its responses would have no request id, and no place in the log, the metrics and the
//! state of the connection. A layer of the router would also cost requests when CORS is off.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::domain::WebOrigins;

/// All methods of the API. The same for all paths, so that a preflight says nothing about a path.
const METHODS: HeaderValue = HeaderValue::from_static("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
/// The response headers that a page may read, besides those that browsers show to every page.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("Allow, Claim-Fence, Location, Retry-After, Sukkal-Warning, X-OpenStack-Request-ID");
/// Time in seconds for which a browser remembers the response to a preflight.
const MAX_AGE_S: HeaderValue = HeaderValue::from_static("3600");

/// Returns the response to a preflight, in which a browser asks whether a page may send a request.
/// Returns `None` for other requests.
pub(super) fn preflight(request: &Request, origins: &WebOrigins) -> Option<Response> {
    let headers = request.headers();
    let origin = headers.get(ORIGIN)?;
    if request.method() != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    if origins.allow(origin.as_bytes()) {
        let wanted = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().cloned();
        let allowed = response.headers_mut();
        allowed.extend(wanted.map(|header| (ACCESS_CONTROL_ALLOW_HEADERS, header)));
        allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        allowed.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE_S);
    }
    response.headers_mut().append(VARY, ACCESS_CONTROL_REQUEST_HEADERS.into());
    Some(response)
}

/// The headers of the response to a request that let a page read it.
pub(super) struct Sharing {
    /// The value of `Access-Control-Allow-Origin`; `None` if no page may read the response.
    origin: Option<HeaderValue>,
    /// Whether the response to another origin would be different.
    varies: bool,
}

impl Sharing {
    /// Returns the headers for a request with these headers.
    pub(super) fn of(request: &HeaderMap, origins: &WebOrigins) -> Self {
        match origins {
            WebOrigins::Any => Self { origin: Some(HeaderValue::from_static("*")), varies: false },
            WebOrigins::Listed(_) => {
                let origin = request.get(ORIGIN).filter(|origin| origins.allow(origin.as_bytes())).cloned();
                Self { origin, varies: true }
            }
        }
    }

    /// Adds the headers to a response.
    pub(super) fn add_to(self, response: &mut HeaderMap) {
        // Without this header, a cache could give a page the response that another one got.
        if self.varies {
            response.append(VARY, ORIGIN.into());
        }
        if let Some(origin) = self.origin {
            response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}

/// Returns whether a browser may have sent the request for a page that may not use the API: a page
/// neither of an allowed origin nor of the service itself.
///
/// The owner of a page can make the name of its host an alias of 127.0.0.1 (DNS rebinding). Then
/// `Host` and `Origin` agree, and a `GET` has no `Origin`. So `Host` must be a name that no such page
/// can have: `localhost`, an IP address, the name on which the service listens, or the host of an
/// allowed origin.
pub(super) fn may_be_foreign(headers: &HeaderMap, origins: Option<&WebOrigins>, bound_name: Option<&str>) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let Ok(authority) = host.parse::<Authority>() else { return true };
    let name = authority.host();
    let is_own_name = is_address(name)
        || ["localhost"].into_iter().chain(bound_name).any(|own| own.eq_ignore_ascii_case(name))
        || origins.is_some_and(|origins| origins.have_host(name));
    let Some(origin) = headers.get(ORIGIN) else { return !is_own_name };
    let is_own_page =
        origin.to_str().ok().and_then(|origin| origin.split_once("://")).is_some_and(|(_, own)| own == host);
    !(is_own_name && is_own_page || origins.is_some_and(|origins| origins.allow(origin.as_bytes())))
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
        let is_foreign = |host: &str| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).unwrap())]);
            may_be_foreign(&headers, Some(&origins), Some("laptop.lan"))
        };

        for own in [
            "localhost",
            "localhost:8888",
            "LocalHost:8888",
            "127.0.0.1",
            "127.0.0.1:8888",
            "192.168.1.7:8888",
            "[::1]",
            "[::1]:8888",
            "laptop.lan:8888",
            "app.example.com",
            "app.example.com:1",
        ] {
            assert!(!is_foreign(own), "{own}");
        }
        for other in [
            "",
            "evil.example:8888",
            "localhost.evil.example",
            "evil.localhost",
            "127.0.0.1.evil.example:8888",
            "127.1.evil",
            "::1",
            "[evil]",
            "example.com",
            "laptop.lan.evil.example",
        ] {
            assert!(is_foreign(other), "{other}");
        }
        assert!(may_be_foreign(&HeaderMap::new(), None, None), "no Host");
    }
}
