//! Bodies are heard out before and after anything is decided: a client that is still sending when the
//! connection is closed gets an error of the network, and never reads why it was refused.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use tower_http::timeout::TimeoutBody;

use crate::api::wire::body;

/// A client that sends more than this in vain is not heard out.
const HEARD_BYTES_MAX: usize = 1 << 20;

/// Handles a request with its body at hand, if any handler takes one as long as that; else without it, and
/// hears it out afterwards. The client may pause as long as `patience` allows.
pub(super) async fn hear_out<F: Future<Output = Response>>(
    request: Request,
    bytes_max: u64,
    patience: Duration,
    handle: impl FnOnce(Request) -> F,
) -> Response {
    if request.body().is_end_stream() {
        return handle(request).await;
    }
    let (parts, body) = request.into_parts();
    let body = TimeoutBody::new(patience, body);
    // Who expects `100 Continue` sends nothing before it is asked for.
    if parts.headers.contains_key(EXPECT) {
        return handle(Request::from_parts(parts, Body::new(body))).await;
    }
    if body::length(&parts.headers).is_some_and(|length| length <= bytes_max) {
        let body = match body.collect().await {
            Ok(whole) => whole.to_bytes().into(),
            // Whoever needs it finds out; who is refused anyway is told why.
            Err(error) => Body::from_stream(stream::iter([Err::<Bytes, _>(error)])),
        };
        return handle(Request::from_parts(parts, body)).await;
    }
    let response = handle(Request::from_parts(parts, Body::empty())).await;
    let mut rest = pin!(body.into_data_stream());
    let mut heard_bytes = 0;
    while let Some(Ok(data)) = rest.next().await {
        heard_bytes += data.len();
        if heard_bytes > HEARD_BYTES_MAX {
            break;
        }
    }
    response
}
