//! Checks the signature of a request that uses a pre-signed URL.
//!
//! The parts of a signature are in the headers, or in the query of a `GET` whose sender cannot set
//! headers, such as the `EventSource` of a browser. The query is not accepted for other methods,
//! because any web page can let a browser send a `POST` to a URL.

use std::borrow::Cow;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Method};
use time::OffsetDateTime;

use super::identity;
use crate::api::service::Settings;
use crate::auth::signed_url::SignedUrl;
use crate::wire::Error;
use crate::wire::query::{self, SIGNATURE_PARAMETER};

/// A part of a signature: its header and its query parameter.
struct Part(HeaderName, &'static str);

static SIGNATURE: Part = Part(HeaderName::from_static("url-signature"), SIGNATURE_PARAMETER);
static PATHS: Part = Part(HeaderName::from_static("url-paths"), "url_paths");
static METHODS: Part = Part(HeaderName::from_static("url-methods"), "url_methods");
static EXPIRY: Part = Part(HeaderName::from_static("url-expires"), "url_expires");

/// The part of a request that has the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum Carrier {
    Headers,
    Query,
}

impl Carrier {
    /// Returns where a request has its signature, and `None` for a request without one. An empty
    /// signature is a signature.
    pub(super) fn of(headers: &HeaderMap, query: Option<&str>) -> Result<Option<Self>, Error> {
        let is_in_query = query.is_some_and(query::mentions_signature);
        match (headers.contains_key(&SIGNATURE.0), is_in_query) {
            (false, false) => Ok(None),
            (true, false) => Ok(Some(Self::Headers)),
            (false, true) => Ok(Some(Self::Query)),
            // A proxy and Sukkal could check different ones.
            (true, true) => Err(Error::TwoSignatures),
        }
    }

    /// Returns a part that is present exactly once. Of two values it is unknown which one was
    /// signed. Repeated headers have been refused before.
    fn part<'r>(self, request: &'r Request, Part(header, parameter): &'static Part) -> Option<Cow<'r, str>> {
        match self {
            Self::Headers => request.headers().get(header)?.to_str().ok().map(Cow::Borrowed),
            Self::Query => query::only(request.uri().query()?, parameter).ok()?,
        }
    }
}

/// Returns the URL of a request whose signature allows the request. Refuses other requests, and
/// does not say which part is wrong. `segments` are the decoded segments of the path.
/// `identifying_query` is the query if it may name the project.
pub(super) fn check(
    request: &Request,
    segments: &[Cow<'_, str>],
    carrier: Carrier,
    identifying_query: Option<&str>,
    settings: &Settings,
) -> Result<SignedUrl, Error> {
    let allowed = || {
        let url = presented_url(request, carrier, identifying_query)?;
        let is_valid = settings.signer.as_ref()?.verify(&url, &carrier.part(request, &SIGNATURE)?);
        let may_be_in_query = carrier == Carrier::Headers || request.method() == Method::GET;
        let is_allowed = is_valid && may_be_in_query && url.allows(request.method().as_str(), segments);
        is_allowed.then_some(url)
    };
    allowed().ok_or(Error::NotSigned)
}

/// Returns the URL that the request describes. Its project is the one that the request works on.
fn presented_url(request: &Request, carrier: Carrier, identifying_query: Option<&str>) -> Option<SignedUrl> {
    let list = |part: &'static Part| Some(carrier.part(request, part)?.split(',').map(str::to_owned).collect());
    let (project, _) = identity::project(request.headers(), identifying_query).ok()??;
    let expiry = carrier.part(request, &EXPIRY)?.parse().ok()?;
    SignedUrl::new(list(&PATHS)?, list(&METHODS)?, project, expiry, OffsetDateTime::now_utc()).ok()
}
