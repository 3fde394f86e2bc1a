//! `/v2/queues` and `/v2/queues/{queue_name}`: list, create, show, update, delete, purge, pause,
//! resume and move queues, and their statistics. Topics have the same routes below `/v2/topics`,
//! except those that pause and resume.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::Value;

use super::content_negotiation::has_content_type;
use super::extract::OnQueue;
use super::parameters::Parameters;
use super::response::Json;
use super::route::{Route, path_of, route, sentence_of};
use super::warnings::Warnings;
use crate::auth::Caller;
use crate::broker::queues::{ListedQueue, QueueQuery};
use crate::broker::{self, Action, Broker};
use crate::wire::Error;
use crate::wire::links::Link;
use crate::wire::metadata_patch::MetadataPatch;
use crate::wire::purge::{Kind, RESOURCE_TYPES};
use crate::wire::query::{CREDENTIALS, Query, SIGNATURE_PARAMETER};
use crate::wire::{self, body, json, links, metadata_patch, paths};
use sukkal_domain::queue_id::InvalidQueueId;
use sukkal_domain::warning::{UNKNOWN_NAMES_MAX, nearest};
use sukkal_domain::{Creation, JsonObject, Metadata, QueueKind, Warning, WithWarnings};

/// Maximum number of metadata filters of a list.
const FILTERS_MAX: usize = 16;
/// The query parameters of a list that are no filters by metadata.
const LIST_PARAMETERS: [&str; 7] = ["marker", "limit", "detailed", "name", "with_count", "name_prefix", "with_stats"];

pub(super) fn routes(kind: QueueKind, has_pools: bool) -> Vec<Route> {
    let list = move |broker: State<Broker>, caller: Caller, query: RawQuery| list(kind, broker, caller, query);
    let mut routes = vec![
        route(paths::all(kind)).on_query(
            Method::GET,
            sentence_of!(kind, "s could not be listed."),
            Parameters::and_filters(&LIST_PARAMETERS),
            list,
        ),
        route(path_of!(kind, ""))
            .on(Method::GET, sentence_of!(kind, " metadata could not be retrieved."), get)
            .on(Method::PUT, sentence_of!(kind, " could not be created."), create)
            .on(Method::PATCH, sentence_of!(kind, " metadata could not be updated."), update)
            .on(Method::DELETE, sentence_of!(kind, " could not be deleted."), delete),
        route(path_of!(kind, "/stats")).on_query(
            Method::GET,
            sentence_of!(kind, " stats could not be read."),
            Parameters::of(&["detailed"]),
            stats,
        ),
        route(path_of!(kind, "/purge")).on(Method::POST, sentence_of!(kind, " could not be purged."), purge),
    ];
    if kind == QueueKind::Queue {
        routes.push(route(path_of!(kind, "/pause")).on(Method::POST, "Queue could not be paused.", pause));
        routes.push(route(path_of!(kind, "/resume")).on(Method::POST, "Queue could not be resumed.", resume));
    }
    if has_pools {
        let outage = sentence_of!(kind, " could not be moved.");
        routes.push(route(path_of!(kind, "/move")).on(Method::POST, outage, move_to_pool));
    }
    routes
}

/// Refuses `/v2/queues/`, a queue without a name, and `/v2/topics/`. The checks of the request have
/// done so already.
pub(super) async fn nameless() -> Error {
    InvalidQueueId::Name(QueueKind::Queue).into()
}

/// Returns a page of the project's queues of this kind, by name.
async fn list(
    kind: QueueKind,
    State(broker): State<Broker>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let detailed = query.boolean("detailed")?;
    let with_count = query.boolean("with_count")?;
    let with_stats = query.boolean("with_stats")?;
    let queue_query = QueueQuery {
        kind,
        detailed: detailed == Some(true),
        with_stats: with_stats == Some(true),
        ..parse_queue_query(&query)?
    };

    let listed = broker.list_queues(&caller, &queue_query).await?;
    let mut parameters = vec![
        ("limit", queue_query.limit.map(|limit| limit.to_string())),
        ("detailed", detailed.map(|detailed| detailed.to_string())),
        ("name", queue_query.name.clone()),
        ("with_count", with_count.map(|with_count| with_count.to_string())),
        ("name_prefix", queue_query.name_prefix.clone()),
        ("with_stats", with_stats.map(|with_stats| with_stats.to_string())),
    ];
    parameters.extend(filters(&query).into_iter().map(|(name, values)| (name, values.last().map(ToString::to_string))));
    let links = links::next(paths::all(kind), queue_query.after.is_some(), &parameters, listed.next.as_deref());
    let entry = |queue| {
        let queue: &ListedQueue = queue;
        let metadata = queue_query.detailed.then(|| queue.metadata.with_defaults(kind, broker.limits()));
        let stats = queue.stats.as_ref().map(wire::stats::summary_document);
        QueueDocument { name: queue.name.plain(), metadata, stats, href: paths::of(&queue.name) }
    };
    let mut page = Page { kind, queues: listed.queues.iter().map(entry).collect(), links, count: None };
    if with_count == Some(true) {
        page.count = Some(broker.count_queues(&caller, kind).await?).filter(|count| *count > 0);
    }
    let is_flag = queue_query.name.as_deref() == Some("true");
    let mut warnings: Vec<Warning> = is_flag.then_some(Warning::NameIsText(kind)).into_iter().collect();
    if page.queues.is_empty() && page.links.is_empty() {
        // The client may not want to filter by metadata.
        let names = queue_query.metadata.iter().map(|(name, _)| name.as_str());
        // There is a warning about the others already.
        let own = names.filter(|name| nearest(name, LIST_PARAMETERS).is_none());
        warnings.extend(own.map(Warning::filter).take(UNKNOWN_NAMES_MAX));
    }
    Ok((Warnings(warnings), Json(page)).into_response())
}

/// Creates a queue: `201`, or `204` if the queue exists, in which case its metadata does not
/// change.
async fn create(OnQueue { broker, caller, queue }: OnQueue, headers: HeaderMap, body: Body) -> Result<Response, Error> {
    let body = body::read(&headers, body, broker.limits().max_queue_metadata, Error::Request).await?;
    let metadata = match body.map(|body| json::parse_to_msgpack(&body)).transpose()? {
        None => JsonObject::default(),
        Some(msgpack) => JsonObject::from_msgpack(msgpack.into())
            .ok_or_else(|| Error::Body("Document type not supported.".to_owned()))?,
    };
    let location = [(LOCATION, paths::of(queue.name()))];
    let WithWarnings { value: creation, warnings } = broker.create_queue(&caller, queue, metadata).await?;
    let status = match creation {
        Creation::Created => StatusCode::CREATED,
        Creation::Existed => StatusCode::NO_CONTENT,
    };
    Ok((status, location, Warnings(warnings), ()).into_response())
}

/// Returns a queue's metadata with all defaults, whether the queue exists or not.
async fn get(OnQueue { broker, caller, queue }: OnQueue) -> Result<Response, Error> {
    let WithWarnings { value: metadata, warnings } = broker.get_queue(&caller, &queue).await?;
    Ok((Warnings(warnings), Json(metadata)).into_response())
}

/// Applies a patch to a queue's metadata, all operations or none.
async fn update(OnQueue { broker, caller, queue }: OnQueue, headers: HeaderMap, body: Body) -> Result<Response, Error> {
    let bytes_max = broker.limits().max_queue_metadata;
    let body = body::read(&headers, body, bytes_max, Error::Body).await?;
    if !has_content_type(&headers, &metadata_patch::MEDIA_TYPES) {
        return Err(Error::MediaType(metadata_patch::MEDIA_TYPES[0]));
    }
    let body = body.ok_or_else(|| Error::Body("PATCH body could not be empty for update.".to_owned()))?;
    let WithWarnings { value: patch, warnings: of_fields } = MetadataPatch::parse(&body)?;
    let change = move |metadata: &Metadata| {
        patch.apply(metadata).map_err(|conflict| broker::Error::Conflict(conflict.to_string()))
    };
    match broker.update_queue(&caller, queue, change).await {
        Ok(WithWarnings { value: metadata, warnings }) => {
            Ok((Warnings(of_fields), Warnings(warnings), Json(metadata)).into_response())
        }
        Err(broker::Error::Metadata(invalid)) => Err(Error::PatchedMetadata(invalid)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the number of messages of a queue, whether the queue exists or not.
async fn stats(OnQueue { broker, caller, queue }: OnQueue, RawQuery(query): RawQuery) -> Result<Response, Error> {
    let detailed = Query::parse(query.as_deref()).boolean("detailed")?;
    let stats = broker.get_stats(&caller, &queue, detailed == Some(true)).await?;
    let missing = (!stats.exists).then(|| Warning::NoQueue(queue.name().kind()));
    Ok((Warnings(missing.into_iter().collect()), Json(wire::stats::document(&queue, &stats))).into_response())
}

/// Deletes the messages and subscriptions of a queue, or only the kind that the body names.
async fn purge(
    OnQueue { broker, caller, queue }: OnQueue,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, Error> {
    // Without it, the purge would delete everything.
    if Query::parse(query.as_deref()).last(RESOURCE_TYPES).is_some() {
        return Err(Error::Request(format!("\"{RESOURCE_TYPES}\" is not a query parameter; send it in the body")));
    }
    let body = body::read(&headers, body, broker.limits().max_queue_metadata, Error::Request).await?;
    let WithWarnings { value: kinds, warnings } = match body {
        Some(body) => wire::purge::parse(&body)?,
        None => WithWarnings::none(wire::purge::ALL.to_vec()),
    };
    if kinds.contains(&Kind::Messages) {
        broker.purge_queue(&caller, queue.clone()).await?;
    }
    if kinds.contains(&Kind::Subscriptions) {
        broker.purge_subscriptions(&caller, queue.clone()).await?;
    }
    let missing = broker.missing_queue(&caller, Action::PurgeQueue, &queue).await;
    Ok((StatusCode::NO_CONTENT, Warnings(warnings), Warnings(missing), ()).into_response())
}

/// Pauses a queue: claims and pops get no messages until it is resumed. Creates the queue if it
/// does not exist.
async fn pause(OnQueue { broker, caller, queue }: OnQueue) -> Result<Response, Error> {
    let paused = broker.pause_queue(&caller, queue).await?;
    Ok((StatusCode::NO_CONTENT, Warnings(paused.warnings), ()).into_response())
}

/// Resumes a paused queue. Resuming any other queue has no effect.
async fn resume(OnQueue { broker, caller, queue }: OnQueue) -> Result<Response, Error> {
    broker.resume_queue(&caller, queue.clone()).await?;
    let missing = broker.missing_queue(&caller, Action::ResumeQueue, &queue).await;
    Ok((StatusCode::NO_CONTENT, Warnings(missing), ()).into_response())
}

/// Moves a queue with everything that it has to the pool that the body names. Has no effect if the
/// queue is there already.
async fn move_to_pool(
    OnQueue { broker, caller, queue }: OnQueue,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Error> {
    let body = body::read_required(&headers, body, wire::pools::BODY_BYTES_MAX, Error::Body).await?;
    broker.move_queue(&caller, queue, wire::pools::parse_move(&body)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a queue with its messages and claims. Deleting an unknown queue has no effect.
async fn delete(OnQueue { broker, caller, queue }: OnQueue) -> Result<StatusCode, Error> {
    broker.delete_queue(&caller, queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn parse_queue_query(query: &Query) -> Result<QueueQuery, Error> {
    let filters = filters(query);
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
        ..QueueQuery::default()
    })
}

/// Returns the parameters that filter by metadata, each with its values.
fn filters(query: &Query) -> Vec<(&str, Vec<&str>)> {
    let mut filters = query.others(&LIST_PARAMETERS);
    if query.last(SIGNATURE_PARAMETER).is_some() {
        filters.retain(|(name, _)| !CREDENTIALS.contains(name));
    }
    filters
}

/// Parses `key=value`, a filter by a metadata key. A value with the form of an integer is an
/// integer. Clients may add the filter to a link that has it already.
fn metadata_filter((key, mut values): (&str, Vec<&str>)) -> Result<(String, Vec<u8>), Error> {
    values.dedup();
    let [value] = values[..] else {
        return Err(Error::Request(format!(
            "the metadata filter {key:?} has {} values; it must have one",
            values.len()
        )));
    };
    let value = value.parse::<i64>().map_or_else(|_| rmp_serde::to_vec(value), |integer| rmp_serde::to_vec(&integer));
    Ok((key.to_owned(), value.expect("a text and an integer have a MessagePack form")))
}

/// A page of a list of queues.
struct Page<'p> {
    kind: QueueKind,
    queues: Vec<QueueDocument<'p>>,
    links: Vec<Link>,
    count: Option<u64>,
}

/// A queue of a page.
#[derive(Serialize)]
struct QueueDocument<'p> {
    name: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<Value>,
    href: String,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut page = serializer.serialize_map(None)?;
        page.serialize_entry(self.kind.plural(), &self.queues)?;
        page.serialize_entry("links", &self.links)?;
        if let Some(count) = self.count {
            page.serialize_entry("count", &count)?;
        }
        page.end()
    }
}
