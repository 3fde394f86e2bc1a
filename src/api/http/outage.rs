//! `503`: what could not be done while the store was away, in the words of the API.

use std::future::Future;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::response::{IntoResponse, Response};

use crate::api::error::StoreFailure;
use crate::api::wire::query::Query;

/// Lets the `503` of a store that is away say what could not be done.
pub(super) async fn name_the_loss<F, R>(request: Request, handle: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = R>,
    R: IntoResponse,
{
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let loss = loss(request.method(), path, request.uri().query());
    let response = handle(request).await.into_response();
    match response.extensions().get::<StoreFailure>() {
        Some(failure) if loss.is_some() => failure.response(loss),
        _ => response,
    }
}

fn loss(method: &Method, path: &str, query: Option<&str>) -> Option<&'static str> {
    let in_queue = path.strip_prefix("/v2/queues/{queue_name}");
    Some(match (method.as_str(), in_queue.unwrap_or(path)) {
        ("GET", "/v2/queues") => "Queues could not be listed.",
        ("PUT", "") => "Queue could not be created.",
        ("GET", "") => "Queue metadata could not be retrieved.",
        ("PATCH", "") => "Queue metadata could not be updated.",
        ("DELETE", "") => "Queue could not be deleted.",
        ("GET", "/stats") => "Queue stats could not be read.",
        ("POST", "/purge") => "Queue could not be purged.",
        ("POST", "/messages") => "Messages could not be enqueued.",
        ("GET", "/messages") => "Messages could not be listed.",
        ("DELETE", "/messages") if Query::parse(query).last("pop").is_some() => "Messages could not be popped.",
        ("DELETE", "/messages") => "Messages could not be deleted.",
        ("GET", "/messages/{message_id}") => "Message could not be retrieved.",
        ("DELETE", "/messages/{message_id}") => "Message could not be deleted.",
        ("POST", "/claims") => "Claim could not be created.",
        ("GET", "/claims/{claim_id}") => "Claim could not be retrieved.",
        ("PATCH", "/claims/{claim_id}") => "Claim could not be updated.",
        ("DELETE", "/claims/{claim_id}") => "Claim could not be released.",
        ("DELETE", "/claims/{claim_id}/messages/{message_id}") => "Message could not be given back.",
        _ => return None,
    })
}
