//! A feed as server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>): each event is a
//! message, and its id the message's, so that a reader which comes back names its marker in `Last-Event-ID`.
//!
//! The next page is read when the client has taken the one before. A page that is large takes its share of a budget first, so
//! many clients that do not read cost little memory each. Clients that take nothing for too long are hung up on: see
//! `server.rs`.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use serde_json::json;
use tokio::time::timeout;

use super::answer;
use super::memory::{MemoryBudget, MemoryShare};
use crate::api::Error;
use crate::api::wire::messages::{MessageDocument, documents_bytes};
use crate::api::wire::view::View;
use crate::broker::feed::Feed;
use crate::domain::Message;

/// The media type.
pub(super) const EVENT_STREAM: &str = "text/event-stream";
/// The header in which a client that comes back names the last event that it has.
pub(super) const LAST_EVENT_ID: &str = "last-event-id";
/// Comes first: after how many milliseconds a browser that was cut off shall come back.
const GREETING: &[u8] = b"retry: 1000\n\n";
/// A line that no reader makes an event of.
const HEARTBEAT: &[u8] = b":\n\n";
/// About how many bytes an event has beside its document.
const FRAME_BYTES: usize = 64;

/// Maximum size in bytes of the events that a stream may hold without a share of the budget, beside what its connection
/// buffers.
const FREE_BYTES: usize = 8 * 1024;

/// A stream that has not ended yet.
struct Open {
    feed: Feed,
    share: MemoryShare,
    view: View,
    heartbeat: Duration,
}

/// The feed as a stream of events without end.
pub(super) fn respond(feed: Feed, view: View, heartbeat: Duration, budget: &MemoryBudget) -> Response {
    let share = budget.share(feed.queue().project());
    let greeting = stream::iter([Ok::<_, Infallible>(Bytes::from_static(GREETING))]);
    let events = stream::unfold(Some(Open { feed, share, view, heartbeat }), |open| async {
        let mut open = open?;
        let (part, is_open) = next_part(&mut open).await?;
        Some((Ok(part), is_open.then_some(open)))
    });
    let mut response = Response::new(Body::from_stream(stream::StreamExt::chain(greeting, events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx holds answers back otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The next part of a stream, and whether more follows.
async fn next_part(open: &mut Open) -> Option<(Bytes, bool)> {
    // The connection has taken the part before this one.
    open.share.release();
    let Ok(next) = timeout(open.heartbeat, next_events(open)).await else {
        return Some((Bytes::from_static(HEARTBEAT), true));
    };
    next.transpose().map(|events| events.map_or_else(|error| (failure(&error), false), |events| (events, true)))
}

/// The next events, as soon as there is memory for them; `None` when the service stops.
async fn next_events(open: &mut Open) -> Result<Option<Bytes>, Error> {
    loop {
        let Some(messages) = open.feed.next().await? else {
            return Ok(None);
        };
        let events = events(open, &messages)?;
        let bytes = events.len();
        let missing = bytes.saturating_sub(open.share.bytes());
        if bytes <= FREE_BYTES || open.share.take(missing).is_ok() {
            return Ok(Some(events));
        }
        // They are read again when there is memory for them.
        open.feed.unread();
        drop((events, messages));
        open.share.release();
        open.share.take_when_possible(bytes).await;
    }
}

fn events(open: &Open, messages: &[Message]) -> Result<Bytes, Error> {
    let mut text = Vec::with_capacity(documents_bytes(messages) + FRAME_BYTES * messages.len());
    for message in messages {
        text.extend_from_slice(format!("id: {}\ndata: ", message.id).as_bytes());
        // A document is one line: JSON escapes what ends one.
        answer::write(&mut text, &MessageDocument::new(open.feed.queue(), message, open.view))?;
        text.extend_from_slice(b"\n\n");
    }
    Ok(text.into())
}

/// Tells why the stream ends here.
fn failure(error: &Error) -> Bytes {
    let (title, description) = error.words();
    format!("event: failure\ndata: {}\n\n", json!({ "title": title, "description": description })).into()
}
