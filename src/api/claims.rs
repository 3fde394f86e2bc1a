//! `/v2/queues/{queue_name}/claims`: create, list, show, renew and release claims, and return
//! single messages.

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::extract::{INCLUDE_ORIGIN, INCLUDE_STATE, INCLUDE_TRACE, OnQueue, Queue, Segment};
use super::parameters::Parameters;
use super::response;
use super::route::{Route, route};
use super::server::delivery::{PendingDeliveries, with_return_guard};
use super::service::Service;
use super::stream_credential::while_valid;
use super::warnings::Warnings;
use crate::auth::Caller;
use crate::broker::Action;
use crate::broker::claims::{ClaimRequest, TermDraft};
use crate::broker::undelivered::Undelivered;
use crate::wire::Error;
use crate::wire::body;
use crate::wire::claims::{self, ClaimDocument, ClaimListDocument, ListedClaimDocument, NewClaimDocument};
use crate::wire::query::Query;
use crate::wire::view::View;
use crate::wire::{links, messages};
use sukkal_domain::{Fence, Taken, Warning, WithWarnings};

/// Maximum size in bytes of a body that creates or renews a claim. It holds two numbers.
pub(super) const BODY_BYTES_MAX: u64 = 65_536;
/// The fencing token of a claim, on responses that create, show or renew it.
static CLAIM_FENCE: HeaderName = HeaderName::from_static("claim-fence");
/// Estimated maximum size in bytes of a page of claims with the default client ids and limits.
const LIST_BYTES: usize = 8_192;
/// Query parameter that includes the fencing token in documents of claims.
const INCLUDE_FENCE: &str = "include_fence";
const CREATE_PARAMETERS: Parameters =
    Parameters::of(&["limit", "wait", "prefer", INCLUDE_FENCE, INCLUDE_STATE, INCLUDE_ORIGIN, INCLUDE_TRACE]);
const GET_PARAMETERS: Parameters = Parameters::of(&[INCLUDE_FENCE, INCLUDE_STATE, INCLUDE_ORIGIN, INCLUDE_TRACE]);

pub(super) fn routes() -> Vec<Route> {
    vec![
        route("/v2/queues/{queue_name}/claims")
            .on_query(Method::GET, "Claims could not be listed.", Parameters::of(&["marker", "limit"]), list)
            .on_query(Method::POST, "Claim could not be created.", CREATE_PARAMETERS, create),
        route("/v2/queues/{queue_name}/claims/{claim_id}")
            .on_query(Method::GET, "Claim could not be retrieved.", GET_PARAMETERS, get)
            .on(Method::PATCH, "Claim could not be updated.", renew)
            .on(Method::DELETE, "Claim could not be released.", release),
        route("/v2/queues/{queue_name}/claims/{claim_id}/messages/{message_id}").on_query(
            Method::DELETE,
            "Message could not be returned.",
            Parameters::of(&["delay"]),
            return_message,
        ),
    ]
}

/// Claims messages: `201` with the messages, `204` if none is available and none becomes available
/// while the client waits. The `204` has `Retry-After` if the queue is paused.
async fn create(
    State(Service { broker, settings, .. }): State<Service>,
    view: View,
    caller: Caller,
    Queue(queue): Queue,
    deliveries: PendingDeliveries,
    request: Request,
) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query());
    let (limit, wait_s) = (query.integer("limit")?, query.integer("wait")?);
    let prefer = query.last("prefer").map(claims::parse_preference).transpose()?;
    let includes_fence = query.boolean(INCLUDE_FENCE)?.unwrap_or(false);
    let WithWarnings { value: term, mut warnings } =
        match body::read(&parts.headers, body, BODY_BYTES_MAX, Error::Request).await? {
            Some(body) => claims::parse_term(&body)?,
            None => WithWarnings::none(TermDraft::default()),
        };
    if let Some(preference) = &prefer {
        warnings.extend(broker.useless_preference(&caller, &queue, preference).await);
    }
    let claim = broker.create_claim(&caller, queue.clone(), ClaimRequest { limit, term, wait_s, prefer });
    let response = match while_valid(&parts.headers, &settings, wait_s, claim).await? {
        Taken::Messages(Undelivered { value: claim, return_guard }) => {
            let location = [(LOCATION, claims::href(&queue, claim.id))];
            let document = NewClaimDocument::new(&queue, &claim, view, includes_fence);
            let document = response::json(&document, messages::documents_bytes(&claim.messages));
            let response = (StatusCode::CREATED, location, fence_header(claim.fence), document).into_response();
            with_return_guard(response, return_guard, deliveries)
        }
        Taken::Nothing => {
            warnings.extend(broker.missing_queue(&caller, Action::CreateClaim, &queue).await);
            StatusCode::NO_CONTENT.into_response()
        }
        Taken::Paused => {
            warnings.push(Warning::Paused);
            (StatusCode::NO_CONTENT, response::retry_after_pause()).into_response()
        }
    };
    Ok((Warnings(warnings), response).into_response())
}

/// Returns a page of the queue's live claims, in the order of their ids.
async fn list(OnQueue { broker, caller, queue }: OnQueue, RawQuery(query): RawQuery) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let marker = query.last("marker").map(claims::parse_marker).transpose()?;
    let limit = query.integer("limit")?;
    let claims = broker.list_claims(&caller, &queue, marker, limit).await?;
    let parameters = [("limit", limit.map(|limit| limit.to_string()))];
    let last = claims.last().map(|claim| claim.id.to_string());
    let links = links::next(&claims::path(&queue), marker.is_some(), &parameters, last.as_deref());
    let mut warnings = Vec::new();
    if claims.is_empty() {
        warnings = broker.missing_queue(&caller, Action::ListClaims, &queue).await;
    }
    let claims = claims.iter().map(|claim| ListedClaimDocument::new(&queue, claim)).collect();
    let document = response::json(&ClaimListDocument { claims, links }, LIST_BYTES);
    Ok((Warnings(warnings), document).into_response())
}

/// Returns a claim with the messages that it still holds.
async fn get(
    view: View,
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let includes_fence = Query::parse(query.as_deref()).boolean(INCLUDE_FENCE)?.unwrap_or(false);
    let claim = broker.get_claim(&caller, &queue, &id).await?;
    let document = ClaimDocument::new(&queue, &claim, view, includes_fence);
    let document = response::json(&document, messages::documents_bytes(&claim.messages));
    Ok((fence_header(claim.fence), document).into_response())
}

/// Renews a claim: its time starts again.
async fn renew(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Request).await?;
    let WithWarnings { value: term, warnings } = claims::parse_term(&body)?;
    let fence = broker.renew_claim(&caller, queue, &id, term).await?;
    Ok((StatusCode::NO_CONTENT, fence_header(fence), Warnings(warnings), ()).into_response())
}

/// Returns one message of a claim to the queue, at once or after a `delay`.
async fn return_message(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(claim): Segment<2>,
    Segment(id): Segment<0>,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let delay_s = Query::parse(query.as_deref()).integer("delay")?;
    let returned = broker.return_message(&caller, queue, &claim, &id, delay_s).await?;
    Ok((StatusCode::NO_CONTENT, Warnings(returned.warnings), ()).into_response())
}

/// Releases a claim. Releasing an expired or unknown claim has no effect.
async fn release(OnQueue { broker, caller, queue }: OnQueue, Segment(id): Segment<0>) -> Result<StatusCode, Error> {
    broker.release_claim(&caller, queue, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn fence_header(fence: Fence) -> [(HeaderName, HeaderValue); 1] {
    [(CLAIM_FENCE.clone(), HeaderValue::from(fence.0))]
}
