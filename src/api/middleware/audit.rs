//! Begins and ends the trail of each request, from which the audit log makes a record.

use std::future::Future;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::response::Response;

use super::metering;
use crate::api::server::connection::Connection;
use crate::auth::{Client, ClientCertificate};
use crate::observability::audit::{self, AuditLog, Origin, Trail};
use crate::observability::request_id::{RequestId, current_trail};
use crate::wire::error::Refusal;
use sukkal_domain::{ProjectId, QueueId};

/// Begins the trail of a request.
pub(super) fn begin(log: &AuditLog, request: &Request, id: RequestId) -> Arc<Trail> {
    let origin = Origin {
        request_id: id.to_string(),
        peer: request.extensions().get::<Arc<Connection>>().map(|connection| connection.peer.address),
        certificate: request.extensions().get::<ClientCertificate>().cloned(),
        method: metering::label(request.method()),
        path: request.uri().path().to_owned(),
    };
    Arc::new(Trail::new(log.clone(), origin))
}

/// Notes the strategy that finds out who sends the current request.
pub(super) fn note_strategy(strategy: &'static str) {
    if let Some(trail) = current_trail() {
        trail.note_strategy(strategy);
    }
}

/// Notes who sends the current request, and what it works on.
pub(super) fn note_client(client: &Client, own_project: &ProjectId, queue: Option<&QueueId>) {
    if let Some(trail) = current_trail() {
        trail.note_client(client, own_project, queue);
    }
}

/// Ends the trail of the current request. The future borrows no body, so that it can be sent to
/// another thread.
pub(super) fn end(response: &Response) -> impl Future<Output = ()> + Send + use<> {
    let ended = current_trail().map(|trail| {
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let response = audit::Response {
            status: response.status().as_u16(),
            is_refusal: response.extensions().get::<Refusal>().is_some(),
            location: location.map(str::to_owned),
        };
        (trail, response)
    });
    async move {
        if let Some((trail, response)) = ended {
            trail.end(response).await;
        }
    }
}
