//! `/v2/queues` and `/v2/queues/{queue_name}`: list, create, show, update, delete, purge, pause,
//! resume and move queues, and their statistics.

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::route::{Route, route};
use super::warnings::Warnings;
use crate::api::Error;
use crate::api::wire::metadata_patch::MetadataPatch;
use crate::api::wire::purge::Kind;
use crate::api::wire::query::{CREDENTIALS, Query, SIGNATURE_PARAMETER};
use crate::api::wire::{self, body, json, links, metadata_patch};
use crate::auth::Caller;
use crate::broker::queues::{ListedQueue, QueueQuery};
use crate::broker::{self, Broker};
use crate::domain::queue_id::InvalidQueueId;
use crate::domain::{Creation, Metadata, QueueId, QueueName, Summary, WithWarnings};

const PATH: &str = "/v2/queues";
/// Maximum number of metadata filters of a list.
const FILTERS_MAX: usize = 16;

pub(super) fn routes(has_pools: bool) -> Vec<Route> {
    let mut routes = vec![
        route(PATH).on(Method::GET, "Queues could not be listed.", list),
        route("/v2/queues/{queue_name}")
            .on(Method::GET, "Queue metadata could not be retrieved.", get)
            .on(Method::PUT, "Queue could not be created.", create)
            .on(Method::PATCH, "Queue metadata could not be updated.", update)
            .on(Method::DELETE, "Queue could not be deleted.", delete),
        route("/v2/queues/{queue_name}/stats").on(Method::GET, "Queue stats could not be read.", stats),
        route("/v2/queues/{queue_name}/purge").on(Method::POST, "Queue could not be purged.", purge),
        route("/v2/queues/{queue_name}/pause").on(Method::POST, "Queue could not be paused.", pause),
        route("/v2/queues/{queue_name}/resume").on(Method::POST, "Queue could not be resumed.", resume),
    ];
    if has_pools {
        let path = "/v2/queues/{queue_name}/move";
        routes.push(route(path).on(Method::POST, "Queue could not be moved.", move_to_pool));
    }
    routes
}

/// Refuses `/v2/queues/`, a queue without a name.
pub(super) async fn nameless() -> Error {
    InvalidQueueId::Name.into()
}

/// Returns a page of the project's queues by name.
async fn list(State(broker): State<Broker>, caller: Caller, RawQuery(query): RawQuery) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let detailed = query.boolean("detailed")?;
    let with_count = query.boolean("with_count")?;
    let with_stats = query.boolean("with_stats")?;
    let queue_query = QueueQuery {
        detailed: detailed == Some(true),
        with_stats: with_stats == Some(true),
        ..parse_queue_query(&query)?
    };

    let listed = broker.list_queues(&caller, &queue_query).await?;
    let parameters = [
        ("limit", queue_query.limit.map(|limit| limit.to_string())),
        ("detailed", detailed.map(|detailed| detailed.to_string())),
        ("name", queue_query.name.clone()),
        ("with_count", with_count.map(|with_count| with_count.to_string())),
        ("name_prefix", queue_query.name_prefix.clone()),
        ("with_stats", with_stats.map(|with_stats| with_stats.to_string())),
    ];
    let links = links::next(PATH, queue_query.after.is_some(), &parameters, listed.next.as_deref());
    let entry = |queue: &ListedQueue| {
        let metadata = queue_query.detailed.then(|| queue.metadata.with_defaults(broker.limits()));
        queue_document(&queue.name, metadata, queue.stats.as_ref())
    };
    let mut page = Map::new();
    page.insert("queues".to_owned(), listed.queues.iter().map(entry).collect());
    page.insert("links".to_owned(), json!(links));
    if with_count == Some(true) {
        let count = broker.count_queues(&caller).await?;
        if count > 0 {
            page.insert("count".to_owned(), json!(count));
        }
    }
    Ok(Json(page).into_response())
}

/// Creates a queue: `201`, or `204` if the queue exists, in which case its metadata does not
/// change.
async fn create(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let body = body::read(&headers, body, broker.limits().max_queue_metadata, Error::Request).await?;
    let metadata = match body.map(|body| json::parse(&body)).transpose()? {
        None => Map::new(),
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return Err(Error::Body("Document type not supported.".to_owned())),
    };
    let location = [(LOCATION, href(queue.name()))];
    let WithWarnings { value: creation, warnings } = broker.create_queue(&caller, queue, metadata).await?;
    let status = match creation {
        Creation::Created => StatusCode::CREATED,
        Creation::Existed => StatusCode::NO_CONTENT,
    };
    Ok((status, location, Warnings(warnings), ()).into_response())
}

/// Returns a queue's metadata with all defaults, whether the queue exists or not.
async fn get(State(broker): State<Broker>, caller: Caller, queue: QueueId) -> Result<Json<Map<String, Value>>, Error> {
    Ok(Json(broker.get_queue(&caller, &queue).await?))
}

/// Applies a patch to a queue's metadata, all operations or none.
async fn update(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let bytes_max = broker.limits().max_queue_metadata;
    let body = body::read(&headers, body, bytes_max, Error::Body).await?;
    if headers.get(CONTENT_TYPE).is_none_or(|given| given != metadata_patch::MEDIA_TYPE) {
        return Err(Error::MediaType(metadata_patch::MEDIA_TYPE));
    }
    let body = body.ok_or_else(|| Error::Body("PATCH body could not be empty for update.".to_owned()))?;
    let patch = MetadataPatch::parse(&body)?;
    let change = move |metadata: &Metadata| {
        patch.apply(metadata).map_err(|conflict| broker::Error::Conflict(conflict.to_string()))
    };
    match broker.update_queue(&caller, queue, change).await {
        Ok(WithWarnings { value: metadata, warnings }) => Ok((Warnings(warnings), Json(metadata)).into_response()),
        Err(broker::Error::Metadata(invalid)) => Err(Error::PatchedMetadata(invalid)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the number of messages of a queue, whether the queue exists or not.
async fn stats(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Error> {
    let detailed = Query::parse(query.as_deref()).boolean("detailed")?;
    let stats = broker.get_stats(&caller, &queue, detailed == Some(true)).await?;
    Ok(Json(wire::stats::document(&queue, &stats)))
}

/// Deletes the messages and subscriptions of a queue, or only the kind that the body names.
async fn purge(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Error> {
    let body = body::read(&headers, body, broker.limits().max_queue_metadata, Error::Request).await?;
    let kinds = match body {
        Some(body) => wire::purge::parse(&body)?,
        None => wire::purge::ALL.to_vec(),
    };
    if kinds.contains(&Kind::Messages) {
        broker.purge_queue(&caller, queue.clone()).await?;
    }
    if kinds.contains(&Kind::Subscriptions) {
        broker.purge_subscriptions(&caller, queue).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a queue: claims and pops get no messages until it is resumed. Creates the queue if it does
/// not exist.
async fn pause(State(broker): State<Broker>, caller: Caller, queue: QueueId) -> Result<StatusCode, Error> {
    broker.pause_queue(&caller, queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Resumes a paused queue. Resuming any other queue has no effect.
async fn resume(State(broker): State<Broker>, caller: Caller, queue: QueueId) -> Result<StatusCode, Error> {
    broker.resume_queue(&caller, queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Moves a queue with everything that it has to the pool that the body names. Has no effect if the
/// queue is there already.
async fn move_to_pool(
    State(broker): State<Broker>,
    caller: Caller,
    queue: QueueId,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Error> {
    let body = body::read_required(&headers, body, wire::pools::BODY_BYTES_MAX, Error::Body).await?;
    broker.move_queue(&caller, queue, wire::pools::parse_move(&body)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a queue with its messages and claims. Deleting an unknown queue has no effect.
async fn delete(State(broker): State<Broker>, caller: Caller, queue: QueueId) -> Result<StatusCode, Error> {
    broker.delete_queue(&caller, queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn parse_queue_query(query: &Query) -> Result<QueueQuery, Error> {
    let mut filters = query.others(&["marker", "limit", "detailed", "name", "with_count", "name_prefix", "with_stats"]);
    if query.last(SIGNATURE_PARAMETER).is_some() {
        filters.retain(|(name, _)| !CREDENTIALS.contains(name));
    }
    if filters.len() > FILTERS_MAX {
        return Err(Error::Request(format!(
            "the query has {} metadata filters; at most {FILTERS_MAX} are allowed",
            filters.len()
        )));
    }
    Ok(QueueQuery {
        after: query.last("marker").map(str::to_owned),
        limit: query.integer("limit")?,
        name_prefix: query.last("name_prefix").map(str::to_owned),
        name: query.last("name").map(str::to_owned),
        metadata: filters.into_iter().map(metadata_filter).collect::<Result<_, _>>()?,
        detailed: false,
        with_stats: false,
    })
}

/// Parses `key=value`, a filter by a metadata key. A value with the form of an integer is an
/// integer.
fn metadata_filter((key, values): (&str, Vec<&str>)) -> Result<(String, Value), Error> {
    let [value] = values[..] else {
        return Err(Error::Request(format!(
            "the metadata filter {key:?} has {} values; it must have one",
            values.len()
        )));
    };
    let value = value.parse::<i64>().map_or_else(|_| json!(value), |integer| json!(integer));
    Ok((key.to_owned(), value))
}

fn queue_document(name: &QueueName, metadata: Option<Map<String, Value>>, stats: Option<&Summary>) -> Value {
    let mut document = Map::new();
    document.insert("name".to_owned(), json!(name.as_str()));
    if let Some(metadata) = metadata {
        document.insert("metadata".to_owned(), metadata.into());
    }
    if let Some(stats) = stats {
        document.insert("stats".to_owned(), wire::stats::summary_document(stats));
    }
    document.insert("href".to_owned(), json!(href(name)));
    document.into()
}

fn href(name: &QueueName) -> String {
    format!("{PATH}/{name}")
}
