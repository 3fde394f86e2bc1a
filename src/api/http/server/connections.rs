//! The open connections of a listener: how many there may be, and which one is closed for a new
//! one.
//!
//! A connection is idle from when its last response has been written until the head of the next
//! request has arrived. Only a connection that has been idle for a second is closed at once,
//! because a request may be on its way on the others. If no connection has been idle for so long,
//! another one is closed after its next response, which announces that to the client.
//!
//! A connection with HTTP/2 has any number of requests, and is idle without any. Instead of being
//! closed after its next response, it announces at once that it accepts no more requests.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::delivery::PendingDeliveries;
use crate::authentication::Peer;
use crate::metrics::LiveCount;

/// All connections of a listener.
pub(super) struct Connections {
    permits: Arc<Semaphore>,
    open: Arc<OpenConnections>,
    count: LiveCount,
    tasks: TaskTracker,
    closing: CancellationToken,
}

struct OpenConnections {
    by_number: Mutex<HashMap<u64, Arc<Connection>>>,
    /// The start of the clock for idle times.
    start: Instant,
}

/// A connection, as its requests see it.
pub(in crate::api::http) struct Connection {
    /// The other end.
    pub(in crate::api::http) peer: Peer,
    /// The return guards of the messages that the connection is writing.
    pub(super) pending_deliveries: PendingDeliveries,
    /// Number of return guards whose messages are on their way to the connection.
    announced_deliveries: AtomicUsize,
    /// Empty for HTTP/1.
    protocol: OnceLock<Protocol>,
    open: Arc<OpenConnections>,
    /// [`PROCESSING`], [`RESPONDING`] or [`STREAMING`]; otherwise the time since which the
    /// connection is idle, in microseconds since the start of the clock.
    state: AtomicU64,
    /// Number of responses over HTTP/2 that are streams and have not ended.
    event_streams: AtomicUsize,
    /// Whether the connection is closed after its next response.
    closes_after_response: AtomicBool,
    /// Continues after the response that upgrades the connection.
    upgraded: Mutex<Option<ServeUpgraded>>,
    close: CancellationToken,
}

/// What a connection is used for, other than HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http2,
    /// HTTP without TLS on a port for TLS, where each request is refused.
    RefusedPlainHttp,
    /// The connection has become a WebSocket.
    WebSocket,
}

/// Serves a connection that is not an HTTP connection any more, until it ends. When the token is
/// canceled, the connection closes.
pub(in crate::api::http) type ServeUpgraded =
    Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A response that is a stream and has not ended.
pub(super) struct EventStream(Arc<Connection>);

/// The connection has a request without a response.
const PROCESSING: u64 = u64::MAX;
/// The last response has not been written completely.
const RESPONDING: u64 = u64::MAX - 1;
/// The response is a stream, which continues until the client ends it.
const STREAMING: u64 = u64::MAX - 2;

/// Minimum idle time of a connection that is closed at once for a new one.
const IDLE_MIN: Duration = Duration::from_secs(1);

impl Connections {
    /// Creates the set of connections of a listener, with at most `max` connections. `count` is
    /// their number.
    pub(super) fn new(max: usize, count: LiveCount) -> Self {
        let open = OpenConnections { by_number: Mutex::default(), start: Instant::now() };
        let permits = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        Self { permits, open: Arc::new(open), count, tasks: TaskTracker::new(), closing: CancellationToken::new() }
    }

    /// Waits until one more connection may be open. If there are too many, it closes one as soon as
    /// possible.
    pub(super) async fn acquire(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = self.permits.clone().try_acquire_owned() {
                return permit;
            }
            self.open.close_one();
            if let Ok(permit) = timeout(IDLE_MIN / 4, self.permits.clone().acquire_owned()).await {
                return permit.expect("the semaphore is never closed");
            }
        }
    }

    /// Serves a connection in a task of its own.
    pub(super) fn serve<F: Future<Output = ()> + Send + 'static>(
        &self,
        number: u64,
        peer: Peer,
        permit: OwnedSemaphorePermit,
        serve: impl FnOnce(Arc<Connection>, CancellationToken) -> F,
    ) {
        let close = self.closing.child_token();
        let connection = Arc::new(Connection {
            peer,
            pending_deliveries: PendingDeliveries::default(),
            announced_deliveries: AtomicUsize::new(0),
            protocol: OnceLock::new(),
            open: self.open.clone(),
            state: AtomicU64::new(self.open.now_us()),
            event_streams: AtomicUsize::new(0),
            closes_after_response: AtomicBool::new(false),
            upgraded: Mutex::default(),
            close: close.clone(),
        });
        self.open.lock().insert(number, connection.clone());
        let (open, counted, serve) = (self.open.clone(), self.count.count(), serve(connection, close));
        self.tasks.spawn(async move {
            serve.await;
            drop(counted);
            open.lock().remove(&number);
            drop(permit);
        });
    }

    /// Closes each connection as soon as it has no request, and returns when all are closed.
    pub(super) async fn close(self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl OpenConnections {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(STREAMING - 1)
    }

    /// Closes the connection that has been idle for longest, if it has been idle for [`IDLE_MIN`].
    /// Otherwise lets another connection close after its next response, preferably one that has a
    /// request.
    fn close_one(&self) {
        let open = self.lock();
        let state = |connection: &&Arc<Connection>| connection.state();
        let idle_before = self.now_us().saturating_sub(u64::try_from(IDLE_MIN.as_micros()).unwrap_or(u64::MAX));
        let is_idle =
            |connection: &&Arc<Connection>| state(connection) <= idle_before && !connection.close.is_cancelled();
        if let Some(connection) = open.values().filter(is_idle).min_by_key(state) {
            connection.close.cancel();
            return;
        }
        let can_close_later = |connection: &&Arc<Connection>| {
            let is_closing = connection.closes_after_response.load(Ordering::SeqCst) || connection.close.is_cancelled();
            state(connection) != STREAMING && !is_closing
        };
        if let Some(connection) = open.values().filter(can_close_later).max_by_key(state) {
            connection.close_after_response();
        }
    }
}

impl Connection {
    /// Sets what the connection is used for, before its first request.
    pub(super) fn set_protocol(&self, protocol: Protocol) {
        if protocol == Protocol::RefusedPlainHttp {
            self.closes_after_response.store(true, Ordering::SeqCst);
        }
        self.protocol.get_or_init(|| protocol);
    }

    /// Returns whether the client must use TLS but does not.
    pub(in crate::api::http) fn lacks_tls(&self) -> bool {
        self.protocol.get() == Some(&Protocol::RefusedPlainHttp)
    }

    fn is_http2(&self) -> bool {
        self.protocol.get() == Some(&Protocol::Http2)
    }

    fn is_websocket(&self) -> bool {
        self.protocol.get() == Some(&Protocol::WebSocket)
    }

    /// Lets the connection become a WebSocket after its next response.
    pub(in crate::api::http) fn upgrade(&self, serve: ServeUpgraded) {
        self.set_protocol(Protocol::WebSocket);
        *self.upgraded.lock().unwrap_or_else(PoisonError::into_inner) = Some(serve);
    }

    /// Returns what serves the connection from now on, if it was upgraded.
    pub(super) fn take_upgrade(&self) -> Option<ServeUpgraded> {
        self.upgraded.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn state(&self) -> u64 {
        if self.is_websocket() || self.event_streams.load(Ordering::SeqCst) > 0 {
            STREAMING
        } else {
            self.state.load(Ordering::SeqCst)
        }
    }

    /// Records that a request has arrived.
    pub(super) fn begin_request(&self) {
        self.state.store(PROCESSING, Ordering::SeqCst);
    }

    /// Records that the response to the request is ready to be written. Returns whether the
    /// connection is closed after it, which the response must announce.
    pub(in crate::api::http) fn begin_response(&self, is_stream: bool) -> bool {
        // Over HTTP/2, other requests may be in progress, and no response announces the end. A WebSocket
        // has no HTTP responses.
        if self.is_http2() || self.is_websocket() {
            return false;
        }
        self.state.store(if is_stream { STREAMING } else { RESPONDING }, Ordering::SeqCst);
        self.closes_after_response.load(Ordering::SeqCst)
    }

    /// Records over HTTP/2 that a response is a stream, until the returned value is dropped.
    pub(super) fn begin_event_stream(self: Arc<Self>) -> EventStream {
        self.event_streams.fetch_add(1, Ordering::SeqCst);
        EventStream(self)
    }

    /// Records over HTTP/2 that there is no request any more.
    pub(super) fn end_requests(&self) {
        self.state.store(self.open.now_us(), Ordering::SeqCst);
    }

    /// Records that all responses so far have been written.
    pub(super) fn written(&self) {
        self.pending_deliveries.disarm_guards();
        if self.state.load(Ordering::SeqCst) == RESPONDING {
            self.state.store(self.open.now_us(), Ordering::SeqCst);
        }
    }

    /// Returns whether the connection has no request and nothing to write.
    pub(super) fn is_idle(&self) -> bool {
        self.state() < STREAMING
    }

    /// Records that messages with so many return guards are on their way to the connection.
    pub(super) fn announce_deliveries(&self, guards: usize) {
        self.announced_deliveries.fetch_add(guards, Ordering::SeqCst);
    }

    /// Records that the messages are now in [`Self::pending_deliveries`], or are not delivered.
    pub(super) fn withdraw_announcement(&self, guards: usize) {
        self.announced_deliveries.fetch_sub(guards, Ordering::SeqCst);
    }

    /// Returns whether messages are being written that can be returned to their queue.
    pub(super) fn has_undelivered_messages(&self) -> bool {
        self.announced_deliveries.load(Ordering::SeqCst) > 0 || !self.pending_deliveries.is_empty()
    }

    fn close_after_response(&self) {
        self.closes_after_response.store(true, Ordering::SeqCst);
        if self.is_http2() {
            self.close.cancel();
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.0.event_streams.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S: Sync> FromRequestParts<S> for PendingDeliveries {
    type Rejection = Infallible;

    /// Returns the deliveries of the stream or the connection of a request. A request without a
    /// connection, as in unit tests, has deliveries whose guards are never disarmed.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        if let Some(deliveries) = parts.extensions.get::<Self>() {
            return Ok(deliveries.clone());
        }
        let connection = parts.extensions.get::<Arc<Connection>>();
        Ok(connection.map(|connection| connection.pending_deliveries.clone()).unwrap_or_default())
    }
}
