//! Gives every request an id, which its log lines and its response carry.

use std::future::Future;
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tracing::{debug, error};

use crate::request_id::RequestId;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Handles a request and logs its outcome, under an id of its own.
pub(super) async fn log<F: Future<Output = Response>>(request: Request, handle: impl FnOnce(Request) -> F) -> Response {
    let id = RequestId::random();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let start = Instant::now();
    let handled = async {
        let response = handle(request).await;
        let duration_ms = start.elapsed().as_secs_f64() * 1000.0;
        // Only the path is logged, because a query may contain confidential data.
        let (method, path, status) = (method.as_str(), uri.path(), response.status().as_u16());
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
            error!(method, path, status, duration_ms, "request failed");
        } else {
            debug!(method, path, status, duration_ms, "request completed");
        }
        response
    };
    let mut response = id.scope(handled).await;
    let id = HeaderValue::from_bytes(id.as_bytes()).expect("hexadecimal digits and dashes are legal in a header");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}
