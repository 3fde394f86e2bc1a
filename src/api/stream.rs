//! A feed as server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! Each event is a message, and its id is the message id, so a client that reconnects sends its
//! marker in `Last-Event-ID`. The next page is read when the connection has taken the previous one.
//! A large page needs a share of a memory budget first, so clients that do not read cost little
//! memory each. `server/mod.rs` disconnects clients that read nothing for too long.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use serde_json::json;
use tokio::time::timeout;

use super::response;
use super::stream_credential::StreamCredential;
use super::warnings::WARNING;
use crate::broker::feed::Feed;
use crate::wire::Error;
use crate::wire::messages::{MessageDocument, documents_bytes};
use crate::wire::view::View;
use sukkal_base::memory_budget::{MemoryBudget, MemoryShare};
use sukkal_domain::Message;

/// The media type of server-sent events.
pub(super) const EVENT_STREAM: &str = "text/event-stream";
/// The header in which a client that reconnects names the last event that it received.
pub(super) const LAST_EVENT_ID: &str = "last-event-id";
/// The start of every stream: the time in milliseconds after which a disconnected browser
/// reconnects.
const RETRY_HINT: &[u8] = b"retry: 1000\n\n";
/// A comment line, which clients ignore.
const HEARTBEAT: &[u8] = b":\n\n";
/// Estimated size in bytes of an event without its document.
const FRAME_BYTES: usize = 64;

/// Maximum size in bytes of the events that a stream may hold without a share of the budget. The
/// buffers of its connection are not included.
const FREE_BYTES: usize = 8 * 1024;

/// A stream that has not ended.
struct OpenStream {
    feed: Feed,
    share: MemoryShare,
    view: View,
    heartbeat: Duration,
    credential: StreamCredential,
}

/// Returns the feed as a stream of events, which ends when the service stops or the credential of
/// the reader ends.
pub(super) fn respond(
    feed: Feed,
    view: View,
    credential: StreamCredential,
    heartbeat: Duration,
    budget: &MemoryBudget,
) -> Response {
    let share = budget.share(feed.queue().project());
    let start = stream::iter([Ok::<_, Infallible>(Bytes::from_static(RETRY_HINT))]);
    let events = stream::unfold(Some(OpenStream { feed, share, view, heartbeat, credential }), |open| async {
        let mut open = open?;
        let (part, is_open) = next_part(&mut open).await?;
        Some((Ok(part), is_open.then_some(open)))
    });
    let mut response = Response::new(Body::from_stream(stream::StreamExt::chain(start, events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    // Without this header, nginx buffers the response.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Adds the warnings in the headers of a stream to it, as comments, because browsers do not show
/// the headers. Returns other responses as they are.
pub(super) fn with_warnings(response: Response) -> Response {
    let headers = response.headers();
    let is_stream = headers.get(CONTENT_TYPE).is_some_and(|media_type| media_type == EVENT_STREAM);
    if !headers.contains_key(WARNING) || !is_stream {
        return response;
    }
    let texts = headers.get_all(WARNING).iter().filter_map(|warning| warning.to_str().ok());
    let comments: String = texts.flat_map(|warning| [": warning: ", warning, "\n\n"]).collect();
    let comments = stream::iter([Ok(Bytes::from(comments))]);
    response.map(|body| Body::from_stream(stream::StreamExt::chain(comments, body.into_data_stream())))
}

/// Returns the next part of a stream, and whether more follows; `None` at the end.
async fn next_part(open: &mut OpenStream) -> Option<(Bytes, bool)> {
    // The connection has taken the previous part.
    open.share.release();
    let OpenStream { feed, share, view, heartbeat, credential } = open;
    let convert = |feed: &Feed, messages: &[Message]| {
        let events = events(feed, messages, *view)?;
        let bytes = events.len();
        Ok((events, bytes))
    };
    let next = tokio::select! {
        // A reader may not read on, however many messages there are.
        biased;
        () = credential.ended() => return None,
        next = timeout(*heartbeat, next_within_budget(feed, share, FREE_BYTES, convert)) => next,
    };
    let Ok(next) = next else {
        return Some((Bytes::from_static(HEARTBEAT), true));
    };
    next.transpose().map(|events| events.map_or_else(|error| (failure(&error), false), |events| (events, true)))
}

/// Returns what `convert` makes of the next messages as soon as there is memory for it, or `None`
/// if the service stops. `convert` also returns the size of its result in bytes. Up to `free_bytes`
/// need no share of the budget.
pub(super) async fn next_within_budget<T>(
    feed: &mut Feed,
    share: &MemoryShare,
    free_bytes: usize,
    convert: impl Fn(&Feed, &[Message]) -> Result<(T, usize), Error>,
) -> Result<Option<T>, Error> {
    loop {
        let Some(messages) = feed.next().await? else {
            return Ok(None);
        };
        let (converted, bytes) = convert(feed, &messages)?;
        let missing = bytes.saturating_sub(share.bytes());
        if bytes <= free_bytes || share.take(missing).is_ok() {
            return Ok(Some(converted));
        }
        // The messages are read again when there is memory for them.
        feed.unread();
        drop((converted, messages));
        share.release();
        share.take_when_possible(bytes).await;
    }
}

fn events(feed: &Feed, messages: &[Message], view: View) -> Result<Bytes, Error> {
    let mut text = Vec::with_capacity(documents_bytes(messages) + FRAME_BYTES * messages.len());
    for message in messages {
        text.extend_from_slice(format!("id: {}\ndata: ", message.id).as_bytes());
        // A document is a single line, because JSON escapes line breaks.
        response::write(&mut text, &MessageDocument::new(feed.queue(), message, view))?;
        text.extend_from_slice(b"\n\n");
    }
    Ok(text.into())
}

/// Returns the event that says why the stream ends.
fn failure(error: &Error) -> Bytes {
    let (title, description) = error.title_and_description();
    format!("event: failure\ndata: {}\n\n", json!({ "title": title, "description": description })).into()
}
