//! `/v2/queues/{queue_name}/claims`: create, show, renew and release claims, and return single
//! messages.

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::extract::{ClaimedMessage, LastSegment};
use super::response;
use super::route::{Route, route};
use super::server::delivery::{PendingDeliveries, with_return_guard};
use crate::api::Error;
use crate::api::wire::body;
use crate::api::wire::claims::{self, ClaimDocument};
use crate::api::wire::messages::{self, ListDocument};
use crate::api::wire::query::Query;
use crate::api::wire::view::View;
use crate::auth::Caller;
use crate::broker::Broker;
use crate::broker::claims::{ClaimRequest, TermDraft};
use crate::broker::undelivered::Undelivered;
use crate::domain::QueueId;

/// Maximum size in bytes of a body that creates or renews a claim. It holds two numbers.
pub(super) const BODY_BYTES_MAX: u64 = 65_536;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route("/v2/queues/{queue_name}/claims").on(Method::POST, "Claim could not be created.", create),
        route("/v2/queues/{queue_name}/claims/{claim_id}")
            .on(Method::GET, "Claim could not be retrieved.", get)
            .on(Method::PATCH, "Claim could not be updated.", renew)
            .on(Method::DELETE, "Claim could not be released.", release),
        route("/v2/queues/{queue_name}/claims/{claim_id}/messages/{message_id}").on(
            Method::DELETE,
            "Message could not be returned.",
            return_message,
        ),
    ]
}

/// Claims messages: `201` with the messages, `204` if none is available and none becomes available
/// while the client waits.
async fn create(
    State(broker): State<Broker>,
    view: View,
    caller: Caller,
    queue: QueueId,
    deliveries: PendingDeliveries,
    request: Request,
) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query());
    let (limit, wait_s) = (query.integer("limit")?, query.integer("wait")?);
    let prefer = query.last("prefer").map(claims::parse_preference).transpose()?;
    let term = match body::read(&parts.headers, body, BODY_BYTES_MAX, Error::Request).await? {
        Some(body) => claims::parse_term(&body)?,
        None => TermDraft::default(),
    };
    Ok(match broker.create_claim(&caller, queue.clone(), ClaimRequest { limit, term, wait_s, prefer }).await? {
        Some(Undelivered { value: claim, return_guard }) => {
            let location = [(LOCATION, claims::href(&queue, claim.id))];
            let document = ListDocument { messages: messages::documents(&queue, &claim.messages, view), links: None };
            let list = response::json(&document, messages::documents_bytes(&claim.messages));
            let response = (StatusCode::CREATED, location, list).into_response();
            with_return_guard(response, return_guard, deliveries)
        }
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Returns a claim with the messages that it still holds.
async fn get(
    State(broker): State<Broker>,
    view: View,
    caller: Caller,
    queue: QueueId,
    LastSegment(id): LastSegment,
) -> Result<Response, Error> {
    let claim = broker.get_claim(&caller, &queue, &id).await?;
    Ok(response::json(&ClaimDocument::new(&queue, &claim, view), messages::documents_bytes(&claim.messages)))
}

/// Renews a claim: its time starts again.
async fn renew(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    LastSegment(id): LastSegment,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Request).await?;
    broker.renew_claim(&caller, queue, &id, claims::parse_term(&body)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns one message of a claim to the queue, at once or after a `delay`.
async fn return_message(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    ClaimedMessage(claim, id): ClaimedMessage,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Error> {
    let delay_s = Query::parse(query.as_deref()).integer("delay")?;
    broker.return_message(&caller, queue, &claim, &id, delay_s).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Releases a claim. Releasing an expired or unknown claim has no effect.
async fn release(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    LastSegment(id): LastSegment,
) -> Result<StatusCode, Error> {
    broker.release_claim(&caller, queue, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
