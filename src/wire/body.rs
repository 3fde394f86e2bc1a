//! Reads request bodies. A body that is too large is refused by its `Content-Length` before it is
//! read, or while it is read.

use std::error::Error as StdError;
use std::io;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use bytes::Bytes;
use futures::TryStreamExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::Error;
use sukkal_base::memory_budget::BudgetExceeded;

/// The kinds of errors of a chunked body that the HTTP library cannot decode.
const MALFORMED: [io::ErrorKind; 2] = [io::ErrorKind::InvalidInput, io::ErrorKind::InvalidData];

/// Returns whether the headers declare a body, which may be empty.
#[must_use]
pub fn declares_body(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING)
}

/// Returns the size of the body in bytes if the headers declare it.
#[must_use]
pub fn declared_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
}

/// Returns the body, unless it is empty. If it has more than `bytes_max` bytes, the error is made
/// by `too_large`.
pub async fn read(
    headers: &HeaderMap,
    body: Body,
    bytes_max: u64,
    too_large: fn(String) -> Error,
) -> Result<Option<Bytes>, Error> {
    if let Some(length) = declared_bytes(headers).filter(|length| *length > bytes_max) {
        return Err(too_large(format!("the body has {length} bytes; at most {bytes_max} are allowed")));
    }
    match join(Limited::new(body, usize::try_from(bytes_max).unwrap_or(usize::MAX))).await {
        Ok(whole) => Ok(Some(whole).filter(|bytes| !bytes.is_empty())),
        Err(error) if cause::<LengthLimitError>(&*error).is_some() => {
            Err(too_large(format!("the body has more than {bytes_max} bytes; at most {bytes_max} are allowed")))
        }
        Err(error) if cause::<BudgetExceeded>(&*error).is_some() => Err(Error::BodyBudget),
        Err(error) => match cause::<io::Error>(&*error) {
            Some(malformed) if MALFORMED.contains(&malformed.kind()) => Err(Error::Chunks(malformed.to_string())),
            _ => Err(Error::BodyCutOff),
        },
    }
}

/// Returns all of a body. A list of its parts would take many times their size, if each has one
/// byte.
async fn join(body: Limited<Body>) -> Result<Bytes, Box<dyn StdError + Send + Sync>> {
    let mut parts = body.into_data_stream();
    let first = parts.try_next().await?.unwrap_or_default();
    let Some(second) = parts.try_next().await? else { return Ok(first) };
    let mut whole = [first, second].concat();
    while let Some(part) = parts.try_next().await? {
        whole.extend_from_slice(&part);
    }
    Ok(whole.into())
}

/// Returns the first cause of this type.
fn cause<'e, E: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e E> {
    error.downcast_ref().or_else(|| error.source().and_then(cause))
}

/// Returns the body, which must not be empty. Otherwise the same as [`read`].
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
