//! Lets web pages of other origins use the API
//! (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! The CORS layer of tower-http would answer each `OPTIONS` request itself, without the `Allow`
//! header. Its responses would have no request id, and no place in the log, the metrics and the
//! state of the connection. A layer of the router would also cost requests when CORS is off.

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use sukkal_domain::WebOrigins;

/// All methods of the API. The same for all paths, so that a preflight says nothing about a path.
const METHODS: HeaderValue = HeaderValue::from_static("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
/// The response headers that a page may read, besides those that browsers show to every page.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Allow, Claim-Fence, Content-Location, Durability, Location, Retry-After, Sukkal-Warning, WWW-Authenticate, \
     X-OpenStack-Request-ID",
);
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
