//! `/v2/queues/{queue_name}/messages`: post messages, follow the feed, get and delete by id.

use std::slice;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::admission::LastSegment;
use super::connections::Connection;
use super::delivery::with_way_back;
use super::representation::accepts_events;
use super::resource::{Resource, resource};
use super::stream::LAST_EVENT_ID;
use super::view::INCLUDE_ORIGIN;
use super::warnings::Warnings;
use super::{Service, answer, stream};
use crate::api::Error;
use crate::api::wire::messages::{self, ListDocument, MessageDocument, PostedDocument};
use crate::api::wire::query::Query;
use crate::api::wire::view::View;
use crate::api::wire::{body, links, since};
use crate::auth::Caller;
use crate::broker::Broker;
use crate::broker::messages::{Listed, MessageQuery, PostRequest};
use crate::broker::taken::Taken;
use crate::domain::{Once, QueueId, Warned};
use crate::storage::Scope;

/// About how many bytes the path of a message takes in an answer.
const PATH_BYTES: usize = 128;
/// Names a request that is to happen once (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub(super) fn routes() -> Vec<Resource> {
    vec![
        resource(
            "/v2/queues/{queue_name}/messages",
            "DELETE, GET, OPTIONS, POST",
            get(list).post(post).delete(delete_many),
        ),
        resource("/v2/queues/{queue_name}/messages/{message_id}", "DELETE, GET, OPTIONS", get(show).delete(delete_one)),
    ]
}

/// Posts messages: `201` with their paths, in the order given.
async fn post(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    request: Request,
) -> Result<Response, Error> {
    let bytes_max = broker.limits().max_messages_post_size;
    let (parts, body) = request.into_parts();
    let body = body::read_required(&parts.headers, body, bytes_max, Error::Request).await?;
    let once = parts.headers.get(IDEMPOTENCY_KEY).map(|key| Once::new(key.as_bytes(), &body)).transpose()?;
    let request = PostRequest { drafts: messages::parse_drafts(&body)?, bytes: body.len() as u64, once };
    let Warned { value: ids, warnings } = broker.post_messages(&caller, queue.clone(), request).await?;
    let location = [(LOCATION, messages::location(&queue, &ids))];
    let posted = answer::json(&PostedDocument::new(&queue, &ids), PATH_BYTES * (1 + ids.len()));
    Ok((StatusCode::CREATED, location, Warnings(warnings), posted).into_response())
}

/// A page of the feed behind a marker, or the feed itself as a stream of events; with `ids`, just those messages.
async fn list(
    State(Service { broker, settings, events, .. }): State<Service>,
    view: View,
    caller: Caller,
    queue: QueueId,
    request: Request,
) -> Result<Response, Error> {
    let wants_stream = accepts_events(request.headers());
    let query = Query::parse(request.uri().query());
    let ids: Vec<String> = query.all("ids").map(str::to_owned).collect();
    if !ids.is_empty() {
        let found = broker.get_messages(&queue, &ids).await?;
        let document = ListDocument { messages: messages::documents(&queue, &found, view), links: None };
        return Ok(answer::json(&document, messages::documents_bytes(&found)));
    }

    let echo = query.boolean("echo")?;
    let include_claimed = query.boolean("include_claimed")?;
    let include_delayed = query.boolean("include_delayed")?;
    let mut wanted = MessageQuery {
        marker: query.last("marker").map(str::to_owned),
        since: query.last("since").map(since::parse).transpose()?,
        limit: query.integer("limit")?,
        wait_s: query.integer("wait")?,
        echo: echo.unwrap_or(false),
        scope: Scope { claimed: include_claimed == Some(true), delayed: include_delayed == Some(true) },
    };
    if wants_stream {
        if let Some(last) = request.headers().get(LAST_EVENT_ID) {
            (wanted.marker, wanted.since) = (Some(String::from_utf8_lossy(last.as_bytes()).into_owned()), None);
        }
        let feed = broker.follow(&caller, queue, &wanted).await?;
        return Ok(stream::respond(feed, view, settings.stream_heartbeat, &events));
    }
    let Listed { page, position } = broker.list_messages(&caller, &queue, &wanted).await?;
    let parameters = [
        ("limit", wanted.limit.map(|limit| limit.to_string())),
        ("echo", echo.map(|echo| echo.to_string())),
        ("include_claimed", include_claimed.map(|include| include.to_string())),
        // A queue without delay shows all it has, and says so in the link.
        ("include_delayed", if page.delays { include_delayed } else { Some(true) }.map(|include| include.to_string())),
        (INCLUDE_ORIGIN, view.origins.then(|| true.to_string())),
        ("wait", wanted.wait_s.map(|wait_s| wait_s.to_string())),
    ];
    let path = messages::path(&queue);
    let links = match (page.messages.last(), position) {
        // Who asked for what is new comes again for what is newer.
        (None, Some(position)) if wanted.since.is_some() => {
            vec![links::link(&path, &parameters, ("since", &since::behind(position)))]
        }
        (last, _) => {
            let last = last.map(|message| message.id.to_string());
            links::next(&path, wanted.marker.is_some(), &parameters, last.as_deref())
        }
    };
    let document = ListDocument { messages: messages::documents(&queue, &page.messages, view), links: Some(links) };
    Ok(answer::json(&document, messages::documents_bytes(&page.messages)))
}

/// One message.
async fn show(
    State(broker): State<Broker>,
    view: View,
    queue: QueueId,
    LastSegment(id): LastSegment,
) -> Result<Response, Error> {
    let message = broker.get_message(&queue, &id).await?;
    let bytes = messages::documents_bytes(slice::from_ref(&message));
    Ok(answer::json(&MessageDocument::new(&queue, &message, view), bytes))
}

/// Deletes one message; one that is not there is left so.
async fn delete_one(
    State(broker): State<Broker>,
    queue: QueueId,
    LastSegment(id): LastSegment,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Error> {
    let query = Query::parse(query.as_deref());
    broker.delete_message(queue, &id, query.last("claim_id")).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes the messages of `ids`, those that are not there passed over; or pops as many as `pop` says.
async fn delete_many(
    State(broker): State<Broker>,
    view: View,
    queue: QueueId,
    RawQuery(query): RawQuery,
    connection: Option<Extension<Arc<Connection>>>,
) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let ids: Vec<String> = query.all("ids").map(str::to_owned).collect();
    let claims: Vec<String> = query.all("claim_ids").map(str::to_owned).collect();
    match query.integer("pop")? {
        Some(_) if broker.limits().message_delete_with_claim_id && !claims.is_empty() => {
            Err(Error::Request("\"claim_ids\" cannot be combined with \"pop\", only with \"ids\".".to_owned()))
        }
        Some(count) if ids.is_empty() => {
            let Taken { value: popped, way_back } = broker.pop_messages(queue, count, query.integer("wait")?).await?;
            let document = ListDocument { messages: messages::popped(&popped, view), links: None };
            let response = answer::json(&document, messages::documents_bytes(&popped));
            Ok(with_way_back(response, way_back, connection))
        }
        None if !ids.is_empty() => {
            broker.delete_messages(queue, &ids, &claims).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(Error::Request("Either \"ids\" or \"pop\" is needed, and not both.".to_owned())),
    }
}
