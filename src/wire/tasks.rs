//! Task documents, and the body that starts a redrive.

use serde_json::{Value, json};

use super::Error;
use super::json;
use super::paths;
use super::timestamp::timestamp;
use crate::broker::tasks::RedriveRequest;
use sukkal_domain::{QueueId, Task, TaskId, TaskState};

/// Parses `{"to": …, "ids": […], "limit": …, "per_second": …}`. All fields are optional. An unknown
/// field is an error, because a redrive without a misspelled `limit` would move everything.
pub fn parse_redrive(bytes: &[u8]) -> Result<RedriveRequest, Error> {
    let fields = json::parse_object(bytes)?;
    let mut request = RedriveRequest::default();
    for (field, value) in &fields {
        match field.as_str() {
            "to" => {
                let name = value.as_str().ok_or_else(|| invalid("\"to\" must be the name of a queue"))?;
                request.to = Some(name.parse().map_err(|error| invalid(&format!("\"to\": {error}")))?);
            }
            "ids" => {
                request.ids = Some(json::texts(value).ok_or_else(|| invalid("\"ids\" must be a list of strings"))?);
            }
            "limit" => request.limit = Some(integer(field, value)?),
            "per_second" => request.per_second = Some(integer(field, value)?),
            _ => {
                let accepted = "\"to\", \"ids\", \"limit\" and \"per_second\"";
                return Err(invalid(&format!("the body has the field {field:?}; it accepts only {accepted}")));
            }
        }
    }
    Ok(request)
}

/// Returns the integer in a field. Only the API of Zaqar accepts a boolean as an integer.
fn integer(field: &str, value: &Value) -> Result<i64, Error> {
    match value {
        Value::Bool(_) => Err(invalid(&format!("{field:?} is {value}; it must be an integer"))),
        value => json::integer(field, value),
    }
}

fn invalid(text: &str) -> Error {
    Error::Request(text.to_owned())
}

/// Returns the document of a task.
#[must_use]
pub fn document(task: &Task) -> Value {
    let state = match task.state {
        TaskState::Running => "running",
        TaskState::Done => "done",
        TaskState::Stopped => "stopped",
        TaskState::Failed => "failed",
    };
    json!({
        "id": task.id.to_string(),
        "kind": "redrive",
        "state": state,
        "moved": task.moved,
        "skipped": task.skipped,
        "remaining": task.remaining,
        "created": timestamp(task.created_s),
        "error": task.error,
    })
}

/// Returns the document of a list of tasks.
#[must_use]
pub fn list_document(tasks: &[Task]) -> Value {
    json!({ "tasks": tasks.iter().map(document).collect::<Value>() })
}

/// Returns the path of a task.
#[must_use]
pub fn href(queue: &QueueId, id: TaskId) -> String {
    paths::below(queue.name(), &format!("tasks/{id}"))
}
