//! Actions on subscriptions.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use serde_json::{Value, json};

use super::{SUBSCRIPTION, SUBSCRIPTIONS};
use crate::api::extract::{OnQueue, Queue, Segment};
use crate::api::middleware::authentication::presented_token;
use crate::api::service::Service;
use crate::api::websocket::action::{Action, Frame, action};
use crate::auth::Caller;
use crate::broker;
use crate::broker::messages::Since;
use crate::wire::Error;
use crate::wire::frame::FieldType::{Integer, Object, Text};
use crate::wire::subscriptions;
use sukkal_domain::{Warning, delivery_options};

pub(super) fn actions() -> Vec<Action> {
    vec![
        action("subscription_list", Method::GET, SUBSCRIPTIONS, "Subscriptions could not be listed.", list)
            .accepts(&[("marker", Text), ("limit", Integer)])
            .returns_page(),
        action("subscription_create", Method::POST, SUBSCRIPTIONS, "Subscription could not be created.", create)
            .accepts(&[("subscriber", Text), ("ttl", Integer), ("options", Object), ("secret", Text), ("since", Text)]),
        action("subscription_get", Method::GET, SUBSCRIPTION, "Subscription could not be retrieved.", get),
        action("subscription_delete", Method::DELETE, SUBSCRIPTION, "Subscription could not be deleted.", delete),
    ]
}

async fn list(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let marker = frame.request().text("marker").map(|marker| subscriptions::parse_marker(&marker)).transpose()?;
    let page = broker.list_subscriptions(&caller, &queue, marker, frame.request().integer("limit")).await?;
    let mut warnings = Vec::new();
    if page.is_empty() {
        warnings = broker.missing_queue(&caller, broker::Action::ListSubscriptions, &queue).await;
    }
    let documents = page.iter().map(|found| subscriptions::document(&queue, &found.subscription));
    frame.respond_with(200, &BTreeMap::from([("subscriptions", documents.collect::<Vec<_>>())]), warnings)
}

/// Subscribes a subscriber, or the connection itself if the request names none.
async fn create(
    State(Service { broker, settings, .. }): State<Service>,
    caller: Caller,
    Queue(queue): Queue,
    headers: HeaderMap,
    frame: Frame,
) -> Result<Response, Error> {
    frame.request().check_size(subscriptions::BODY_BYTES_MAX)?;
    let fields = frame.request().fields();
    let subscriber = fields.get("subscriber").and_then(Value::as_str);
    let options = fields.get("options").cloned().unwrap_or_default();
    let mut warnings = if subscriber.is_some() {
        delivery_options::warnings(&options, subscriber)
    } else {
        delivery_options::warnings_of_connection(&options)
    };
    let created = format!("Subscription {} created.", queue.name());
    let document = if subscriber.is_none() {
        warnings.extend(fields.contains_key("secret").then_some(Warning::NotForConnections("secret")));
        let since = fields.get("since").and_then(Value::as_str);
        let from = subscriptions::parse_position(since, &queue)?;
        match broker.subscribe_connection(&caller, &queue, frame.0.connection, &fields, from).await {
            Ok(subscription) => {
                let id = subscription.end.id().to_string();
                *frame.0.subscribed.lock().await = Some(subscription);
                Some(json!({ "subscription_id": id }))
            }
            Err(broker::Error::Conflict(_)) => None,
            Err(error) => return Err(error.into()),
        }
    } else {
        let mut request = subscriptions::parse_new_fields(fields)?;
        let token = presented_token(&headers, &settings.authenticator);
        request.user_token = token.map(|token| token.of_keystone()).unwrap_or_default();
        let has_since = matches!(request.since, Some(Since::Time(_)));
        let outcome = broker.create_subscription(&caller, queue.clone(), request).await?;
        warnings.extend(broker.ignored_retry_policy(&caller, &queue, Some(&options)).await);
        warnings.extend(outcome.warnings(has_since));
        match outcome {
            broker::subscriptions::Subscribed::Unconfirmed { .. } => None,
            other => subscriptions::subscribed_document(&other),
        }
    };
    match document {
        Some(mut document) => {
            document["message"] = created.into();
            frame.respond_with(201, &document, warnings)
        }
        None => frame.respond(409, &format!("Subscription {} not created.", queue.name())),
    }
}

async fn get(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    frame: Frame,
) -> Result<Response, Error> {
    let found = broker.get_subscription(&caller, &queue, &id).await?;
    frame.respond(200, &subscriptions::document(&queue, &found.subscription))
}

async fn delete(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    frame: Frame,
) -> Result<Response, Error> {
    broker.delete_subscription(&caller, queue, &id).await?;
    frame.respond(204, &format!("Subscription {id} removed."))
}
