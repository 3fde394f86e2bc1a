//! What the service is and whether it works: `/`, `/v2` and `/v2/`, `/v2/ping`, `/v2/health`, `/healthz`, `/readyz`,
//! `/metrics`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::resource::{Resource, resource};
use super::{Service, admission};
use crate::api::Error;
use crate::api::error::unavailable;
use crate::api::wire;
use crate::auth::Caller;
use crate::broker::{self, Broker};
use crate::{metrics, storage};

/// The routes that need a caller.
pub(super) fn routes(admin_mode: bool) -> Vec<Resource> {
    let mut routes = vec![
        resource("/v2", "GET, OPTIONS", get(home)),
        resource("/v2/", "GET, OPTIONS", get(home)),
        resource("/v2/ping", "GET, HEAD, OPTIONS", get(ping).head(alive)),
    ];
    if admin_mode {
        routes.push(resource("/v2/health", "GET, OPTIONS", get(health)));
    }
    routes
}

/// The routes that need none.
pub(super) fn open_routes() -> Vec<Resource> {
    let mut root = resource("/", "GET, OPTIONS", get(versions));
    root.methods = root.methods.layer(middleware::from_fn(admission::admit_anybody));
    let mut routes = operations_routes();
    routes.insert(0, root);
    routes
}

/// The routes for monitoring.
pub(super) fn operations_routes() -> Vec<Resource> {
    vec![
        resource("/healthz", "GET, OPTIONS", get(alive)),
        resource("/readyz", "GET, OPTIONS", get(ready)),
        resource("/metrics", "GET, OPTIONS", get(metrics)),
    ]
}

async fn versions() -> Response {
    (StatusCode::MULTIPLE_CHOICES, Json(wire::home::versions())).into_response()
}

async fn home(State(service): State<Service>) -> Response {
    let home = wire::json::indented(&wire::home::home(service.settings.admin_mode));
    let headers = [(CONTENT_TYPE, "application/json-home"), (CACHE_CONTROL, "max-age=86400")];
    (headers, home).into_response()
}

/// `204` if the store answers.
async fn ping(State(broker): State<Broker>, caller: Caller) -> Result<StatusCode, Error> {
    broker.ping(&caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `204` if the store answers and can write. The reason why not is for the operator.
async fn ready(State(broker): State<Broker>) -> Response {
    match broker.probe().await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(broker::Error::Store(storage::Error::Unavailable(reason))) => {
            unavailable(&format!("The message store cannot be used: {}.", reason.trim_end_matches('.')))
        }
        Err(error) => Error::from(error).into_response(),
    }
}

async fn alive() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn metrics(State(broker): State<Broker>) -> Response {
    ([(CONTENT_TYPE, metrics::MEDIA_TYPE)], broker.metrics()).into_response()
}

async fn health(State(broker): State<Broker>, caller: Caller) -> Result<Response, Error> {
    let operations = broker.check_health(&caller).await?;
    Ok(Json(wire::health::document(&operations)).into_response())
}
