//! `/v2/queues/{queue_name}/share`: sign a URL that gives its holder access to a queue. Topics have
//! the same route.
//!
//! This does not access the store: a URL may be signed for a queue that does not exist yet.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use serde_json::Value;
use time::OffsetDateTime;

use super::extract::Queue;
use super::middleware::outage::Outage;
use super::response::Json;
use super::route::{Route, path_of, route};
use super::service::Service;
use crate::auth::Caller;
use crate::wire::Error;
use crate::wire::{self, body};
use sukkal_domain::QueueKind;

pub(super) fn routes(kind: QueueKind) -> Vec<Route> {
    vec![route(path_of!(kind, "/share")).on(Method::POST, Outage::StoreState, share)]
}

/// Signs a URL for paths of the queue and returns what a client needs to use it.
async fn share(
    State(service): State<Service>,
    caller: Caller,
    Queue(queue): Queue,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Error> {
    service.broker.authorize_share(&caller, &queue)?;
    let bytes_max = service.broker.limits().max_queue_metadata;
    let body = body::read_required(&headers, body, bytes_max, Error::Request).await?;
    let url = wire::share::parse(&body, &queue, OffsetDateTime::now_utc())?;
    service.broker.authorize_shared(&caller, &url)?;
    let no_key =
        || Error::Request("this server cannot sign URLs; its operator must set secret_key in [signed_url]".to_owned());
    let signer = service.settings.signer.as_ref().ok_or_else(no_key)?;
    Ok(Json(wire::share::document(&url, &signer.sign(&url))))
}
