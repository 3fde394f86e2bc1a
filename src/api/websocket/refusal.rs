//! Requests that are refused before they reach the middleware of their action. They count like the
//! requests that their route refuses.

use axum::extract::{Extension, Request, State};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::reply::Outcome;
use crate::api::middleware::outage::Outage;
use crate::api::middleware::request_checks::Requirement;
use crate::api::middleware::stack::WithMiddleware;
use crate::api::service::Service;
use crate::wire::Error;
use crate::wire::error::Refusal;
use sukkal_domain::ProjectId;

/// A request that is refused.
#[derive(Clone)]
struct Refused {
    status: StatusCode,
    /// The project whose rate it uses.
    project: ProjectId,
    /// Whether the audit log records it.
    is_refusal: bool,
}

/// Counts a refused request, for which `request` stands, in the rate of the project, in the metrics
/// and in the audit log. Returns the outcome, or that the project has sent too many requests.
pub(super) async fn count(outcome: Outcome, project: ProjectId, mut request: Request, service: Service) -> Outcome {
    let status = outcome.status();
    request.extensions_mut().insert(Refused { status, project, is_refusal: outcome.is_refusal() });
    let handler = WithMiddleware::new(Requirement::Nothing, Outage::from(""), refuse);
    let response = handler.call(request, service).await;
    if response.status() == status { outcome } else { Outcome::of(response, false, true).await }
}

async fn refuse(State(service): State<Service>, Extension(refused): Extension<Refused>) -> Result<Response, Error> {
    service.broker.count_request(&refused.project)?;
    let mut response = refused.status.into_response();
    if refused.is_refusal {
        response.extensions_mut().insert(Refusal);
    }
    Ok(response)
}
