//! `/v2/queues/{queue_name}/redrive` and `/v2/queues/{queue_name}/tasks`: move messages to other
//! queues in the background, and list, show and stop these tasks.

use axum::body::Body;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::extract::{OnQueue, Segment};
use super::response::Json;
use super::route::{Route, route};
use super::warnings::Warnings;
use crate::broker::Action;
use crate::broker::tasks::RedriveRequest;
use crate::wire::Error;
use crate::wire::{body, tasks};

/// Maximum size in bytes of a body that starts a redrive. It holds the ids of a page at most.
const BODY_BYTES_MAX: u64 = 65_536;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route("/v2/queues/{queue_name}/redrive").on(Method::POST, "Redrive could not be started.", redrive),
        route("/v2/queues/{queue_name}/tasks").on(Method::GET, "Tasks could not be listed.", list),
        route("/v2/queues/{queue_name}/tasks/{task_id}").on(Method::GET, "Task could not be retrieved.", get).on(
            Method::DELETE,
            "Task could not be stopped or removed.",
            delete,
        ),
    ]
}

/// Starts a task that moves messages to other queues: `202` with the task.
async fn redrive(
    OnQueue { broker, caller, queue }: OnQueue,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let request = match body::read(&headers, body, BODY_BYTES_MAX, Error::Request).await? {
        Some(body) => tasks::parse_redrive(&body)?,
        None => RedriveRequest::default(),
    };
    let task = broker.redrive(&caller, queue.clone(), request).await?;
    let location = [(LOCATION, tasks::href(&queue, task.id))];
    Ok((StatusCode::ACCEPTED, location, Json(tasks::document(&task))).into_response())
}

/// Returns the running task of a queue and those that ended last, the newest first.
async fn list(OnQueue { broker, caller, queue }: OnQueue) -> Result<Response, Error> {
    let tasks = broker.list_tasks(&caller, &queue).await?;
    let mut warnings = Vec::new();
    if tasks.is_empty() {
        warnings = broker.missing_queue(&caller, Action::ListTasks, &queue).await;
    }
    Ok((Warnings(warnings), Json(tasks::list_document(&tasks))).into_response())
}

/// Returns a task.
async fn get(OnQueue { broker, caller, queue }: OnQueue, Segment(id): Segment<0>) -> Result<Json<Value>, Error> {
    Ok(Json(tasks::document(&broker.get_task(&caller, &queue, &id).await?)))
}

/// Stops a running task, or removes one that has ended. Deleting an unknown task has no effect.
async fn delete(OnQueue { broker, caller, queue }: OnQueue, Segment(id): Segment<0>) -> Result<StatusCode, Error> {
    broker.delete_task(&caller, queue, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
