//! `/v2/projects`: lists projects, for operators.

use axum::extract::{RawQuery, State};
use axum::http::Method;
use serde_json::{Value, json};

use super::parameters::Parameters;
use super::response::Json;
use super::route::{Route, route};
use crate::auth::Caller;
use crate::broker::Broker;
use crate::wire::Error;
use crate::wire::links;
use crate::wire::query::Query;
use sukkal_domain::ProjectId;

const PATH: &str = "/v2/projects";

pub(super) fn routes(admin_mode: bool) -> Vec<Route> {
    let projects = || {
        route(PATH).on_query(Method::GET, "Projects could not be listed.", Parameters::of(&["marker", "limit"]), list)
    };
    admin_mode.then(projects).into_iter().collect()
}

/// Returns a page of the projects that have queues.
async fn list(State(broker): State<Broker>, caller: Caller, RawQuery(query): RawQuery) -> Result<Json<Value>, Error> {
    let query = Query::parse(query.as_deref());
    let (after, limit) = (query.last("marker").and_then(ProjectId::new), query.integer("limit")?);

    let listed = broker.list_projects(&caller, after.clone(), limit).await?;
    let projects: Vec<Value> =
        listed.projects.iter().map(|(id, queues)| json!({ "id": id.as_str(), "queues": queues })).collect();
    let parameters = [("limit", limit.map(|limit| limit.to_string()))];
    let links = links::next(PATH, after.is_some(), &parameters, listed.next.as_ref().map(ProjectId::as_str));
    Ok(Json(json!({ "projects": projects, "links": links })))
}
