//! `/v2/usage`: what a project uses of its quotas. `/v2/quotas`: the quotas of a project, for
//! operators.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use super::response::Json;
use super::route::{Route, route};
use crate::auth::Caller;
use crate::broker::Broker;
use crate::wire::Error;
use crate::wire::{body, quotas};
use sukkal_domain::QuotaOverrides;

/// Maximum size in bytes of a body with quotas.
const BODY_BYTES_MAX: u64 = 4_096;

pub(super) fn routes(admin_mode: bool) -> Vec<Route> {
    let mut routes = vec![route("/v2/usage").on(Method::GET, "Usage could not be retrieved.", usage)];
    if admin_mode {
        let quotas = route("/v2/quotas")
            .on(Method::GET, "Quotas could not be retrieved.", get)
            .on(Method::PUT, "Quotas could not be set.", set)
            .on(Method::DELETE, "Quotas could not be removed.", remove);
        routes.push(quotas);
    }
    routes
}

/// Returns how much the caller's project uses of each quota, with the limits.
async fn usage(State(broker): State<Broker>, caller: Caller) -> Result<Json<Value>, Error> {
    Ok(Json(quotas::usage_document(&broker.get_usage(&caller).await?)))
}

/// Returns the quotas that were set for the project, and the limits in force.
async fn get(State(broker): State<Broker>, caller: Caller) -> Result<Json<Value>, Error> {
    Ok(Json(quotas::document(&broker.get_quotas(&caller).await?)))
}

/// Replaces the quotas of the project.
async fn set(
    State(broker): State<Broker>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Request).await?;
    Ok(Json(quotas::document(&broker.set_quotas(&caller, quotas::parse(&body)?).await?)))
}

/// Removes the quotas of the project, so that the limits of the configuration apply.
async fn remove(State(broker): State<Broker>, caller: Caller) -> Result<StatusCode, Error> {
    broker.set_quotas(&caller, QuotaOverrides::default()).await?;
    Ok(StatusCode::NO_CONTENT)
}
