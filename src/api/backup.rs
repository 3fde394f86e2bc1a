//! `/v2/backup`: a backup of the whole store, for operators.

use axum::body::Body;
use axum::extract::State;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream;
use tracing::error;

use super::route::{Route, route};
use super::service::Service;
use crate::auth::Caller;
use crate::broker::StoreError;
use crate::wire::Error;

pub(super) fn routes(admin_mode: bool) -> Vec<Route> {
    let backup = || route("/v2/backup").on(Method::GET, "The backup could not be made.", backup);
    admin_mode.then(backup).into_iter().collect()
}

/// Returns a backup of the store as it is now. The next part is read when the client has accepted
/// the previous one. If a part cannot be read, or the service stops, the connection ends before the
/// end of the response.
async fn backup(State(Service { broker, stopping, .. }): State<Service>, caller: Caller) -> Result<Response, Error> {
    let parts = broker.begin_backup(&caller).await?;
    let parts = parts.map(move |part| {
        let part =
            if stopping.is_cancelled() { Err(StoreError::Unavailable("the service stops".to_owned())) } else { part };
        part.inspect_err(|error| error!(%error, "a backup has failed"))
    });
    Ok(([(CONTENT_TYPE, "application/octet-stream")], Body::from_stream(stream::iter(parts))).into_response())
}
