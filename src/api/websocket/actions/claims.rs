//! Actions on claims.

use axum::http::Method;
use axum::response::Response;
use serde_json::json;
use uuid::Uuid;

use super::{CLAIM, CLAIMS};
use crate::api::extract::{OnQueue, Segment};
use crate::api::websocket::action::{Action, Frame, action};
use crate::broker;
use crate::broker::claims::{ClaimRequest, TermDraft};
use crate::wire::Error;
use crate::wire::frame::FieldType::Integer;
use crate::wire::messages;
use sukkal_domain::{Taken, Warning};

pub(super) fn actions() -> Vec<Action> {
    vec![
        action("claim_create", Method::POST, CLAIMS, "Claim could not be created.", create)
            .accepts(&[("limit", Integer), ("ttl", Integer), ("grace", Integer)])
            .returns_page(),
        action("claim_get", Method::GET, CLAIM, "Claim could not be retrieved.", get).returns_page(),
        action("claim_update", Method::PATCH, CLAIM, "Claim could not be updated.", renew)
            .accepts(&[("ttl", Integer), ("grace", Integer)]),
        action("claim_delete", Method::DELETE, CLAIM, "Claim could not be released.", release),
    ]
}

fn term(frame: &Frame) -> TermDraft {
    TermDraft { ttl_s: frame.request().integer("ttl"), grace_s: frame.request().integer("grace") }
}

/// Claims messages: `204` with a random id if none is available.
async fn create(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let limit = frame.request().integer("limit");
    let request = ClaimRequest { limit, term: term(&frame), wait_s: None, prefer: None };
    match broker.create_claim(&caller, queue.clone(), request).await? {
        Taken::Messages(claim) => {
            let claim = claim.into_delivered();
            let messages = messages::bare_documents(&claim.messages, Some(claim.id));
            frame.respond(201, &json!({ "claim_id": claim.id.to_string(), "messages": messages }))
        }
        nothing => {
            let warnings = match nothing {
                Taken::Paused => vec![Warning::Paused],
                _ => broker.missing_queue(&caller, broker::Action::CreateClaim, &queue).await,
            };
            let document = json!({ "claim_id": Uuid::new_v4().to_string() });
            frame.respond_with(204, &document, warnings)
        }
    }
}

async fn get(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    frame: Frame,
) -> Result<Response, Error> {
    let claim = broker.get_claim(&caller, &queue, &id).await?;
    let messages = messages::bare_documents(&claim.messages, Some(claim.id));
    frame.respond(200, &json!({ "age": claim.age_s, "ttl": claim.ttl_s, "messages": messages }))
}

async fn renew(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    frame: Frame,
) -> Result<Response, Error> {
    broker.renew_claim(&caller, queue, &id, term(&frame)).await?;
    frame.respond(204, &format!("Claim {id} updated."))
}

async fn release(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    frame: Frame,
) -> Result<Response, Error> {
    broker.release_claim(&caller, queue, &id).await?;
    frame.respond(204, &format!("Claim {id} deleted."))
}
