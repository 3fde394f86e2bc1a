//! Actions on queues.

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

use super::{PURGE, QUEUE, STATS};
use crate::api::extract::OnQueue;
use crate::api::websocket::action::{Action, Frame, action};
use crate::auth::Caller;
use crate::broker::queues::{ListedQueue, QueueQuery};
use crate::broker::{self, Broker};
use crate::wire::Error;
use crate::wire::frame::FieldType::{Boolean, Integer, List, Object, Text};
use crate::wire::purge::{ALL, Kind, RESOURCE_TYPES};
use crate::wire::{paths, stats};
use sukkal_domain::warning::{NameKind, of_unknown, shown};
use sukkal_domain::{Creation, JsonObject, QueueKind, Warning, WithWarnings};

/// The fields with a meaning for a purge.
const PURGE_FIELDS: [&str; 2] = ["queue_name", RESOURCE_TYPES];

pub(super) fn actions() -> Vec<Action> {
    vec![
        action("queue_list", Method::GET, paths::all(QueueKind::Queue), "Queues could not be listed.", list)
            .accepts(&[("marker", Text), ("limit", Integer), ("detailed", Boolean)])
            .returns_page(),
        action("queue_create", Method::PUT, QUEUE, "Queue could not be created.", create)
            .accepts(&[("metadata", Object)]),
        action("queue_get", Method::GET, QUEUE, "Queue metadata could not be retrieved.", get),
        action("queue_get_stats", Method::GET, STATS, "Queue stats could not be read.", get_stats),
        action("queue_delete", Method::DELETE, QUEUE, "Queue could not be deleted.", delete),
        action("queue_purge", Method::POST, PURGE, "Queue could not be purged.", purge)
            .accepts(&[(RESOURCE_TYPES, List)]),
    ]
}

async fn list(State(broker): State<Broker>, caller: Caller, frame: Frame) -> Result<Response, Error> {
    let request = frame.request();
    let detailed = request.is_true("detailed");
    let query = QueueQuery {
        kind: QueueKind::Queue,
        after: request.text("marker"),
        limit: request.integer("limit"),
        detailed,
        name_prefix: None,
        name: None,
        metadata: Vec::new(),
        with_stats: false,
    };
    let listed = broker.list_queues(&caller, &query).await?;
    let documents = listed.queues.iter().map(|ListedQueue { name, metadata, .. }| QueueDocument {
        name: name.plain(),
        metadata: detailed.then_some(metadata.keys()),
    });
    frame.respond(200, &Queues { queues: documents.collect() })
}

#[derive(Serialize)]
struct Queues<'q> {
    queues: Vec<QueueDocument<'q>>,
}

#[derive(Serialize)]
struct QueueDocument<'q> {
    name: &'q str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'q JsonObject>,
}

async fn create(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    frame.request().check_size(broker.limits().max_queue_metadata)?;
    let metadata = frame.request().object("metadata").unwrap_or_default();
    let text = format!("Queue {} created.", queue.name());
    let WithWarnings { value: creation, warnings } = broker.create_queue(&caller, queue, metadata).await?;
    let status = match creation {
        Creation::Created => 201,
        Creation::Existed => 204,
    };
    frame.respond_with(status, &text, warnings)
}

/// Returns the metadata without the defaults of reserved keys.
async fn get(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let WithWarnings { value: metadata, warnings } = broker.get_metadata(&caller, &queue).await?;
    frame.respond_with(200, metadata.keys(), warnings)
}

/// Returns the statistics of a queue: `404` if it does not exist.
async fn get_stats(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let found = broker.get_stats(&caller, &queue, false).await?;
    frame.respond(if found.exists { 200 } else { 404 }, &stats::document_with_ids(&found))
}

async fn delete(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let text = format!("Queue {} removed.", queue.name());
    broker.delete_queue(&caller, queue).await?;
    frame.respond(204, &text)
}

/// Purges a queue. Kinds of resources that are not known are ignored. Without `resource_types`, it
/// deletes all kinds, so a body with another field instead is refused.
async fn purge(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let chosen = frame.request().field(RESOURCE_TYPES);
    if chosen.is_none()
        && let Some(other) = frame.request().field_names().find(|name| !PURGE_FIELDS.contains(name))
    {
        let other = shown(other);
        return Err(Error::Request(format!(
            "the body has {other:?}, but no \"resource_types\"; leave it out, or send \"resource_types\""
        )));
    }
    let chosen = chosen.as_ref().and_then(Value::as_array);
    let includes = |kind: Kind| chosen.is_none_or(|chosen| chosen.iter().any(|value| *value == kind.name()));
    // As in Zaqar, others are ignored.
    let names = chosen.into_iter().flatten().map(|value| value.as_str().unwrap_or_default());
    let mut warnings = of_unknown(NameKind::ResourceType, &ALL.map(Kind::name), names);
    warnings.extend(chosen.is_some_and(Vec::is_empty).then_some(Warning::NothingToPurge));
    if includes(Kind::Messages) {
        broker.purge_queue(&caller, queue.clone()).await?;
    }
    if includes(Kind::Subscriptions) {
        broker.purge_subscriptions(&caller, queue.clone()).await?;
    }
    warnings.extend(broker.missing_queue(&caller, broker::Action::PurgeQueue, &queue).await);
    frame.respond_with(204, &json!({}), warnings)
}
