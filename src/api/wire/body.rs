//! Request bodies: measured by `Content-Length` before a byte of them is read.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::api::Error;

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
