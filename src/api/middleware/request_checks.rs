//! Checks what every request must have, in the order that the API defines, and identifies the
//! caller and the queue.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderMap, Method, Uri, Version, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;

use super::audit;
use super::authentication::{Proof, authenticate, ignored_credential};
use super::body_drain::RequestBody;
use super::identity::{self, DURABILITY, IDEMPOTENCY_KEY};
use super::operator;
use super::response_memory::ResponseMemory;
use super::signature::{self, Carrier};
use crate::api::content_negotiation::{self, prefers_events};
use crate::api::parameters::Parameters;
use crate::api::server::connection::Connection;
use crate::api::service::Service;
use crate::api::stream;
use crate::api::warnings::Warnings;
use crate::auth::signed_url::SignedUrl;
use crate::auth::{Client, Identity};
use crate::authentication::Sender;
use crate::wire::Error;
use crate::wire::error::{HEAD_BYTES_MAX, HEADERS_MAX, URL_BYTES_MAX};
use crate::wire::headers;
use sukkal_domain::role;
use sukkal_domain::{QueueId, QueueKind, QueueName, Warning};

/// Size in bytes of the colon, the space and the line break of a header.
const HEADER_FRAME_BYTES: usize = 4;
/// Number of segments in the longest path of the API.
const SEGMENTS_MAX: usize = 7;

/// What a route requires of a request, besides a valid head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum Requirement {
    /// A sender that is known, a caller, a valid signature if there is one, and acceptable media
    /// types.
    Caller,
    /// A sender that is known or a signature, as for paths that do not exist.
    Sender,
    /// Acceptable media types and no signature: URLs are not signed for resources that everybody
    /// may read.
    Public,
    /// Nothing else.
    Nothing,
}

/// The client of a request that has passed the checks, and the queue of its path, if the path has
/// one.
#[derive(Clone)]
pub(in crate::api) struct RequestContext {
    /// The client that sent the request.
    pub(in crate::api) client: Client,
    /// The queue.
    pub(in crate::api) queue: Option<QueueId>,
    /// Whether the request uses a pre-signed URL.
    pub(in crate::api) is_signed: bool,
    /// Whether that URL is signed for this path alone, and not for one above it.
    pub(in crate::api) is_signed_for_path: bool,
}

/// Calls the handler of a request that meets [`Requirement::Caller`].
pub(super) async fn check_and_call<T, H: Handler<T, Service>>(
    mut request: Request,
    body: Option<&RequestBody>,
    service: &Service,
    parameters: Parameters,
    handler: H,
) -> Result<Response, Error> {
    let proof = authenticate(&request, &service.settings).await?;
    let Checked { context, mut warnings, handled_uri, credentials_count } =
        check(&request, proof, service, parameters)?;
    if let Some(uri) = handled_uri {
        *request.uri_mut() = uri;
    }
    warnings.extend(parameters.warnings(request.uri().query(), credentials_count));
    if let Some(body) = body {
        body.charge_to(service.request_bodies.share(&context.client.project));
    }
    let memory = ResponseMemory::of(&request, &context.client.project, service)?;
    request.extensions_mut().insert(context);
    let response = memory.hold(handler.call(request, service.clone()).await)?;
    let response = if warnings.is_empty() { response } else { (Warnings(warnings), response).into_response() };
    Ok(stream::with_warnings(response))
}

/// A request that meets [`Requirement::Caller`].
struct Checked {
    context: RequestContext,
    warnings: Vec<Warning>,
    /// The URL for the handler, if it differs from that of the request.
    handled_uri: Option<Uri>,
    /// Whether credentials in the query have an effect.
    credentials_count: bool,
}

fn check(request: &Request, proof: Proof, service: &Service, parameters: Parameters) -> Result<Checked, Error> {
    let settings = &*service.settings;
    let mut segments = Vec::with_capacity(SEGMENTS_MAX);
    segments.extend(request.uri().path().split('/').skip(1).map(decode_segment));
    // With an encoded slash, the decoded path is another one, which no route has.
    if segments.iter().any(|segment| segment.contains('/')) {
        return Err(Error::NoRoute(String::new()));
    }
    let query = request.uri().query();
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let is_stream = is_messages(&segments) && is_read && prefers_events(request.headers());
    // The EventSource of a browser cannot set headers, and neither can a link.
    let is_post = is_messages(&segments) && request.method() == Method::POST;
    let query_counts = is_stream || matches!(proof, Proof::Signature(Carrier::Query));
    let identifying_query = query_counts.then(|| query.unwrap_or_default());
    let is_signed = matches!(proof, Proof::Signature(_));
    let mut is_signed_for_path = false;
    let sender = match proof {
        Proof::Sender(sender) => sender,
        Proof::Signature(carrier) => {
            let url = signature::check(request, &segments, carrier, identifying_query, settings)?;
            is_signed_for_path = url.is_for(&segments);
            Sender::Identified(holder(&url))
        }
    };
    if let Some(connection) = request.extensions().get::<Arc<Connection>>() {
        connection.note_known();
    }
    if !is_stream {
        content_negotiation::check(request.headers())?;
    }
    let is_anybody = matches!(sender, Sender::Anybody(_));
    let of_credential = is_anybody.then(|| ignored_credential(request.headers())).flatten();
    let (mut client, of_caller) = identity::caller(request.headers(), identifying_query, settings, sender)?;
    if !is_signed {
        client.roles.retain(|role| role::is_role_of_credentials(role));
    }
    let own_project = client.project.clone();
    let handled_uri = match operator::named_project(request, &client, settings, parameters)? {
        Some((project, uri)) => {
            client.project = project;
            Some(uri)
        }
        None => None,
    };
    let of_query = identity::beside_headers(request.headers(), identifying_query);
    let of_headers = (!is_post).then(|| warnings_of_post_headers(request.headers()));
    let queue = match &segments[..] {
        [_v2, plural, name, ..] => match QueueKind::of_plural(plural) {
            Some(kind) => Some(QueueId::new(client.project.clone(), QueueName::of_kind(kind, name)?)?),
            None => None,
        },
        _ => None,
    };
    audit::note_client(&client, &own_project, queue.as_ref());
    // An operator who acts on another project does not use the rate of that project.
    service.broker.count_request(&own_project)?;
    Ok(Checked {
        context: RequestContext { client, queue, is_signed, is_signed_for_path },
        warnings: of_caller
            .into_iter()
            .chain(of_credential)
            .chain(of_query)
            .chain(of_headers.into_iter().flatten())
            .collect(),
        handled_uri,
        credentials_count: query_counts,
    })
}

/// Returns the identity of the holders of a pre-signed URL.
fn holder(url: &SignedUrl) -> Identity {
    Identity {
        subject: "the holder of a pre-signed URL".to_owned(),
        project: Some(url.project().clone()),
        roles: vec![role::SIGNED_URL.to_owned()],
        expires_at: Some(url.expiry().into()),
    }
}

/// Returns whether a path is that of the messages of a queue.
fn is_messages(segments: &[Cow<'_, str>]) -> bool {
    matches!(segments, [_v2, plural, _name, part] if QueueKind::of_plural(plural).is_some() && part == "messages")
}

/// Returns warnings about headers that have a meaning for posts of messages alone.
fn warnings_of_post_headers(headers: &HeaderMap) -> impl Iterator<Item = Warning> {
    let of_posts = [(&IDEMPOTENCY_KEY, "Idempotency-Key"), (&DURABILITY, "Durability")].into_iter();
    of_posts.filter(|(name, _)| headers.contains_key(*name)).map(|(_, spelling)| Warning::HeaderOfPosts(spelling))
}

/// Checks a request against [`Requirement::Public`].
pub(super) fn check_public(request: &Request) -> Result<(), Error> {
    if Carrier::of(request.headers(), request.uri().query())?.is_some() {
        audit::note_strategy(role::SIGNED_URL);
        return Err(Error::NotSigned);
    }
    content_negotiation::check(request.headers())
}

/// Decodes a segment of a path. Bytes that are not UTF-8 become a character that no name and no id
/// contains.
pub(in crate::api) fn decode_segment(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return segment.into();
    }
    percent_decode_str(segment).decode_utf8_lossy()
}

/// Checks the size of the URL and the headers, the `Host` header, and that no header with one value
/// is repeated.
pub(super) fn check_head(request: &Request) -> Result<(), Error> {
    let url_bytes = request.uri().path_and_query().map_or(0, |url| url.as_str().len());
    if url_bytes > URL_BYTES_MAX {
        return Err(Error::UrlTooLong(url_bytes));
    }
    if request.headers().len() > HEADERS_MAX {
        return Err(Error::TooManyHeaders(request.headers().len()));
    }
    let head_bytes =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_FRAME_BYTES);
    let head_bytes = url_bytes + head_bytes.sum::<usize>();
    if head_bytes > HEAD_BYTES_MAX {
        return Err(Error::HeadTooLarge);
    }
    // RFC 9112, section 3.2. With HTTP/2, the server has made a `Host` of `:authority`.
    let names_host = matches!(request.version(), Version::HTTP_11 | Version::HTTP_2);
    if names_host && request.headers().get_all(header::HOST).iter().count() != 1 {
        return Err(Error::Host);
    }
    let sent = request.headers();
    if sent.len() > sent.keys_len()
        && let Some(repeated) = headers::repeated(sent.iter().map(|(name, _)| name.as_str().as_bytes()))
    {
        return Err(Error::RepeatedHeader(repeated));
    }
    Ok(())
}
