//! JSON responses, each written into one buffer of about the right size.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use serde::Serialize;

use crate::api::Error;
use crate::api::error::internal;

/// Returns a response with this document. `bytes` is the estimated maximum size of its text.
pub(super) fn json(document: &impl Serialize, bytes: usize) -> Response {
    let mut text = Vec::with_capacity(bytes);
    if write(&mut text, document).is_err() {
        return internal();
    }
    // A much smaller text would hold the whole buffer until the client has read it.
    if text.capacity() > 2 * text.len() {
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
