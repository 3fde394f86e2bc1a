//! `/v2/queues/{queue_name}/claims`: lease messages, look at the lease, renew it, give it back.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};

use super::admission::{ClaimedMessage, LastSegment};
use super::answer;
use super::connections::Connection;
use super::delivery::with_way_back;
use super::resource::{Resource, resource};
use crate::api::Error;
use crate::api::wire::body;
use crate::api::wire::claims::{self, ClaimDocument};
use crate::api::wire::messages::{self, ListDocument};
use crate::api::wire::query::Query;
use crate::api::wire::view::View;
use crate::broker::Broker;
use crate::broker::claims::{ClaimRequest, TermDraft};
use crate::broker::taken::Taken;
use crate::domain::QueueId;

/// The largest body that makes or renews a claim, in bytes: it holds two numbers.
pub(super) const BODY_BYTES_MAX: u64 = 65_536;

pub(super) fn routes() -> Vec<Resource> {
    vec![
        resource("/v2/queues/{queue_name}/claims", "OPTIONS, POST", post(create)),
        resource(
            "/v2/queues/{queue_name}/claims/{claim_id}",
            "DELETE, GET, OPTIONS, PATCH",
            get(show).patch(renew).delete(release),
        ),
        resource(
            "/v2/queues/{queue_name}/claims/{claim_id}/messages/{message_id}",
            "DELETE, OPTIONS",
            delete(return_one),
        ),
    ]
}

/// Claims messages: `201` with them, `204` when none is free, and none becomes so while the client waits.
async fn create(
    State(broker): State<Broker>,
    view: View,
    queue: QueueId,
    RawQuery(query): RawQuery,
    connection: Option<Extension<Arc<Connection>>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let (limit, wait_s) = (query.integer("limit")?, query.integer("wait")?);
    let prefer = query.last("prefer").map(claims::parse_preference).transpose()?;
    let term = match body::read(&headers, body, BODY_BYTES_MAX, Error::Request).await? {
        Some(body) => claims::parse_term(&body)?,
        None => TermDraft::default(),
    };
    Ok(match broker.create_claim(queue.clone(), ClaimRequest { limit, term, wait_s, prefer }).await? {
        Some(Taken { value: claim, way_back }) => {
            let location = [(LOCATION, claims::href(&queue, claim.id))];
            let document = ListDocument { messages: messages::documents(&queue, &claim.messages, view), links: None };
            let list = answer::json(&document, messages::documents_bytes(&claim.messages));
            let response = (StatusCode::CREATED, location, list).into_response();
            with_way_back(response, way_back, connection)
        }
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// A claim with the messages that it still holds.
async fn show(
    State(broker): State<Broker>,
    view: View,
    queue: QueueId,
    LastSegment(id): LastSegment,
) -> Result<Response, Error> {
    let claim = broker.get_claim(&queue, &id).await?;
    Ok(answer::json(&ClaimDocument::new(&queue, &claim, view), messages::documents_bytes(&claim.messages)))
}

/// Lets a claim run anew.
async fn renew(
    State(broker): State<Broker>,
    queue: QueueId,
    LastSegment(id): LastSegment,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Request).await?;
    broker.renew_claim(queue, &id, claims::parse_term(&body)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives one message of a claim back, at once or after a `delay`.
async fn return_one(
    State(broker): State<Broker>,
    queue: QueueId,
    ClaimedMessage(claim, id): ClaimedMessage,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Error> {
    let delay_s = Query::parse(query.as_deref()).integer("delay")?;
    broker.return_message(queue, &claim, &id, delay_s).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives a claim back; one that is not live is left so.
async fn release(
    State(broker): State<Broker>,
    queue: QueueId,
    LastSegment(id): LastSegment,
) -> Result<StatusCode, Error> {
    broker.release_claim(queue, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
