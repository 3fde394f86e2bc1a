//! `/v2/flavors`: named sets of pools. Everybody may list those of the project, and operators
//! change them.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode};
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
use crate::wire::flavors::{self, PATH};
use crate::wire::pools::BODY_BYTES_MAX;
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
            "Flavors could not be listed.",
            Parameters::of(&["marker", "limit", "detailed"]),
            list,
        ),
        route("/v2/flavors/{flavor_name}")
            .on(Method::GET, "Flavor could not be retrieved.", get)
            .on(Method::PUT, "Flavor could not be created.", create)
            .on(Method::PATCH, "Flavor could not be updated.", update)
            .on(Method::DELETE, "Flavor could not be deleted.", delete),
    ]
}

/// Returns a page of the project's flavors by name.
async fn list(State(broker): State<Broker>, caller: Caller, RawQuery(query): RawQuery) -> Result<Json<Value>, Error> {
    let query = Query::parse(query.as_deref());
    let (marker, limit, detailed) = (query.last("marker"), query.integer("limit")?, query.boolean("detailed")?);
    let page = broker.list_flavors(&caller, marker, limit).await?;
    let last = page.last().map(|flavor| flavor.name.to_string());
    let (limit, next) = (("limit", limit.map(|limit| limit.to_string())), ("marker", last.clone()));
    let [first, second] = if marker.is_some() { [next, limit] } else { [limit, next] };
    let detail = ("detailed", detailed.map(|detailed| detailed.to_string()));
    let links = last.map(|_| links::next_to(PATH, &[first, second, detail]));
    let flavors: Vec<Value> =
        page.iter().map(|flavor| flavors::listed_document(flavor, detailed == Some(true))).collect();
    Ok(Json(json!({ "links": Vec::from_iter(links), "flavors": flavors })))
}

/// Returns a flavor with its pools.
async fn get(State(broker): State<Broker>, caller: Caller, Segment(name): Segment<0>) -> Result<Json<Value>, Error> {
    Ok(Json(flavors::document(&broker.get_flavor(&caller, &name).await?)))
}

/// Creates a flavor, or replaces it: `201`.
async fn create(
    State(broker): State<Broker>,
    caller: Caller,
    Segment(name): Segment<0>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Body).await?;
    let warnings = Warnings(broker.create_flavor(&caller, &name, flavors::parse_new(&body)?).await?);
    Ok((StatusCode::CREATED, [(LOCATION, flavors::path(&name))], warnings, ()).into_response())
}

/// Replaces the pools of a flavor, and returns the flavor.
async fn update(
    State(broker): State<Broker>,
    caller: Caller,
    Segment(name): Segment<0>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Body).await?;
    let WithWarnings { value: pools, warnings } = flavors::parse_change(&body)?;
    let flavor = broker.update_flavor(&caller, &name, pools).await?;
    let warnings = Warnings([flavor.warnings, warnings].concat());
    Ok((warnings, Json(flavors::document(&flavor.value))).into_response())
}

/// Deletes a flavor. Deleting an unknown flavor has no effect.
async fn delete(State(broker): State<Broker>, caller: Caller, Segment(name): Segment<0>) -> Result<Response, Error> {
    let warnings = Warnings(broker.delete_flavor(&caller, &name).await?);
    Ok((StatusCode::NO_CONTENT, warnings, ()).into_response())
}
