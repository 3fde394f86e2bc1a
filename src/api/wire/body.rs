//! Request bodies: measured by `Content-Length` before a byte of them is read.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};

use crate::api::Error;

/// A refused body up to this size is read and thrown away, so that the client, which is still
/// sending, gets to read why.
const DISCARDED_BYTES_MAX: usize = 1 << 20;

/// How many bytes the request says it brings; `None` if it does not say.
#[must_use]
pub fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The body, if there is one. One of more than `bytes_max` is answered by what `too_large` makes of it.
pub async fn read(
    headers: &HeaderMap,
    body: Body,
    bytes_max: u64,
    too_large: fn(String) -> Error,
) -> Result<Option<Bytes>, Error> {
    match length(headers) {
        None | Some(0) => Ok(None),
        Some(length) if length > bytes_max => {
            discard(body).await;
            Err(too_large(format!("the body has {length} bytes, the most is {bytes_max}")))
        }
        Some(_) => match body.collect().await {
            Ok(whole) => Ok(Some(whole.to_bytes())),
            Err(_) => Err(Error::BodyCutOff),
        },
    }
}

/// The body, where there has to be one.
pub async fn read_required(
    headers: &HeaderMap,
    body: Body,
    bytes_max: u64,
    too_large: fn(String) -> Error,
) -> Result<Bytes, Error> {
    read(headers, body, bytes_max, too_large)
        .await?
        .ok_or_else(|| Error::Body("Request body can not be empty".to_owned()))
}

async fn discard(body: Body) {
    let mut rest = Limited::new(body, DISCARDED_BYTES_MAX);
    while let Some(Ok(_frame)) = rest.frame().await {}
}
