//! Actions on messages.

use axum::http::{HeaderMap, Method};
use axum::response::Response;
use serde_json::json;

use super::{MESSAGE, MESSAGES};
use crate::api::extract::{OnQueue, Segment};
use crate::api::messages::{count_to_pop, durability_of, idempotency_of};
use crate::api::websocket::action::{Action, Frame, action};
use crate::broker;
use crate::broker::messages::{Delay, MessageQuery, PostRequest};
use crate::wire::Error;
use crate::wire::frame::FieldType::{Boolean, Integer, List, Text};
use crate::wire::messages::{self, BareMessageDocument, ListDocument};
use crate::wire::trace_context;
use crate::wire::view::View;
use sukkal_domain::{Scope, Taken, Warning, WithWarnings};

pub(super) fn actions() -> Vec<Action> {
    vec![
        action("message_post", Method::POST, MESSAGES, "Messages could not be enqueued.", post)
            .requires(&[("messages", List)])
            .signable(),
        action("message_list", Method::GET, MESSAGES, "Messages could not be listed.", list)
            .accepts(&[
                ("marker", Text),
                ("limit", Integer),
                ("echo", Boolean),
                ("include_claimed", Boolean),
                ("include_delayed", Boolean),
            ])
            .returns_page()
            .signable(),
        action("message_get", Method::GET, MESSAGE, "Message could not be retrieved.", get).returns_page().signable(),
        action("message_get_many", Method::GET, MESSAGES, "Messages could not be listed.", get_many)
            .requires(&[("message_ids", List)])
            .returns_page()
            .signable(),
        action("message_delete", Method::DELETE, MESSAGE, "Message could not be deleted.", delete)
            .accepts(&[("claim_id", Text)])
            .signable(),
        action("message_delete_many", Method::DELETE, MESSAGES, "Messages could not be deleted.", delete_many)
            .accepts(&[("message_ids", List), ("claim_ids", List), ("pop", Integer)])
            .returns_page()
            .signable(),
    ]
}

/// A delay in a post over a WebSocket.
const NO_DELAY: Warning = Warning::DelayOverWebSocket;

/// Posts messages. Their delays are ignored, as upstream does.
async fn post(OnQueue { broker, caller, queue }: OnQueue, headers: HeaderMap, frame: Frame) -> Result<Response, Error> {
    let request = frame.request();
    let bytes = request.body().len() as u64;
    let bytes_max = broker.limits().max_messages_post_size;
    broker.count_declared_bytes(queue.project(), bytes.min(bytes_max))?;
    request.check_size(bytes_max)?;
    let (trace, durability) = (trace_context::of(&headers), durability_of(&headers)?);
    let WithWarnings { value: mut drafts, mut warnings } = request.drafts().map_err(as_upstream)?;
    for draft in &mut drafts {
        if std::mem::replace(&mut draft.delay, Delay::Unset) != Delay::Unset && !warnings.contains(&NO_DELAY) {
            warnings.push(NO_DELAY);
        }
    }
    let idempotency = idempotency_of(&headers, &drafts)?;
    let post = PostRequest { drafts, bytes, idempotency, trace, origin: None, durability };
    let posted = broker.post_messages(&caller, queue, post).await?;
    let ids: Vec<String> = posted.value.ids.iter().map(ToString::to_string).collect();
    warnings.extend(posted.warnings);
    frame.respond_with(201, &json!({ "message_ids": ids }), warnings)
}

/// Returns an error in the words of upstream, which clients compare over WebSockets.
fn as_upstream(error: Error) -> Error {
    match error {
        Error::Body(text) => Error::Body(format!("Bad request. {text}")),
        error => error,
    }
}

/// Returns a page of the feed: `404` if the queue does not exist.
async fn list(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let request = frame.request();
    let query = MessageQuery {
        marker: request.text("marker"),
        limit: request.integer("limit"),
        echo: request.is_true("echo"),
        scope: Scope { claimed: request.is_true("include_claimed"), delayed: request.is_true("include_delayed") },
        ..MessageQuery::default()
    };
    let listed = broker.list_messages(&caller, &queue, &query).await?;
    let found = &listed.page.messages;
    if found.is_empty() && !broker.queue_exists(&caller, broker::Action::ListMessages, &queue).await? {
        return Err(broker::Error::NoQueue(queue).into());
    }
    let document = ListDocument { messages: messages::bare_documents(found, None), links: None };
    frame.respond_with(200, &document, listed.warnings)
}

async fn get(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    frame: Frame,
) -> Result<Response, Error> {
    let message = broker.get_message(&caller, &queue, &id, false).await?;
    frame.respond(200, &json!({ "messages": BareMessageDocument::new(&message, None) }))
}

async fn get_many(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let ids = frame.request().texts("message_ids")?;
    let found = broker.get_messages(&caller, &queue, &ids, false).await?;
    frame.respond(200, &ListDocument { messages: messages::bare_documents(&found, None), links: None })
}

async fn delete(
    OnQueue { broker, caller, queue }: OnQueue,
    Segment(id): Segment<0>,
    frame: Frame,
) -> Result<Response, Error> {
    let claim = frame.request().text("claim_id");
    let deleted = broker.delete_message(&caller, queue, &id, claim.as_deref()).await?;
    frame.respond_with(204, &json!({}), deleted.warnings)
}

/// Deletes messages by their ids, or pops some.
async fn delete_many(OnQueue { broker, caller, queue }: OnQueue, frame: Frame) -> Result<Response, Error> {
    let request = frame.request();
    let (ids, claims) = (request.texts("message_ids")?, request.texts("claim_ids")?);
    if let Some(count) = count_to_pop(&broker, &queue, "message_ids", &ids, &claims, request.integer("pop"))? {
        let (popped, mut warnings) = match broker.pop_messages(&caller, queue.clone(), count, None).await? {
            Taken::Messages(popped) => (popped.into_delivered(), Vec::new()),
            Taken::Nothing => (Vec::new(), broker.missing_queue(&caller, broker::Action::PopMessages, &queue).await),
            Taken::Paused => (Vec::new(), vec![Warning::Paused]),
        };
        let beside = Warning::FieldBeside { name: "claim_ids", other: "pop" };
        warnings.extend((!claims.is_empty()).then_some(beside));
        let document = ListDocument { messages: messages::popped(&popped, View::bare()), links: None };
        frame.respond_with(200, &document, warnings)
    } else {
        let deleted = broker.delete_messages(&caller, queue, &ids, &claims).await?;
        frame.respond_with(204, &json!({}), deleted.warnings)
    }
}
