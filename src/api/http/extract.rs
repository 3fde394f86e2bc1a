//! What handlers take from a checked request: the caller, the queue, ids of the path, and the view
//! of messages.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::middleware::request_checks::{RequestContext, decode_segment};
use super::service::Service;
use crate::api::Error;
use crate::api::wire::query::Query;
use crate::api::wire::view::View;
use crate::auth::Caller;
use crate::domain::QueueId;
use crate::domain::queue_id::InvalidQueueId;

/// The query parameter that includes the origin of dead letters in responses.
pub(super) const INCLUDE_ORIGIN: &str = "include_origin";

/// The id at the end of a path, as the client wrote it.
pub(super) struct LastSegment(pub(super) String);

/// The claim id and the message id at the end of a path, as the client wrote them.
pub(super) struct ClaimedMessage(pub(super) String, pub(super) String);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        let context: &RequestContext =
            parts.extensions.get().expect("handlers with a caller are called after the checks only");
        Ok(Self::Client(context.client.clone()))
    }
}

impl<S: Sync> FromRequestParts<S> for QueueId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        let queue = parts.extensions.get().and_then(|context: &RequestContext| context.queue.clone());
        queue.ok_or(Error::QueueId(InvalidQueueId::Name))
    }
}

impl<S: Sync> FromRequestParts<S> for LastSegment {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        Ok(Self(decode_segment(parts.uri.path().rsplit('/').next().unwrap_or_default()).into_owned()))
    }
}

impl<S: Sync> FromRequestParts<S> for ClaimedMessage {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        let mut segments = parts.uri.path().rsplit('/').map(|segment| decode_segment(segment).into_owned());
        let id = segments.next().unwrap_or_default();
        let claim = segments.nth(1).unwrap_or_default();
        Ok(Self(claim, id))
    }
}

impl FromRequestParts<Service> for View {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Error> {
        // Handlers that need the query parse it again, so it is parsed here only if it can have the
        // parameter.
        let query = parts.uri.query().filter(|query| query.contains(['%', '+']) || query.contains(INCLUDE_ORIGIN));
        let origins = Query::parse(query).boolean(INCLUDE_ORIGIN)?.unwrap_or(false);
        Ok(Self { checksums: service.settings.checksums, origins })
    }
}
