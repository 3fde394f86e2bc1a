//! Checks the signature of a request that uses a pre-signed URL.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName, Method};
use time::OffsetDateTime;

use super::identity;
use crate::api::Error;
use crate::auth::signed_url::{SignedUrl, Signer};

static SIGNATURE: HeaderName = HeaderName::from_static("url-signature");
static SIGNED_PATHS: HeaderName = HeaderName::from_static("url-paths");
static SIGNED_METHODS: HeaderName = HeaderName::from_static("url-methods");
static SIGNED_EXPIRY: HeaderName = HeaderName::from_static("url-expires");

/// Returns whether a request has a signature.
pub(super) fn is_signed(headers: &HeaderMap) -> bool {
    headers.contains_key(&SIGNATURE)
}

/// Returns whether a request has a signature, and refuses one that does not allow the request. The
/// error does not say which part is wrong. `segments` are the decoded segments of the path.
pub(super) fn check(
    method: &Method,
    segments: &[Cow<'_, str>],
    headers: &HeaderMap,
    signer: Option<&Signer>,
) -> Result<bool, Error> {
    if !is_signed(headers) {
        return Ok(false);
    }
    let is_allowed = || {
        let url = presented_url(headers)?;
        Some(signer?.verify(&url, only(headers, &SIGNATURE)?) && url.allows(method.as_str(), segments))
    };
    if is_allowed() == Some(true) { Ok(true) } else { Err(Error::NotSigned) }
}

/// Returns the URL that the headers describe. Its project is the one that the request works on.
fn presented_url(headers: &HeaderMap) -> Option<SignedUrl> {
    let list = |name: &HeaderName| Some(only(headers, name)?.split(',').map(str::to_owned).collect());
    let (project, _) = identity::project(headers).ok()??;
    let expiry = only(headers, &SIGNED_EXPIRY)?.parse().ok()?;
    SignedUrl::new(list(&SIGNED_PATHS)?, list(&SIGNED_METHODS)?, project, expiry, OffsetDateTime::now_utc()).ok()
}

/// Returns the value of a header that is present exactly once. Of two values it is unknown which
/// one was signed.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok())?
}
