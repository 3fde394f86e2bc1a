//! Every request gets an id, under which it is logged and which its answer carries.

use std::time::Instant;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use tracing::{Instrument, debug, info_span};
use uuid::Uuid;

const REQUEST_ID: &str = "x-openstack-request-id";

pub(super) async fn log(request: Request, next: Next) -> Response {
    let id = format!("req-{}", Uuid::new_v4());
    // The path only: a query may carry what is no log's business.
    let span = info_span!("request", id, method = %request.method(), path = request.uri().path());
    let start = Instant::now();
    let handled = async {
        let response = next.run(request).await;
        let duration_ms = start.elapsed().as_secs_f64() * 1000.0;
        debug!(status = response.status().as_u16(), duration_ms, "request answered");
        response
    };
    let mut response = handled.instrument(span).await;
    let id = HeaderValue::from_str(&id).expect("hexadecimal digits and dashes are legal in a header");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}
