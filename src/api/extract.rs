//! What handlers take from a checked request: the caller, the queue, ids of the path, and the view
//! of messages.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::middleware::request_checks::{RequestContext, decode_segment};
use super::service::Service;
use crate::auth::Caller;
use crate::broker::Broker;
use crate::wire::Error;
use crate::wire::query::Query;
use crate::wire::view::View;
use sukkal_domain::queue_id::InvalidQueueId;
use sukkal_domain::{QueueId, QueueKind};

/// The query parameter that includes the origin of dead letters in responses.
pub(super) const INCLUDE_ORIGIN: &str = "include_origin";
/// The query parameter that includes the trace context of messages in responses.
pub(super) const INCLUDE_TRACE: &str = "include_trace";
/// The query parameter that includes the states of messages in responses.
pub(super) const INCLUDE_STATE: &str = "include_state";

/// The queue or topic that the path names.
pub(super) struct Queue(pub(super) QueueId);

/// Whether a request uses a pre-signed URL.
pub(super) struct IsSigned(pub(super) bool);

/// Whether a request uses a URL that is pre-signed for its path alone.
pub(super) struct IsSignedForPath(pub(super) bool);

/// What most handlers of the paths of a queue need.
pub(super) struct OnQueue {
    pub(super) broker: Broker,
    pub(super) caller: Caller,
    pub(super) queue: QueueId,
}

/// A segment of the path, as the client wrote it. The last one is 0 from the end.
pub(super) struct Segment<const FROM_END: usize>(pub(super) String);

fn context_of(parts: &Parts) -> &RequestContext {
    parts.extensions.get().expect("handlers with a caller are called after the checks only")
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        Ok(Self::Client(context_of(parts).client.clone()))
    }
}

impl<S: Sync> FromRequestParts<S> for Queue {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        let queue = parts.extensions.get().and_then(|context: &RequestContext| context.queue.clone());
        queue.map(Self).ok_or(Error::QueueId(InvalidQueueId::Name(QueueKind::Queue)))
    }
}

impl<S: Sync, const FROM_END: usize> FromRequestParts<S> for Segment<FROM_END> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        let segment = parts.uri.path().rsplit('/').nth(FROM_END).unwrap_or_default();
        Ok(Self(decode_segment(segment).into_owned()))
    }
}

impl FromRequestParts<Service> for OnQueue {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Error> {
        let Queue(queue) = Queue::from_request_parts(parts, service).await?;
        Ok(Self { broker: service.broker.clone(), caller: Caller::Client(context_of(parts).client.clone()), queue })
    }
}

impl<S: Sync> FromRequestParts<S> for IsSigned {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        Ok(Self(context_of(parts).is_signed))
    }
}

impl<S: Sync> FromRequestParts<S> for IsSignedForPath {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Error> {
        Ok(Self(context_of(parts).is_signed_for_path))
    }
}

impl FromRequestParts<Service> for View {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Error> {
        // Handlers that need the query parse it again, so it is parsed here only if it can have one
        // of the parameters.
        let is_relevant = |parameter: &str| {
            parameter.contains(['%', '+'])
                || [INCLUDE_ORIGIN, INCLUDE_TRACE, INCLUDE_STATE].iter().any(|name| parameter.starts_with(name))
        };
        let query = Query::parse(parts.uri.query().filter(|query| query.split('&').any(is_relevant)));
        let is_included = |name| Ok::<_, Error>(query.boolean(name)?.unwrap_or(false));
        let (origins, traces) = (is_included(INCLUDE_ORIGIN)?, is_included(INCLUDE_TRACE)?);
        let deliveries = is_included(INCLUDE_STATE)?;
        Ok(Self { checksums: service.settings.checksums, origins, traces, deliveries, claims: true })
    }
}
