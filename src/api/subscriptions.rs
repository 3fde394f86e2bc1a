//! `/v2/queues/{queue_name}/subscriptions`: create, list, show, change, confirm, pause, resume and
//! delete subscriptions, list their attempts, and deliver messages again. The subscriptions of
//! topics have the same routes.

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::Value;

use super::extract::{IsSignedForPath, OnQueue, Queue, Segment};
use super::middleware::authentication::presented_token;
use super::parameters::Parameters;
use super::response;
use super::response::Json;
use super::route::{Route, path_of, route};
use super::service::Service;
use super::warnings::Warnings;
use crate::auth::Caller;
use crate::broker::messages::Since;
use crate::broker::subscriptions::ConfirmedBy;
use crate::broker::{self, Action};
use crate::wire::Error;
use crate::wire::query::Query;
use crate::wire::subscriptions::{self, BODY_BYTES_MAX, SubscriptionListDocument};
use crate::wire::{body, links};
use sukkal_domain::{QueueKind, WithWarnings};

/// Estimated maximum size in bytes of a page of subscriptions with few options.
const LIST_BYTES: usize = 8_192;
/// Query parameter that includes how far deliveries have come.
const WITH_DELIVERY: &str = "with_delivery";
const LIST_PARAMETERS: Parameters = Parameters::of(&["marker", "limit", WITH_DELIVERY]);

pub(super) fn routes(kind: QueueKind) -> Vec<Route> {
    vec![
        route(path_of!(kind, "/subscriptions"))
            .on_query(Method::GET, "Subscriptions could not be listed.", LIST_PARAMETERS, list)
            .on(Method::POST, "Subscription could not be created.", create),
        route(path_of!(kind, "/subscriptions/{subscription_id}"))
            .on_query(Method::GET, "Subscription could not be retrieved.", Parameters::of(&[WITH_DELIVERY]), get)
            .on(Method::PATCH, "Subscription could not be updated.", update)
            .on(Method::DELETE, "Subscription could not be deleted.", delete),
        route(path_of!(kind, "/subscriptions/{subscription_id}/confirm")).on(
            Method::PUT,
            "Subscription could not be confirmed.",
            confirm,
        ),
        route(path_of!(kind, "/subscriptions/{subscription_id}/attempts")).on(
            Method::GET,
            "Attempts could not be listed.",
            attempts,
        ),
        route(path_of!(kind, "/subscriptions/{subscription_id}/pause")).on(
            Method::POST,
            "Subscription could not be paused.",
            pause,
        ),
        route(path_of!(kind, "/subscriptions/{subscription_id}/resume")).on(
            Method::POST,
            "Subscription could not be resumed.",
            resume,
        ),
        route(path_of!(kind, "/subscriptions/{subscription_id}/redeliver")).on(
            Method::POST,
            "Redelivery could not be started.",
            redeliver,
        ),
    ]
}

/// Returns a page of the queue's subscriptions, in the order of their ids, on request with how far
/// their deliveries have come.
async fn list(OnQueue { broker, caller, queue }: OnQueue, RawQuery(query): RawQuery) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let marker = query.last("marker").map(subscriptions::parse_marker).transpose()?;
    let limit = query.integer("limit")?;
    let with_delivery = query.boolean(WITH_DELIVERY)?;
    let page = broker.list_subscriptions(&caller, &queue, marker, limit).await?;
    let parameters = [
        ("limit", limit.map(|limit| limit.to_string())),
        (WITH_DELIVERY, with_delivery.map(|with_delivery| with_delivery.to_string())),
    ];
    let last = page.last().map(|found| found.subscription.id.to_string());
    let links = links::next(&subscriptions::path(&queue), marker.is_some(), &parameters, last.as_deref());
    let document = |found| subscriptions::status_document(&queue, found, with_delivery == Some(true));
    let mut warnings = Vec::new();
    if page.is_empty() {
        warnings = broker.missing_queue(&caller, Action::ListSubscriptions, &queue).await;
    }
    let subscriptions = page.iter().map(document).collect();
    let document = response::json(&SubscriptionListDocument { subscriptions, links }, LIST_BYTES);
    Ok((Warnings(warnings), document).into_response())
}

/// Creates a subscription: `201`, also if the subscriber has one that it has not confirmed.
async fn create(
    State(Service { broker, settings, .. }): State<Service>,
    caller: Caller,
    Queue(queue): Queue,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let mut request = subscriptions::parse_new(read(&headers, body).await?.as_deref())?;
    let mut warnings = subscriptions::warnings(&request.fields, &subscriptions::FIELDS);
    let token = presented_token(&headers, &settings.authenticator);
    request.user_token = token.map(|token| token.of_keystone()).unwrap_or_default();
    let options = request.fields.get("options").cloned();
    let has_since = matches!(request.since, Some(Since::Time(_)));
    let subscribed = broker.create_subscription(&caller, queue.clone(), request).await?;
    warnings.extend(broker.ignored_retry_policy(&caller, &queue, options.as_ref()).await);
    warnings.extend(subscribed.warnings(has_since));
    let location = [(LOCATION, subscriptions::path(&queue))];
    Ok(match subscriptions::subscribed_document(&subscribed) {
        Some(document) => (StatusCode::CREATED, location, Warnings(warnings), Json(document)).into_response(),
        None => (location, Error::from(broker::Error::subscriber_taken())).into_response(),
    })
}

/// Returns a subscription, on request with how far its deliveries have come.
async fn get(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    RawQuery(query): RawQuery,
) -> Result<Json<subscriptions::SubscriptionDocument>, Error> {
    let with_delivery = Query::parse(query.as_deref()).boolean(WITH_DELIVERY)?;
    let found = broker.get_subscription(&caller, &queue, &id).await?;
    Ok(Json(subscriptions::status_document(&queue, &found, with_delivery == Some(true))))
}

/// Changes the parts of a subscription that the body names.
async fn update(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let fields = subscriptions::parse_change(read(&headers, body).await?.as_deref())?;
    let warnings = Warnings(subscriptions::warnings(&fields, &subscriptions::CHANGED_FIELDS));
    broker.update_subscription(&caller, queue, &id, fields).await?;
    Ok((warnings, changed(&uri)).into_response())
}

/// Stores whether the subscriber has confirmed the subscription.
async fn confirm(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<1>,
    IsSignedForPath(is_signed): IsSignedForPath,
    request: Request,
) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let by = if is_signed { ConfirmedBy::Subscriber } else { ConfirmedBy::Client };
    let WithWarnings { value: confirmed, mut warnings } =
        subscriptions::parse_confirmation(read(&parts.headers, body).await?.as_deref())?;
    warnings.extend(broker.confirm_subscription(&caller, queue, &id, confirmed, by).await?);
    Ok((Warnings(warnings), changed(&parts.uri)).into_response())
}

/// Deletes a subscription. Deleting an unknown subscription has no effect.
async fn delete(OnQueue { broker, caller, queue }: OnQueue, Segment(id): Segment<0>) -> Result<StatusCode, Error> {
    broker.delete_subscription(&caller, queue, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the last attempts to notify a subscriber, the newest first.
async fn attempts(OnQueue { broker, caller, queue }: OnQueue, Segment(id): Segment<1>) -> Result<Json<Value>, Error> {
    Ok(Json(subscriptions::attempts_document(&broker.list_attempts(&caller, &queue, &id).await?)))
}

/// Pauses a subscription: its subscriber gets no messages until it is resumed.
async fn pause(OnQueue { broker, caller, queue }: OnQueue, Segment(id): Segment<1>) -> Result<StatusCode, Error> {
    broker.pause_subscription(&caller, queue, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Resumes a subscription that is paused, disabled or held.
async fn resume(OnQueue { broker, caller, queue }: OnQueue, Segment(id): Segment<1>) -> Result<StatusCode, Error> {
    broker.resume_subscription(&caller, queue, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begins to deliver messages again: `202`, with the state of the subscription, which may have to
/// wait.
async fn redeliver(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<1>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Warnings, Json<Value>), Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Request).await?;
    let request = subscriptions::parse_redelivery(&body)?;
    let WithWarnings { value: status, warnings } = broker.redeliver(&caller, queue, &id, request).await?;
    Ok((StatusCode::ACCEPTED, Warnings(warnings), Json(subscriptions::state_document(&status))))
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Option<Bytes>, Error> {
    body::read(headers, body, BODY_BYTES_MAX, Error::Request).await
}

/// Returns the response to a change: `204` with the path of the request.
fn changed(uri: &Uri) -> Response {
    (StatusCode::NO_CONTENT, [(LOCATION, uri.path())]).into_response()
}
