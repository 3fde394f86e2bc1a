//! Responses that clients have not accepted yet. A client has a limited time for each part, which
//! depends on its size, so that accepting it byte by byte holds neither its memory nor its connection.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;

use super::connection::Connection;
use crate::memory_budget::MemoryShare;

/// Minimum number of bytes of a response that a client accepts in a second, once the timeout is over.
const BYTES_PER_SECOND_MIN: u64 = 4 << 10;
/// Maximum size in bytes of a response over HTTP/1 that is not watched, because the operating system
/// takes it at once.
const UNWATCHED_BYTES_MAX: u64 = 16 << 10;

/// The parts of responses that a connection has not written.
pub(super) struct UnsentParts {
    timeout: Duration,
    deadlines: Arc<Mutex<Deadlines>>,
}

#[derive(Default)]
struct Deadlines {
    by_number: BTreeMap<u64, Instant>,
    next_number: u64,
}

/// Bytes that a connection has not written. They are when this is dropped.
struct Part {
    bytes: Bytes,
    number: u64,
    deadlines: Arc<Mutex<Deadlines>>,
    _memory: Option<Held>,
}

/// The memory that a response holds until its last byte is written.
#[derive(Clone)]
pub(in crate::api::http) struct Held(
    #[expect(dead_code, reason = "it is released when it is dropped")] Arc<MemoryShare>,
);

impl Held {
    pub(in crate::api::http) fn new(share: MemoryShare) -> Self {
        Self(Arc::new(share))
    }
}

impl UnsentParts {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, deadlines: Arc::default() }
    }

    /// Returns whether the client accepts a part too slowly.
    pub(super) fn is_late(&self) -> bool {
        let deadlines = lock(&self.deadlines);
        // Most connections have no part, and the time is not needed then.
        !deadlines.by_number.is_empty() && {
            let now = Instant::now();
            deadlines.by_number.values().any(|deadline| *deadline <= now)
        }
    }

    /// Returns the bytes as a part that must be written in the time for its size.
    fn watch(&self, bytes: Bytes, memory: Option<Held>) -> Bytes {
        let time = Duration::from_millis(bytes.len() as u64 * 1_000 / BYTES_PER_SECOND_MIN);
        let mut deadlines = lock(&self.deadlines);
        let number = deadlines.next_number;
        deadlines.next_number += 1;
        deadlines.by_number.insert(number, Instant::now() + self.timeout + time);
        drop(deadlines);
        Bytes::from_owner(Part { bytes, number, deadlines: self.deadlines.clone(), _memory: memory })
    }
}

fn lock(deadlines: &Mutex<Deadlines>) -> MutexGuard<'_, Deadlines> {
    deadlines.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        lock(&self.deadlines).by_number.remove(&self.number);
    }
}

/// Returns whether the client must accept the response in time.
pub(in crate::api::http) fn is_watched(response: &Response, connection: &Connection) -> bool {
    let is_small = response.body().size_hint().exact().is_some_and(|bytes| bytes <= UNWATCHED_BYTES_MAX);
    // With HTTP/2, the client says how many bytes it accepts. The replies of WebSockets are limited
    // elsewhere.
    !connection.is_websocket() && (connection.is_http2() || !is_small)
}

/// Returns the response with a body whose parts the client must accept in time.
pub(in crate::api::http) fn watched(mut response: Response, connection: &Arc<Connection>) -> Response {
    if !is_watched(&response, connection) {
        return response;
    }
    let memory = response.extensions_mut().remove();
    response.map(|body| Body::new(WatchedBody { body, connection: connection.clone(), memory }))
}

struct WatchedBody {
    body: Body,
    connection: Arc<Connection>,
    memory: Option<Held>,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let watch = |bytes| self.connection.unsent.watch(bytes, self.memory.clone());
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(watch))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;
    use tokio::time::advance;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::authentication::Peer;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_part_is_late_after_the_timeout_and_the_time_for_its_size_until_it_is_written() {
        let peer = Peer::new([127, 0, 0, 1].into());
        let unsent = UnsentParts::new(TIMEOUT);
        let connection = Arc::new(Connection::new(peer, Instant::now().into_std(), unsent, CancellationToken::new()));
        let mut body = watched(vec![0; 40 << 10].into_response(), &connection).into_body();
        let mut part = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);

        advance(TIMEOUT + Duration::from_millis(9_990)).await;
        assert!(!connection.unsent.is_late());
        advance(Duration::from_millis(20)).await;
        assert!(connection.unsent.is_late());
        let rest = part.split_off(20 << 10);
        drop(part);
        assert!(connection.unsent.is_late(), "a rest is not written");
        drop(rest);
        assert!(!connection.unsent.is_late());
    }
}
