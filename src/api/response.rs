//! JSON responses, each written into one buffer of about the right size; and the header of
//! responses from a paused queue.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::wire::Error;
use crate::wire::error::internal;

/// Time in seconds after which a client may ask a paused queue for messages again.
const PAUSED_RETRY_AFTER_S: u32 = 10;
/// Estimated size of a short document.
const SHORT_BYTES: usize = 512;
/// Maximum number of bytes of a buffer that may stay unused. Moving a short text to a smaller
/// buffer costs several hundred instructions.
const UNUSED_BYTES_MAX: usize = 1_024;

/// Returns the header that tells a claim or pop from a paused queue from one of an empty queue.
pub(super) fn retry_after_pause() -> [(HeaderName, HeaderValue); 1] {
    [(RETRY_AFTER, HeaderValue::from(PAUSED_RETRY_AFTER_S))]
}

/// A response with a short document.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        json(&self.0, SHORT_BYTES)
    }
}

/// Returns a response with this document. `bytes` is the estimated maximum size of its text.
pub(super) fn json(document: &impl Serialize, bytes: usize) -> Response {
    let mut text = Vec::with_capacity(bytes);
    if write(&mut text, document).is_err() {
        return internal();
    }
    // A much smaller text would hold the whole buffer until the client has read it.
    if text.capacity() > 2 * text.len() + UNUSED_BYTES_MAX {
        text.shrink_to_fit();
    }
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Appends the text of a document.
pub(super) fn write(text: &mut Vec<u8>, document: &impl Serialize) -> Result<(), Error> {
    sonic_rs::to_writer(text, document).map_err(|error| {
        tracing::error!(%error, "cannot write a response document");
        Error::Document
    })
}
