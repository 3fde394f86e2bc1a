//! Every request gets an id, under which it is logged and which its answer carries.

use std::future::Future;
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use tracing::{Instrument, debug, error, info_span};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

const REQUEST_ID: &str = "x-openstack-request-id";

/// Handles a request under an id of its own.
pub(super) async fn log<F: Future<Output = Response>>(request: Request, handle: impl FnOnce(Request) -> F) -> Response {
    let mut buffer = [0; Hyphenated::LENGTH];
    let id = ["req-", Uuid::new_v4().hyphenated().encode_lower(&mut buffer)].concat();
    // With the id alone: every field is written out for every request, whether anything is logged or not.
    let span = info_span!("request", id);
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
    let mut response = handled.instrument(span).await;
    let id = HeaderValue::from_maybe_shared(Bytes::from(id));
    let id = id.expect("hexadecimal digits and dashes are legal in a header");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}
