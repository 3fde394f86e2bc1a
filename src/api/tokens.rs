//! `/v2/tokens`: create, list, show and delete tokens.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::extract::Segment;
use super::middleware::operator;
use super::parameters::Parameters;
use super::response::Json;
use super::route::{Route, route};
use crate::auth::Caller;
use crate::broker::{self, Broker};
use crate::wire::Error;
use crate::wire::query::Query;
use crate::wire::tokens::{self, PATH};
use crate::wire::{body, links};

/// Maximum size in bytes of the body of a request for a token.
const BODY_BYTES_MAX: u64 = 16_384;

/// Returns the routes if tokens are credentials. Otherwise a token that somebody creates would
/// become valid when the operator turns the strategy on.
pub(super) fn routes(are_credentials: bool) -> Vec<Route> {
    if !are_credentials {
        return Vec::new();
    }
    vec![
        route(PATH)
            .on_query(
                Method::GET,
                "Tokens could not be listed.",
                Parameters::of(&["marker", "limit", "project_id"]),
                list,
            )
            .on(Method::POST, "Token could not be created.", create),
        route("/v2/tokens/{token_id}").on(Method::GET, "Token could not be retrieved.", get).on(
            Method::DELETE,
            "Token could not be deleted.",
            delete,
        ),
    ]
}

/// Creates a token: `201` with the token, which is not shown again.
async fn create(
    State(broker): State<Broker>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let project = &caller.as_client().ok_or(broker::Error::Forbidden)?.project;
    let body = body::read_required(&headers, body, BODY_BYTES_MAX, Error::Request).await?;
    let draft = tokens::parse_new(&body, project)?;
    let (token, record) = broker.create_token(&caller, draft).await?;
    let location = [(LOCATION, tokens::path(record.id))];
    Ok((StatusCode::CREATED, location, Json(tokens::created_document(&token, &record))).into_response())
}

/// Returns a page of the tokens that the caller manages, without their secrets.
async fn list(State(broker): State<Broker>, caller: Caller, RawQuery(query): RawQuery) -> Result<Json<Value>, Error> {
    let query = Query::parse(query.as_deref());
    let marker = query.last("marker").map(tokens::parse_marker).transpose()?;
    let limit = query.integer("limit")?;
    let project = query.last("project_id").map(operator::parse).transpose()?;
    let page = broker.list_tokens(&caller, project.clone(), marker, limit).await?;
    let project = project.map(|project| project.as_str().to_owned());
    let parameters = [("limit", limit.map(|limit| limit.to_string())), ("project_id", project)];
    let last = page.last().map(|token| token.id.to_string());
    let links = links::next(PATH, marker.is_some(), &parameters, last.as_deref());
    let tokens: Value = page.iter().map(tokens::document).collect();
    Ok(Json(json!({ "tokens": tokens, "links": links })))
}

/// Returns a token without its secret.
async fn get(State(broker): State<Broker>, caller: Caller, Segment(id): Segment<0>) -> Result<Json<Value>, Error> {
    Ok(Json(tokens::document(&broker.get_token(&caller, &id).await?)))
}

/// Deletes a token. Deleting an unknown token has no effect.
async fn delete(State(broker): State<Broker>, caller: Caller, Segment(id): Segment<0>) -> Result<StatusCode, Error> {
    broker.delete_token(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
