//! A feed as server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>): each event is a
//! message, and its id the message's, so that a reader which comes back names its marker in `Last-Event-ID`.
//!
//! The next page is read when the client has taken the one before, so a slow reader costs a page of memory and no more.

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

/// A stream that has not ended yet.
struct Open {
    feed: Feed,
    view: View,
    heartbeat: Duration,
}

/// The feed as a stream of events without end.
pub(super) fn respond(feed: Feed, view: View, heartbeat: Duration) -> Response {
    let greeting = stream::iter([Ok::<_, Infallible>(Bytes::from_static(GREETING))]);
    let events = stream::unfold(Some(Open { feed, view, heartbeat }), |open| async {
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
    let Ok(next) = timeout(open.heartbeat, open.feed.next()).await else {
        return Some((Bytes::from_static(HEARTBEAT), true));
    };
    let events = match next {
        Ok(messages) => events(open, &messages?),
        Err(error) => Err(error.into()),
    };
    Some(events.map_or_else(|error| (failure(&error), false), |events| (events, true)))
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
