//! A request over HTTP/2 in the form that handlers know from HTTP/1.

use axum::body::Body;
use axum::http::header::HOST;
use axum::http::{HeaderValue, Request, Uri};
use hyper::body::Incoming;

/// Returns the request with a `Host` header, a URL without the host, and the usual body.
pub(super) fn request(request: Request<Incoming>) -> Request<Body> {
    let (mut head, body) = request.into_parts();
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
        && head.headers.get(HOST) != Some(&host)
    {
        // Two different names of the host are refused like two `Host` headers.
        head.headers.append(HOST, host);
    }
    head.uri = head.uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    Request::from_parts(head, Body::new(body))
}
