//! Quotas of projects, tested against real server processes.

mod campaign;
mod counts;
mod rates;
mod settings;
mod stored;

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::http::{Answer, answered, send};
use support::sukkal::{Api, Sukkal};

const ADMIN_MODE: (&str, &str) = ("SUKKAL_ADMIN_MODE", "true");
/// How long a change may take to reach another process.
const PROPAGATION_MAX: Duration = Duration::from_secs(5);

/// Checks that a request is refused because a quota is reached. Returns the description.
async fn refused(request: RequestBuilder) -> String {
    crate::http::refused(request, 403, "Quota exceeded").await
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
    answered(quotas_of(server, project, Method::PUT).json(quotas), 200).await.json()
}

fn messages(count: usize) -> Value {
    json!({ "messages": vec![json!({"body": 1}); count] })
}

async fn subscribe(api: &Api, queue: &str, host: &str) -> Answer {
    let subscriber = json!({ "subscriber": format!("http://{host}/") });
    send(api.post(&format!("/v2/queues/{queue}/subscriptions"), &subscriber)).await
}
