//! `/v2/backup`: a backup of the whole store, for operators.

use axum::body::Body;
use axum::extract::State;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream;
use tracing::error;

use super::route::{Route, route};
use crate::api::Error;
use crate::auth::Caller;
use crate::broker::Broker;

pub(super) fn routes(admin_mode: bool) -> Vec<Route> {
    let backup = || route("/v2/backup").on(Method::GET, "The backup could not be made.", backup);
    admin_mode.then(backup).into_iter().collect()
}

/// Returns a backup of the store as it is now. The next part is read when the client has accepted the
/// previous one. If a part cannot be read, the connection ends before the end of the response.
async fn backup(State(broker): State<Broker>, caller: Caller) -> Result<Response, Error> {
    let parts = broker.begin_backup(&caller).await?;
    let parts = parts.inspect(|part| {
        if let Err(error) = part {
            error!(%error, "a backup has failed");
        }
    });
    Ok(([(CONTENT_TYPE, "application/octet-stream")], Body::from_stream(stream::iter(parts))).into_response())
}
