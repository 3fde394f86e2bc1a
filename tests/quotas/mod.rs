//! Quotas of projects, tested against real server processes.

mod campaign;
mod counts;
mod rates;
mod settings;
mod stored;

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use support::sukkal::{Api, Sukkal};

const ADMIN_MODE: (&str, &str) = ("SUKKAL_ADMIN_MODE", "true");
/// How long a change may take to reach another process.
const PROPAGATION_MAX: Duration = Duration::from_secs(5);

/// A complete response.
#[derive(Debug)]
struct Answer {
    status: u16,
    retry_after: Option<String>,
    document: Value,
}

async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.expect("the server answers");
    let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    Answer { status, retry_after, document: response.json().await.unwrap_or_default() }
}

/// Sends a request, checks the status of its response, and returns the document.
async fn answered(request: RequestBuilder, status: u16) -> Value {
    let answer = send(request).await;
    assert_eq!(answer.status, status, "{answer:?}");
    answer.document
}

/// Checks that a request is refused because a quota is reached. Returns the description.
async fn refused(request: RequestBuilder) -> String {
    let answer = send(request).await;
    assert_eq!((answer.status, &answer.document["title"]), (403, &json!("Quota exceeded")), "{answer:?}");
    answer.document["description"].as_str().unwrap().to_owned()
}

/// Starts a server over a store in its memory.
fn server(environment: &[(&str, &str)]) -> Sukkal {
    Sukkal::start_with("memory:", &[&[ADMIN_MODE], environment].concat())
}

/// Returns a request of an operator for the quotas of a project.
fn quotas_of(server: &Sukkal, project: &str, method: Method) -> RequestBuilder {
    let path = format!("/v2/quotas?project_id={project}");
    server.project("the project of the operator").request(method, &path).header("X-Roles", "admin")
}

async fn set_quotas(server: &Sukkal, project: &str, quotas: &Value) -> Value {
    answered(quotas_of(server, project, Method::PUT).json(quotas), 200).await
}

fn messages(count: usize) -> Value {
    json!({ "messages": vec![json!({"body": 1}); count] })
}

async fn subscribe(api: &Api, queue: &str, host: &str) -> Answer {
    let subscriber = json!({ "subscriber": format!("http://{host}/") });
    send(api.post(&format!("/v2/queues/{queue}/subscriptions"), &subscriber)).await
}
