//! The actions of the API, in one file for each resource.

mod claims;
mod messages;
mod queues;
mod subscriptions;

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;
use axum::response::{Extension, IntoResponse, Response};
use serde_json::json;

use super::action::{Action, Frame, PATH, action};
use crate::api::route::path_of;
use crate::auth::{Caller, Client};
use crate::wire::Error;
use sukkal_domain::QueueKind;

const QUEUE: &str = path_of!(QueueKind::Queue, "");
const MESSAGES: &str = path_of!(QueueKind::Queue, "/messages");
const MESSAGE: &str = path_of!(QueueKind::Queue, "/messages/{message_id}");
const CLAIMS: &str = path_of!(QueueKind::Queue, "/claims");
const CLAIM: &str = path_of!(QueueKind::Queue, "/claims/{claim_id}");
const STATS: &str = path_of!(QueueKind::Queue, "/stats");
const PURGE: &str = path_of!(QueueKind::Queue, "/purge");
const SUBSCRIPTIONS: &str = path_of!(QueueKind::Queue, "/subscriptions");
const SUBSCRIPTION: &str = path_of!(QueueKind::Queue, "/subscriptions/{subscription_id}");

/// The client that has authenticated the connection. It is in the extensions of the response.
#[derive(Clone)]
pub(super) struct Proved(pub(super) Client);

/// The actions by name.
static ACTIONS: LazyLock<HashMap<&'static str, Action>> =
    LazyLock::new(|| all().into_iter().map(|action| (action.name, action)).collect());

/// Returns the action with this name.
pub(super) fn find(name: &str) -> Option<&'static Action> {
    ACTIONS.get(name)
}

/// Returns the action under whose route requests without a valid action count.
pub(super) fn unknown() -> &'static Action {
    &ACTIONS["authenticate"]
}

fn all() -> Vec<Action> {
    let mut all = vec![action("authenticate", Method::POST, PATH, "Authentication failed.", authenticate)];
    all.extend(queues::actions());
    all.extend(messages::actions());
    all.extend(claims::actions());
    all.extend(subscriptions::actions());
    all
}

/// Authenticates the connection with the token of the request, which the middleware has verified.
async fn authenticate(caller: Caller, frame: Frame) -> Result<Response, Error> {
    let response = frame.respond(200, &json!({ "message": "Authenticated." }))?;
    Ok(match caller {
        Caller::Client(client) => (Extension(Proved(client)), response).into_response(),
        _ => response,
    })
}
