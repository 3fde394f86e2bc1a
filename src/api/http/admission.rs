//! What every request has to bring, checked in the order of the API: who calls, and which queue is
//! meant. Handlers get both as values that are valid.

use std::borrow::Cow;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use time::OffsetDateTime;

use super::hearing::Arriving;
use super::representation::{self, accepts_events};
use super::warnings::Warnings;
use super::{Service, Settings};
use crate::api::Error;
use crate::api::error::{HEAD_BYTES_MAX, URL_BYTES_MAX};
use crate::api::wire::query::Query;
use crate::auth::Caller;
use crate::auth::signed_url::{SignedUrl, Signer};
use crate::domain::queue::InvalidQueueId;
use crate::domain::{ClientId, ClientIdRule, ProjectId, QueueId, Warning};

static CLIENT_ID: HeaderName = HeaderName::from_static("client-id");
static PROJECT_ID: [HeaderName; 3] = [
    HeaderName::from_static("x-project-id"),
    HeaderName::from_static("x-tenant-id"),
    HeaderName::from_static("x-tenant"),
];
/// The same, as they are shown.
const PROJECT_ID_SHOWN: [&str; 3] = ["X-Project-ID", "X-Tenant-Id", "X-Tenant"];
/// Where a stream's client names itself that can set no headers.
const CLIENT_PARAMETER: &str = "client_id";
const PROJECT_PARAMETER: &str = "project_id";
static ROLES: HeaderName = HeaderName::from_static("x-roles");
static SIGNATURE: HeaderName = HeaderName::from_static("url-signature");
static SIGNED_PATHS: HeaderName = HeaderName::from_static("url-paths");
static SIGNED_METHODS: HeaderName = HeaderName::from_static("url-methods");
static SIGNED_EXPIRY: HeaderName = HeaderName::from_static("url-expires");
/// The colon, the space and the line break of a header, in bytes.
const HEADER_FRAME_BYTES: usize = 4;
/// Number of segments of the longest path of the API.
const SEGMENTS_MAX: usize = 7;

/// What an admitted request carries to its handler.
#[derive(Clone)]
struct Admitted {
    caller: Caller,
    queue: Option<QueueId>,
}

/// The id at the end of a path, as the caller spells it.
pub(super) struct LastSegment(pub(super) String);

/// The claim and the message of a path that ends in them, as the caller spells them.
pub(super) struct ClaimedMessage(pub(super) String, pub(super) String);

/// Lets a request through to its handler, or answers what it lacks.
pub(super) async fn admit(service: &Service, mut request: Request, next: Next) -> Result<Response, Error> {
    let (admitted, warning) = admitted(&request, &service.settings)?;
    if let Some(body) = request.extensions().get::<Arriving>() {
        body.charge(service.bodies.share(&admitted.caller.project));
    }
    request.extensions_mut().insert(admitted);
    let response = next.run(request).await;
    Ok(match warning {
        None => response,
        Some(warning) => (Warnings(vec![warning]), response).into_response(),
    })
}

fn admitted(request: &Request, settings: &Settings) -> Result<(Admitted, Option<Warning>), Error> {
    let mut segments = Vec::with_capacity(SEGMENTS_MAX);
    segments.extend(request.uri().path().split('/').skip(1).map(decoded));
    // A slash that came in disguise makes it a path of its own, and there is none like that.
    if segments.iter().any(|segment| segment.contains('/')) {
        return Err(Error::NoRoute);
    }
    check_signature(request.method(), &segments, request.headers(), settings.signer.as_ref())?;
    let is_stream = is_feed(request.method(), &segments) && accepts_events(request.headers());
    if !is_stream {
        representation::check(request.headers())?;
    }
    // A browser's EventSource can set no headers.
    let query = is_stream.then(|| Query::parse(request.uri().query()));
    let (caller, warning) = caller(request.headers(), query.as_ref(), settings)?;
    let queue = match &segments[..] {
        [_v2, queues, name, ..] if queues == "queues" => Some(QueueId::new(caller.project.clone(), name.parse()?)?),
        _ => None,
    };
    Ok((Admitted { caller, queue }, warning))
}

/// Whether it is the messages of a queue that are asked for.
fn is_feed(method: &Method, segments: &[Cow<'_, str>]) -> bool {
    matches!(segments, [_v2, queues, _name, messages] if queues == "queues" && messages == "messages")
        && method == Method::GET
}

/// Lets a request through that needs no caller. No URL is signed for what everybody may see.
pub(super) async fn admit_anybody(request: Request, next: Next) -> Result<Response, Error> {
    if request.headers().contains_key(&SIGNATURE) {
        return Err(Error::NotSigned);
    }
    representation::check(request.headers())?;
    Ok(next.run(request).await)
}

/// A segment of a path. What is not UTF-8 becomes a character that no name and no id has.
fn decoded(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return segment.into();
    }
    percent_decode_str(segment).decode_utf8_lossy()
}

/// Where there is a signature, the request has to be one that its URL allows. What does not fit is not said.
fn check_signature(
    method: &Method,
    segments: &[Cow<'_, str>],
    headers: &HeaderMap,
    signer: Option<&Signer>,
) -> Result<(), Error> {
    if !headers.contains_key(&SIGNATURE) {
        return Ok(());
    }
    let is_allowed = || {
        let url = presented_url(headers)?;
        Some(signer?.has_signed(&url, only(headers, &SIGNATURE)?) && url.allows(method.as_str(), segments))
    };
    if is_allowed() == Some(true) { Ok(()) } else { Err(Error::NotSigned) }
}

/// The URL that the headers describe. The project is the one that the request will work on.
fn presented_url(headers: &HeaderMap) -> Option<SignedUrl> {
    let list = |name: &HeaderName| Some(only(headers, name)?.split(',').map(str::to_owned).collect());
    let is_single = |name: &HeaderName| headers.get_all(name).iter().count() <= 1;
    let project = project(headers).ok().filter(|_| PROJECT_ID.iter().all(is_single))?;
    let expiry = only(headers, &SIGNED_EXPIRY)?.parse().ok()?;
    SignedUrl::new(list(&SIGNED_PATHS)?, list(&SIGNED_METHODS)?, project, expiry, OffsetDateTime::now_utc()).ok()
}

/// The header's value if there is one; of two it could not be said which was signed.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok())?
}

/// Checks the message itself, whatever it asks for.
pub(super) fn check_message(request: &Request) -> Result<(), Error> {
    let url_bytes = request.uri().path_and_query().map_or(0, |url| url.as_str().len());
    if url_bytes > URL_BYTES_MAX {
        return Err(Error::UrlTooLong(url_bytes));
    }
    let head_bytes =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_FRAME_BYTES);
    let head_bytes = url_bytes + head_bytes.sum::<usize>();
    if head_bytes > HEAD_BYTES_MAX {
        return Err(Error::HeadTooLarge);
    }
    // RFC 9112, 3.2.
    if request.version() == Version::HTTP_11 && request.headers().get_all(header::HOST).iter().count() != 1 {
        return Err(Error::Host);
    }
    Ok(())
}

/// Refuses headers from which two readers could learn of different callers: a proxy adds its own behind those of its client. Headers of
/// different names may name different projects, because published clients send such; the first of `PROJECT_ID` counts.
fn check_identity(headers: &HeaderMap) -> Result<Option<Warning>, Error> {
    single(headers, &CLIENT_ID, "Client-ID")?;
    single(headers, &ROLES, "X-Roles")?;
    let (mut used, mut differ) = (None, false);
    for (name, shown) in PROJECT_ID.iter().zip(PROJECT_ID_SHOWN) {
        if let Some(project) = single(headers, name, shown)? {
            let (_, counts) = used.get_or_insert((shown, project));
            differ |= *counts != project;
        }
    }
    Ok(used.filter(|_| differ).map(|(used, _)| Warning::ProjectsDiffer { used }))
}

/// The value of a header that may be there once.
fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    shown: &'static str,
) -> Result<Option<&'a HeaderValue>, Error> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() { Err(Error::RepeatedHeader(shown)) } else { Ok(value) }
}

/// Who calls. The query of an event stream may say so where the headers do not.
fn caller(headers: &HeaderMap, query: Option<&Query>, settings: &Settings) -> Result<(Caller, Option<Warning>), Error> {
    let client = client(headers, query, &settings.client_id)?;
    let project = match (project(headers), query.and_then(|query| query.last(PROJECT_PARAMETER))) {
        // A header could not have control characters either.
        (Err(Error::ProjectMissing { .. }), Some(project)) if project.contains(char::is_control) => {
            return Err(Error::ProjectInvalid);
        }
        (Err(Error::ProjectMissing { .. }), Some(project)) => ProjectId::new(project).ok_or(Error::ProjectEmpty)?,
        (Err(Error::ProjectMissing { .. }), None) => return Err(Error::ProjectMissing { is_stream: query.is_some() }),
        (project, _) => project?,
    };
    let warning = check_identity(headers)?;
    let roles = text(headers, &ROLES).into_iter().flat_map(|roles| roles.split(','));
    let roles = roles.map(|role| role.trim().to_owned()).collect();
    Ok((Caller { project, client, roles }, warning))
}

fn project(headers: &HeaderMap) -> Result<ProjectId, Error> {
    let project =
        PROJECT_ID.iter().find_map(|name| headers.get(name)).ok_or(Error::ProjectMissing { is_stream: false })?;
    // Two ids that are no text must not become one by being mended.
    let project = str::from_utf8(project.as_bytes()).map_err(|_| Error::ProjectInvalid)?;
    ProjectId::new(project).ok_or(Error::ProjectEmpty)
}

fn client(headers: &HeaderMap, query: Option<&Query>, rule: &ClientIdRule) -> Result<ClientId, Error> {
    let (carrier, client) = match headers.get(&CLIENT_ID) {
        Some(client) => ("The header Client-ID", client.as_bytes()),
        None => match query.and_then(|query| query.last(CLIENT_PARAMETER)) {
            Some(client) => ("The parameter client_id", client.as_bytes()),
            None => return Err(Error::ClientIdMissing { is_stream: query.is_some() }),
        },
    };
    let client = str::from_utf8(client).ok().filter(|client| !client.contains(char::is_control));
    let client = client.and_then(|client| rule.parse(client));
    client.ok_or_else(|| Error::ClientIdInvalid { carrier, accepted: rule.clone() })
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        let admitted: &Admitted = parts.extensions.get().expect("every route with a caller is behind admission");
        Ok(admitted.caller.clone())
    }
}

impl<S: Sync> FromRequestParts<S> for LastSegment {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        Ok(Self(decoded(parts.uri.path().rsplit('/').next().unwrap_or_default()).into_owned()))
    }
}

impl<S: Sync> FromRequestParts<S> for ClaimedMessage {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        let mut segments = parts.uri.path().rsplit('/').map(|segment| decoded(segment).into_owned());
        let id = segments.next().unwrap_or_default();
        let claim = segments.nth(1).unwrap_or_default();
        Ok(Self(claim, id))
    }
}

impl<S: Sync> FromRequestParts<S> for QueueId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        let queue = parts.extensions.get().and_then(|admitted: &Admitted| admitted.queue.clone());
        queue.ok_or(Error::QueueId(InvalidQueueId::Name))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::wire::checksum::Checksums;

    #[test]
    fn ids_that_are_not_utf_8_are_refused_not_mixed_up() {
        let client_id = ClientIdRule::Text(1..=36);
        let (signer, checksums) = (None, Checksums::Hidden);
        let stream_heartbeat = Duration::MAX;
        let settings = Settings {
            admin_mode: false,
            client_id,
            client_timeout: Duration::MAX,
            signer,
            checksums,
            stream_heartbeat,
        };
        let call = |project: &[u8], client: &[u8]| {
            let header = |bytes| HeaderValue::from_bytes(bytes).unwrap();
            let headers = [(PROJECT_ID[0].clone(), header(project)), (CLIENT_ID.clone(), header(client))];
            caller(&HeaderMap::from_iter(headers), None, &settings)
        };

        assert_eq!(call("café".as_bytes(), b"me").unwrap().0.project.as_str(), "café");
        assert!(matches!(call(b"caf\xe9", b"me"), Err(Error::ProjectInvalid)));
        assert!(matches!(call(b"p", b"caf\xe9"), Err(Error::ClientIdInvalid { .. })));
    }
}
