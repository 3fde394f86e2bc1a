//! Every request gets an id, under which it is logged and which its answer carries.

use std::future::Future;
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tracing::{debug, error};

use crate::request_id::RequestId;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Handles a request under an id of its own.
pub(super) async fn log<F: Future<Output = Response>>(request: Request, handle: impl FnOnce(Request) -> F) -> Response {
    let id = RequestId::random();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let start = Instant::now();
    let handled = async {
        let response = handle(request).await;
        let duration_ms = start.elapsed().as_secs_f64() * 1000.0;
        // The path only: a query may carry what is no log's business.
        let (method, path, status) = (method.as_str(), uri.path(), response.status().as_u16());
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
            error!(method, path, status, duration_ms, "request failed");
        } else {
            debug!(method, path, status, duration_ms, "request answered");
        }
        response
    };
    let mut response = id.scope(handled).await;
    let id = HeaderValue::from_bytes(id.as_bytes()).expect("hexadecimal digits and dashes are legal in a header");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}
