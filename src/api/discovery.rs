//! Discovery (`/`, `/v2`, `/v2/`), health (`/v2/ping`, `/v2/health`, `/healthz`, `/readyz`) and
//! `/metrics`.

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::middleware::outage::Outage::StoreState;
use super::middleware::request_checks::Requirement;
use super::middleware::response_memory::ResponseMemory;
use super::response::Json;
use super::route::{Route, open_route, route};
use super::service::Service;
use crate::auth::Caller;
use crate::broker::{self, Broker, StoreError};
use crate::observability::metrics;
use crate::wire;
use crate::wire::Error;
use crate::wire::error::unavailable;

/// Returns the routes that require a caller.
pub(super) fn routes(admin_mode: bool) -> Vec<Route> {
    let mut routes = vec![
        route("/v2").on(Method::GET, StoreState, home),
        route("/v2/").on(Method::GET, StoreState, home),
        route("/v2/ping").on(Method::GET, StoreState, ping).on(Method::HEAD, StoreState, alive),
    ];
    if admin_mode {
        routes.push(route("/v2/health").on(Method::GET, StoreState, health));
    }
    routes
}

/// Returns the routes that require no caller.
pub(super) fn open_routes() -> Vec<Route> {
    let mut routes = operations_routes();
    routes.insert(0, open_route("/", Requirement::Public).on(Method::GET, StoreState, versions));
    routes
}

/// Returns the routes for monitoring.
pub(super) fn operations_routes() -> Vec<Route> {
    vec![
        open_route("/healthz", Requirement::Nothing).on(Method::GET, StoreState, alive),
        open_route("/readyz", Requirement::Nothing).on(Method::GET, StoreState, ready),
        open_route("/metrics", Requirement::Nothing).on(Method::GET, StoreState, metrics),
    ]
}

async fn versions(State(service): State<Service>) -> Response {
    (StatusCode::MULTIPLE_CHOICES, Json(wire::home::versions(&service.settings.public_path))).into_response()
}

async fn home(State(service): State<Service>) -> Response {
    let settings = &service.settings;
    let has_tokens = settings.authenticator.verifies_api_keys();
    let home = wire::home::home(settings.admin_mode, settings.has_pools(), has_tokens);
    let home = wire::json::indented(&home);
    let headers = [(CONTENT_TYPE, "application/json-home"), (CACHE_CONTROL, "max-age=86400")];
    (headers, home).into_response()
}

/// Returns `204` if the store responds.
async fn ping(State(broker): State<Broker>, caller: Caller) -> Result<StatusCode, Error> {
    broker.ping(&caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns `204` if the service is not about to stop, and the store responds and can write.
/// Otherwise the response has the reason, for the operator.
async fn ready(State(Service { broker, stopping, .. }): State<Service>) -> Response {
    if stopping.is_cancelled() {
        return unavailable("The service is stopping.");
    }
    match broker.probe(&Caller::Anonymous).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(broker::Error::Store(StoreError::Unavailable(reason))) => {
            unavailable(&format!("The message store cannot be used: {}.", reason.trim_end_matches('.')))
        }
        Err(error) => Error::from(error).into_response(),
    }
}

async fn alive() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn metrics(State(service): State<Service>, request: Request) -> Result<Response, Error> {
    let memory = ResponseMemory::of_metrics(&request, &service);
    let exposition = service.broker.metrics(&Caller::Anonymous).await?;
    memory.hold(([(CONTENT_TYPE, metrics::MEDIA_TYPE)], exposition).into_response())
}

async fn health(State(broker): State<Broker>, caller: Caller) -> Result<Response, Error> {
    let operations = broker.check_health(&caller).await?;
    Ok(Json(wire::health::document(&operations)).into_response())
}
