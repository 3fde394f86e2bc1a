//! `/v2/pools`: the stores that keep queues, for operators.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_LOCATION, LOCATION};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::extract::Segment;
use super::parameters::Parameters;
use super::response::Json;
use super::route::{Route, route};
use super::warnings::Warnings;
use crate::auth::Caller;
use crate::broker::Broker;
use crate::wire::Error;
use crate::wire::pools::{self, BODY_BYTES_MAX, PATH};
use crate::wire::query::Query;
use crate::wire::{body, links};
use sukkal_domain::WithWarnings;

pub(super) fn routes(has_pools: bool) -> Vec<Route> {
    if !has_pools {
        return Vec::new();
    }
    vec![
        route(PATH).on_query(
            Method::GET,
            "Pools could not be listed.",
            Parameters::of(&["marker", "limit", "detailed"]),
            list,
        ),
        route("/v2/pools/{pool_name}")
            .on_query(Method::GET, "Pool could not be retrieved.", Parameters::of(&["detailed"]), get)
            .on(Method::PUT, "Pool could not be created.", create)
            .on(Method::PATCH, "Pool could not be updated.", update)
            .on(Method::DELETE, "Pool could not be deleted.", delete),
    ]
}

/// Returns a page of the pools by name.
async fn list(
    State(broker): State<Broker>,
    caller: Caller,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let query = Query::parse(query.as_deref());
    let (marker, limit, detailed) = (query.last("marker"), query.integer("limit")?, query.boolean("detailed")?);
    let page = broker.list_pools(&caller, marker, limit).await?;
    let parameters =
        [("limit", limit.map(|limit| limit.to_string())), ("detailed", detailed.map(|detailed| detailed.to_string()))];
    let last = page.last().map(|pool| pool.name.as_str());
    let links = links::next(PATH, marker.is_some(), &parameters, last);
    let pools: Vec<Value> = page.iter().map(|pool| pools::document(pool, detailed == Some(true))).collect();
    Ok(([(CONTENT_LOCATION, uri.to_string())], Json(json!({ "links": links, "pools": pools }))).into_response())
}

/// Returns a pool, with its options if the query asks for details.
async fn get(
    State(broker): State<Broker>,
    caller: Caller,
    Segment(name): Segment<0>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Error> {
    let detailed = Query::parse(query.as_deref()).boolean("detailed")?;
    let pool = broker.get_pool(&caller, &name).await?;
    Ok(Json(pools::document(&pool, detailed == Some(true))))
}

/// Creates a pool, or replaces it: `201`.
async fn create(
    State(broker): State<Broker>,
    caller: Caller,
    Segment(name): Segment<0>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Body).await?;
    let warnings = Warnings(broker.create_pool(&caller, &name, pools::parse_new(&body)?).await?);
    Ok((StatusCode::CREATED, [(LOCATION, pools::path(&name))], warnings, ()).into_response())
}

/// Changes what the body names of a pool, and returns the pool.
async fn update(
    State(broker): State<Broker>,
    caller: Caller,
    Segment(name): Segment<0>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Body).await?;
    let WithWarnings { value: change, warnings } = pools::parse_change(&body)?;
    let pool = broker.update_pool(&caller, &name, change).await?;
    let warnings = Warnings([pool.warnings, warnings].concat());
    Ok((warnings, Json(pools::document(&pool.value, false))).into_response())
}

/// Deletes a pool. If it may have queues, the response has a warning.
async fn delete(State(broker): State<Broker>, caller: Caller, Segment(name): Segment<0>) -> Result<Response, Error> {
    let deleted = broker.delete_pool(&caller, &name).await?;
    Ok((StatusCode::NO_CONTENT, Warnings(deleted.warnings), ()).into_response())
}
