//! Gives every request an id, which its log lines and its response carry. Starts its span if
//! requests are traced, and its trail if there is an audit log.

use std::future::Future;
use std::pin::pin;
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tracing::{debug, error};

use super::{audit, metering};
use crate::observability::audit::AuditLog;
use crate::observability::request_id::RequestId;
use crate::observability::telemetry::{Span, Tracer};
use sukkal_domain::token::without_tokens;

pub(in crate::api) const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Handles a request and logs its outcome, under an id of its own. With a tracer, records it in a
/// span. With an audit log, begins its trail.
pub(super) async fn log<F: Future<Output = Response>>(
    request: Request,
    tracer: Option<&Tracer>,
    audit_log: Option<&AuditLog>,
    handle: impl FnOnce(Request) -> F,
) -> Response {
    let id = RequestId::random();
    let span = tracer.map(|tracer| request_span(tracer, &request, id));
    let trail = audit_log.map(|log| audit::begin(log, &request, id));
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let start = Instant::now();
    // Pinned, so that it is not moved: it is large.
    let handled = pin!(async {
        let response = handle(request).await;
        let duration_ms = start.elapsed().as_secs_f64() * 1000.0;
        // Only the path is logged, because a query may contain confidential data.
        let (method, status) = (method.as_str(), response.status().as_u16());
        let path = || without_tokens(uri.path());
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
            error!(method, path = %path(), status, duration_ms, "request failed");
        } else {
            debug!(method, path = %path(), status, duration_ms, "request completed");
        }
        response
    });
    let mut response = id.scope(span.clone(), trail, handled).await;
    if let Some(span) = span {
        end_span(&span, response.status());
    }
    let id = HeaderValue::from_bytes(id.as_bytes()).expect("hexadecimal digits and dashes are legal in a header");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Starts the span of a request, which continues the trace that the request belongs to.
fn request_span(tracer: &Tracer, request: &Request, id: RequestId) -> Span {
    let method = metering::label(request.method());
    let route = metering::path_template(request).unwrap_or(metering::NO_ROUTE);
    // A repeated `traceparent` is ignored, as the recommendation requires.
    let header = |name: &str| {
        let mut values = request.headers().get_all(name).iter();
        values.next().filter(|_| values.next().is_none())?.to_str().ok().map(str::to_owned)
    };
    let span = tracer.request(format!("{method} {route}"), header);
    span.set("http.request.method", method);
    span.set("http.route", route.to_owned());
    // Without the query, which may contain confidential data.
    span.set("url.path", without_tokens(request.uri().path()).into_owned());
    span.set("sukkal.request_id", id.to_string());
    span
}

/// Ends the span of a request when its response begins.
fn end_span(span: &Span, status: StatusCode) {
    span.set("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail();
    }
    span.end();
}
