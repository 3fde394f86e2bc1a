//! `/v2/queues/{queue_name}/messages`: post, list, stream, pop, get and delete messages. The
//! messages of topics have the same routes.

use std::slice;

use axum::extract::{RawQuery, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::content_negotiation::prefers_events;
use super::extract::{INCLUDE_ORIGIN, INCLUDE_STATE, INCLUDE_TRACE, IsSigned, OnQueue, Queue, Segment};
use super::middleware::identity::{CLIENT_ID, DURABILITY, IDEMPOTENCY_KEY};
use super::middleware::outage::Outage;
use super::parameters::Parameters;
use super::route::{Route, path_of, route};
use super::server::delivery::{PendingDeliveries, with_return_guard};
use super::service::Service;
use super::stream::LAST_EVENT_ID;
use super::stream_credential::{StreamCredential, while_valid};
use super::warnings::Warnings;
use super::{response, stream};
use crate::auth::Caller;
use crate::broker::messages::{Draft, Listed, MessageQuery, PostRequest, Posted, content_of};
use crate::broker::undelivered::Undelivered;
use crate::broker::{Action, Broker};
use crate::wire::Error;
use crate::wire::messages::{self, ListDocument, MessageDocument, PostedDocument};
use crate::wire::query::Query;
use crate::wire::view::View;
use crate::wire::{body, links, since, trace_context};
use sukkal_domain::durability::InvalidDurability;
use sukkal_domain::warning::{NameKind, of_unknown};
use sukkal_domain::{Durability, IdempotencyKey, MessageId, QueueId, QueueKind, Scope, Taken, Warning, WithWarnings};

/// Estimated size in bytes of the path of a message in a response. While a text is written, the
/// buffer needs space for six times its length.
const PATH_BYTES: usize = 128;
/// The headers of posts with which others are compared.
const POST_HEADERS: [&str; 4] = ["durability", "idempotency-key", "traceparent", "tracestate"];

const LIST_PARAMETERS: Parameters = Parameters::of(&[
    "ids",
    "marker",
    "since",
    "limit",
    "wait",
    "echo",
    "include_claimed",
    "include_delayed",
    "order",
    INCLUDE_STATE,
    INCLUDE_ORIGIN,
    INCLUDE_TRACE,
]);
/// The parameters of a page of messages, which have no effect on messages that are named.
const PAGE_PARAMETERS: [&str; 8] =
    ["marker", "since", "limit", "wait", "echo", "include_claimed", "include_delayed", "order"];
/// The parameters of a pop, which have no effect on a deletion.
const POP_PARAMETERS: [&str; 4] = ["wait", INCLUDE_STATE, INCLUDE_ORIGIN, INCLUDE_TRACE];
const GET_PARAMETERS: Parameters = Parameters::of(&[INCLUDE_STATE, INCLUDE_ORIGIN, INCLUDE_TRACE]);

/// `DELETE` on the messages of a queue is a pop or a deletion by id.
const POP_OR_DELETE: Outage = Outage::Parameter {
    name: "pop",
    present: "Messages could not be popped.",
    absent: "Messages could not be deleted.",
};

pub(super) fn routes(kind: QueueKind) -> Vec<Route> {
    vec![
        route(path_of!(kind, "/messages"))
            .on_query(Method::GET, "Messages could not be listed.", LIST_PARAMETERS, list)
            .on(Method::POST, "Messages could not be enqueued.", post)
            .on_query(Method::DELETE, POP_OR_DELETE, delete_parameters(kind), pop_or_delete),
        route(path_of!(kind, "/messages/{message_id}"))
            .on_query(Method::GET, "Message could not be retrieved.", GET_PARAMETERS, get)
            .on_query(Method::DELETE, "Message could not be deleted.", Parameters::of(&["claim_id"]), delete),
    ]
}

const fn delete_parameters(kind: QueueKind) -> Parameters {
    match kind {
        QueueKind::Queue => {
            Parameters::of(&["ids", "claim_ids", "pop", "wait", INCLUDE_STATE, INCLUDE_ORIGIN, INCLUDE_TRACE])
        }
        QueueKind::Topic => Parameters::of(&["ids"]),
    }
}

/// Posts messages: `201` with their paths, in the order of the request.
async fn post(OnQueue { broker, caller, queue }: OnQueue, request: Request) -> Result<Response, Error> {
    let bytes_max = broker.limits().max_messages_post_size;
    let (parts, body) = request.into_parts();
    // A larger body is refused below.
    let declared = body::declared_bytes(&parts.headers).map(|bytes| bytes.min(bytes_max));
    broker.count_declared_bytes(queue.project(), declared.unwrap_or(0))?;
    let body = body::read_required(&parts.headers, body, bytes_max, Error::Request).await?;
    if declared.is_none() {
        broker.count_posted_bytes(queue.project(), body.len() as u64);
    }
    let trace = trace_context::of(&parts.headers);
    let durability = durability_of(&parts.headers)?;
    let WithWarnings { value: drafts, warnings: of_fields } = messages::parse_drafts(&body)?;
    let bytes = body.len() as u64;
    let idempotency = idempotency_of(&parts.headers, &drafts)?;
    let of_headers = warnings_of_headers(&parts.headers);
    let request = PostRequest { drafts, bytes, idempotency, trace, origin: None, durability };
    let WithWarnings { value: Posted { ids, durability }, warnings } =
        broker.post_messages(&caller, queue.clone(), request).await?;
    let location = [(LOCATION, messages::location(&queue, &ids))];
    let posted = response::json(&PostedDocument::new(&queue, &ids), PATH_BYTES * (6 + ids.len()));
    let reached = durability.map(|level| {
        let value = HeaderValue::try_from(level.to_string()).expect("it is printable ASCII");
        [(DURABILITY.clone(), value)]
    });
    Ok((StatusCode::CREATED, location, reached, Warnings(of_headers), Warnings(of_fields), Warnings(warnings), posted)
        .into_response())
}

/// Returns warnings about headers that resemble one with a meaning for a post. Only headers with
/// similar beginnings are compared, because each post has some.
fn warnings_of_headers(headers: &HeaderMap) -> Vec<Warning> {
    let begins_alike = |name: &&str| {
        ["dura", "idem", "trace", "tracp", "x-dura", "x-idem"].iter().any(|start| name.starts_with(start))
    };
    of_unknown(NameKind::Header, &POST_HEADERS, headers.keys().map(HeaderName::as_str).filter(begins_alike))
}

/// Returns the idempotency key of a post with these messages, if it has one.
pub(super) fn idempotency_of(headers: &HeaderMap, drafts: &[Draft]) -> Result<Option<IdempotencyKey>, Error> {
    let Some(key) = headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    // The key would be that of a client which no other request has.
    if !headers.contains_key(&CLIENT_ID) {
        return Err(Error::KeyWithoutClient);
    }
    Ok(Some(IdempotencyKey::new(key.as_bytes(), &content_of(drafts))?))
}

/// Returns the durability that a request requires in its header, which is a list.
pub(super) fn durability_of(headers: &HeaderMap) -> Result<Option<Durability>, InvalidDurability> {
    let level = |value: &HeaderValue| value.to_str().map_err(|_| InvalidDurability)?.parse();
    let levels: Vec<Durability> = headers.get_all(&DURABILITY).into_iter().map(level).collect::<Result<_, _>>()?;
    Ok(levels.into_iter().reduce(Durability::and))
}

/// Returns a page of the feed after a marker, or the feed as an event stream. With `ids`, returns
/// only these messages.
async fn list(
    State(Service { broker, settings, stream_events, .. }): State<Service>,
    view: View,
    IsSigned(is_signed): IsSigned,
    caller: Caller,
    Queue(queue): Queue,
    request: Request,
) -> Result<Response, Error> {
    let view = view.of_feed(is_signed);
    let wants_stream = prefers_events(request.headers());
    let query = Query::parse(request.uri().query());
    let with_states = asks_for_states(&query, is_signed)?;
    let ids = list_of(&query, "ids");
    if !ids.is_empty() {
        let found = broker.get_messages(&caller, &queue, &ids, with_states).await?;
        let document = ListDocument { messages: messages::documents(&queue, &found, view), links: None };
        let response = response::json(&document, messages::documents_bytes(&found));
        let is_invalid = ids.iter().any(|id| MessageId::parse(id, &queue).is_none());
        let invalid = Warnings(is_invalid.then_some(Warning::InvalidMessageId).into_iter().collect());
        return Ok((invalid, without_effect(&query, "ids", &PAGE_PARAMETERS), response).into_response());
    }

    let echo = query.boolean("echo")?;
    let include_claimed = query.boolean("include_claimed")?;
    let include_delayed = query.boolean("include_delayed")?;
    let order = query.last("order");
    let mut message_query = MessageQuery {
        marker: query.last("marker").map(str::to_owned),
        since: query.last("since").map(since::parse).transpose()?,
        limit: query.integer("limit")?,
        wait_s: query.integer("wait")?,
        is_immediate: request.method() == Method::HEAD,
        echo: echo.unwrap_or(false),
        scope: Scope { claimed: include_claimed == Some(true), delayed: include_delayed == Some(true) },
        order: order.map(messages::parse_order).transpose()?.unwrap_or_default(),
        with_states,
    };
    if wants_stream {
        if let Some(last) = request.headers().get(LAST_EVENT_ID) {
            (message_query.marker, message_query.since) =
                (Some(String::from_utf8_lossy(last.as_bytes()).into_owned()), None);
        }
        let missing = broker.missing_queue(&caller, Action::FollowMessages, &queue).await;
        let feed = broker.follow(&caller, queue, &message_query).await?;
        let credential = StreamCredential::of(request.headers(), &settings, feed.expiry());
        let stream = stream::respond(feed, view, credential, settings.stream_heartbeat, &stream_events);
        let waiting = without_effect(&query, "Accept: text/event-stream", &["wait", "limit"]);
        return Ok((Warnings(missing), waiting, stream).into_response());
    }
    let resumed = request.headers().contains_key(LAST_EVENT_ID).then_some(Warning::NotAStream);
    let listing = broker.list_messages(&caller, &queue, &message_query);
    let Listed { page, position, mut warnings } =
        while_valid(request.headers(), &settings, message_query.wait_s, listing).await?;
    warnings.extend(resumed);
    if page.messages.is_empty() {
        warnings.extend(broker.missing_queue(&caller, Action::ListMessages, &queue).await);
    }
    let parameters = [
        ("limit", message_query.limit.map(|limit| limit.to_string())),
        ("echo", echo.map(|echo| echo.to_string())),
        ("include_claimed", include_claimed.map(|include| include.to_string())),
        // A page of a queue without delays includes all messages, and its link says so.
        ("include_delayed", if page.delays { include_delayed } else { Some(true) }.map(|include| include.to_string())),
        (INCLUDE_ORIGIN, view.origins.then(|| true.to_string())),
        (INCLUDE_TRACE, view.traces.then(|| true.to_string())),
        (INCLUDE_STATE, with_states.then(|| true.to_string())),
        ("order", order.map(str::to_owned)),
        ("wait", message_query.wait_s.map(|wait_s| wait_s.to_string())),
    ];
    let path = messages::path(&queue);
    let links = match (page.messages.last(), position) {
        // An empty page of a request with `since` has no last message. The link continues where the
        // query stopped.
        (None, Some(position)) if message_query.since.is_some() => {
            vec![links::next_with(&path, &parameters, ("since", &since::after(position)))]
        }
        (last, _) => {
            let last = last.map(|message| message.id.to_string());
            links::next(&path, message_query.marker.is_some(), &parameters, last.as_deref())
        }
    };
    let document = ListDocument { messages: messages::documents(&queue, &page.messages, view), links: Some(links) };
    Ok((Warnings(warnings), response::json(&document, messages::documents_bytes(&page.messages))).into_response())
}

/// Returns the ids in a parameter. They have no commas, which many clients encode in a list.
fn list_of(query: &Query, name: &str) -> Vec<String> {
    query.all(name).flat_map(|ids| ids.split(',')).map(str::to_owned).collect()
}

/// Returns warnings about those of the parameters that the query has, because they have no effect
/// beside another one.
fn without_effect(query: &Query, other: &'static str, names: &[&'static str]) -> Warnings {
    let ignored = names.iter().filter(|name| query.last(name).is_some());
    Warnings(ignored.map(|name| Warning::Beside { name, other }).collect())
}

/// Returns whether a request asks for the states of messages.
fn asks_for_states(query: &Query, is_signed: bool) -> Result<bool, Error> {
    let is_asked = query.boolean(INCLUDE_STATE)?.unwrap_or(false);
    if is_asked && is_signed {
        return Err(Error::Request(format!(
            "\"{INCLUDE_STATE}\" is not allowed with a pre-signed URL, because it shows other clients and their claims"
        )));
    }
    Ok(is_asked)
}

/// Returns one message.
async fn get(
    view: View,
    IsSigned(is_signed): IsSigned,
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let view = view.of_feed(is_signed);
    let with_state = asks_for_states(&Query::parse(query.as_deref()), is_signed)?;
    let message = broker.get_message(&caller, &queue, &id, with_state).await?;
    let bytes = messages::documents_bytes(slice::from_ref(&message));
    Ok(response::json(&MessageDocument::new(&queue, &message, view), bytes))
}

/// Deletes one message. Deleting an unknown message has no effect.
async fn delete(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let deleted = broker.delete_message(&caller, queue, &id, query.last("claim_id")).await?;
    Ok((StatusCode::NO_CONTENT, Warnings(deleted.warnings), ()).into_response())
}

/// Deletes the messages of `ids` that exist, or pops up to `pop` messages.
async fn pop_or_delete(
    State(Service { broker, settings, .. }): State<Service>,
    view: View,
    caller: Caller,
    Queue(queue): Queue,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    deliveries: PendingDeliveries,
) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let [ids, claims] = ["ids", "claim_ids"].map(|name| list_of(&query, name));
    if let Some(count) = count_to_pop(&broker, &queue, "ids", &ids, &claims, query.integer("pop")?)? {
        let respond = |popped: &[_]| {
            let document = ListDocument { messages: messages::popped(popped, view), links: None };
            response::json(&document, messages::documents_bytes(popped))
        };
        let wait_s = query.integer("wait")?;
        let pop = broker.pop_messages(&caller, queue.clone(), count, wait_s);
        let mut warnings = Vec::new();
        let response = match while_valid(&headers, &settings, wait_s, pop).await? {
            Taken::Messages(Undelivered { value: popped, return_guard }) => {
                with_return_guard(respond(&popped), return_guard, deliveries)
            }
            Taken::Nothing => {
                warnings = broker.missing_queue(&caller, Action::PopMessages, &queue).await;
                respond(&[])
            }
            Taken::Paused => {
                warnings.push(Warning::Paused);
                (response::retry_after_pause(), respond(&[])).into_response()
            }
        };
        Ok((without_effect(&query, "pop", &["claim_ids"]), Warnings(warnings), response).into_response())
    } else {
        let deleted = broker.delete_messages(&caller, queue, &ids, &claims).await?;
        let beside = without_effect(&query, "ids", &POP_PARAMETERS);
        Ok((StatusCode::NO_CONTENT, beside, Warnings(deleted.warnings), ()).into_response())
    }
}

/// Returns the number of messages to pop; `None` if messages are to be deleted by their ids, which
/// the client has named `ids_name`.
pub(super) fn count_to_pop(
    broker: &Broker,
    queue: &QueueId,
    ids_name: &str,
    ids: &[String],
    claims: &[String],
    pop: Option<i64>,
) -> Result<Option<i64>, Error> {
    match pop {
        Some(_) if broker.limits().message_delete_with_claim_id && !claims.is_empty() => {
            Err(Error::Request(format!("\"claim_ids\" cannot be combined with \"pop\", only with \"{ids_name}\".")))
        }
        Some(count) if ids.is_empty() => Ok(Some(count)),
        None if !ids.is_empty() => Ok(None),
        _ if queue.name().topic().is_some() => {
            Err(Error::Request(format!("\"{ids_name}\" is required, without \"pop\", which topics do not have.")))
        }
        _ => Err(Error::Request(format!("Exactly one of \"{ids_name}\" and \"pop\" is required."))),
    }
}
