//! JSON answers, each written into one buffer of about the right size.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use serde::Serialize;

use crate::api::Error;
use crate::api::error::internal;

/// An answer with this document, of at most about so many bytes.
pub(super) fn json(document: &impl Serialize, bytes: usize) -> Response {
    let mut text = Vec::with_capacity(bytes);
    if write(&mut text, document).is_err() {
        return internal();
    }
    // It may be a small document, and it is kept until the client has taken it.
    if text.capacity() > 2 * text.len() {
        text.shrink_to_fit();
    }
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Appends a document.
pub(super) fn write(text: &mut Vec<u8>, document: &impl Serialize) -> Result<(), Error> {
    sonic_rs::to_writer(text, document).map_err(|error| {
        tracing::error!(%error, "a document could not be written");
        Error::Document
    })
}
