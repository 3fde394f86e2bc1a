//! The trace context in the headers of a request.

use axum::http::{HeaderMap, HeaderName};

use sukkal_domain::TraceContext;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Returns the trace context of a request. An invalid or repeated `traceparent` is ignored, as the
/// recommendation requires.
#[must_use]
pub fn of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(&TRACEPARENT).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    TraceContext::parse(value.to_str().ok()?)
}
