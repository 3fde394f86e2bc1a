//! `/v2/queues/{queue_name}/share`: sign a URL, which lets others do with the queue what it says.
//!
//! The store is not asked: a URL may be signed for a queue that is yet to come.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::Value;
use time::OffsetDateTime;

use super::Service;
use super::resource::{Resource, resource};
use crate::api::Error;
use crate::api::wire::{self, body};
use crate::domain::QueueId;

pub(super) fn routes() -> Vec<Resource> {
    vec![resource("/v2/queues/{queue_name}/share", "OPTIONS, POST", post(share))]
}

/// Signs a URL for paths of the queue.
async fn share(
    State(service): State<Service>,
    queue: QueueId,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Error> {
    let bytes_max = service.broker.limits().max_queue_metadata;
    let body = body::read_required(&headers, body, bytes_max, Error::Request).await?;
    let url = wire::share::parse(&body, &queue, OffsetDateTime::now_utc())?;
    let unsigned =
        || Error::Request("this server cannot sign URLs; its operator must set secret_key in [signed_url]".to_owned());
    let signer = service.settings.signer.as_ref().ok_or_else(unsigned)?;
    Ok(Json(wire::share::document(&url, &signer.sign(&url))))
}
