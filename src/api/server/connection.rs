//! A connection, as its requests see it: who is at the other end, what it is doing, and what it has
//! not written yet.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::delivery::PendingDeliveries;
use super::unsent::UnsentParts;
use crate::auth::ClientCertificate;
use crate::authentication::Peer;

/// A connection, as its requests see it.
pub(in crate::api) struct Connection {
    /// The other end.
    pub(in crate::api) peer: Peer,
    /// Set after the handshake of TLS, if the client has one.
    certificate: OnceLock<ClientCertificate>,
    /// What the client has not accepted yet.
    pub(super) unsent: UnsentParts,
    /// The return guards of the messages that the connection is writing.
    pub(super) pending_deliveries: PendingDeliveries,
    /// Number of return guards whose messages are on their way to the connection.
    expected_deliveries: AtomicUsize,
    /// Empty for HTTP/1.
    protocol: OnceLock<Protocol>,
    /// The start of the clock for idle times.
    clock_start: Instant,
    /// Whether a request of the client was accepted that needs a credential, or would need one if
    /// the service required credentials.
    is_known: AtomicBool,
    /// Number of steps that were taken for the connection while its client was unknown.
    unknown_steps: AtomicUsize,
    /// When the connection was accepted, in microseconds since the start of the clock.
    pub(super) accepted_us: u64,
    /// [`PROCESSING`], [`RESPONDING`] or [`STREAMING`]; otherwise the time since which the
    /// connection is idle, in microseconds since the start of the clock.
    state: AtomicU64,
    /// When the first bytes of the next request arrived, in microseconds since the start of the
    /// clock, or
    /// [`NOT_BEGUN`]. The first request begins when the connection is accepted.
    head_began_us: AtomicU64,
    /// Whether the request waits for messages, or its response is a stream. Then it is canceled
    /// when the client ends its side of the connection.
    waits: AtomicBool,
    /// Whether the client has ended its side of the connection.
    is_half_closed: AtomicBool,
    /// Wakes the reader of the connection, from which this has been hidden.
    half_closed: AtomicWaker,
    /// Number of requests over HTTP/2 that are in progress.
    http2_requests: AtomicUsize,
    /// Number of responses over HTTP/2 that are streams and have not ended.
    event_streams: AtomicUsize,
    /// Whether the connection is closed after its next response.
    closes_after_response: AtomicBool,
    /// Whether the client may still be sending when the connection is closed.
    is_unread: AtomicBool,
    /// Continues after the response that upgrades the connection.
    upgraded: Mutex<Option<ServeUpgraded>>,
    /// Canceled when the connection is to end after its requests in progress.
    close: CancellationToken,
    /// Canceled when the connection is to end at once.
    abort: CancellationToken,
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
pub(in crate::api) type ServeUpgraded =
    Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A response that is a stream and has not ended.
pub(super) struct EventStream(Arc<Connection>);

/// Returns the time since the start of a clock, in microseconds.
pub(super) fn micros_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(STREAMING - 1)
}

/// The connection has a request without a response.
const PROCESSING: u64 = u64::MAX;
/// The last response has not been written completely.
const RESPONDING: u64 = u64::MAX - 1;
/// The response is a stream, which continues until the client ends it.
pub(super) const STREAMING: u64 = u64::MAX - 2;
/// Age of a connection until which a first request may be on its way.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(1);
/// No byte of the next request has arrived.
const NOT_BEGUN: u64 = u64::MAX;

impl Connection {
    pub(super) fn new(peer: Peer, clock_start: Instant, unsent: UnsentParts, close: CancellationToken) -> Self {
        let now_us = micros_since(clock_start);
        Self {
            peer,
            certificate: OnceLock::new(),
            unsent,
            pending_deliveries: PendingDeliveries::default(),
            expected_deliveries: AtomicUsize::new(0),
            protocol: OnceLock::new(),
            clock_start,
            is_known: AtomicBool::new(false),
            unknown_steps: AtomicUsize::new(0),
            accepted_us: now_us,
            state: AtomicU64::new(now_us),
            head_began_us: AtomicU64::new(now_us),
            waits: AtomicBool::new(false),
            is_half_closed: AtomicBool::new(false),
            half_closed: AtomicWaker::new(),
            http2_requests: AtomicUsize::new(0),
            event_streams: AtomicUsize::new(0),
            closes_after_response: AtomicBool::new(false),
            is_unread: AtomicBool::new(false),
            upgraded: Mutex::default(),
            close,
            abort: CancellationToken::new(),
        }
    }

    /// Sets the certificate of the client, if it has one, before its first request.
    pub(super) fn set_certificate(&self, certificate: Option<ClientCertificate>) {
        if let Some(certificate) = certificate {
            self.certificate.get_or_init(|| certificate);
        }
    }

    /// Tells a request its connection, and the certificate of the client if it has one.
    pub(in crate::api) fn describe(self: &Arc<Self>, request: &mut Extensions) {
        request.insert(self.clone());
        if let Some(certificate) = self.certificate.get() {
            request.insert(certificate.clone());
        }
    }

    /// Records that a request of the client was accepted that needs a credential.
    pub(in crate::api) fn note_known(&self) {
        // A write would take the cache line from other processors at each request.
        if !self.is_known() {
            self.is_known.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether a request of the client was accepted that needs a credential.
    pub(in crate::api) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Returns the number of steps that were taken for the connection while its client was unknown.
    pub(super) fn unknown_steps(&self) -> usize {
        self.unknown_steps.load(Ordering::Relaxed)
    }

    /// Counts such a step.
    pub(super) fn note_unknown_step(&self) {
        self.unknown_steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the connection at once.
    pub(super) fn abort(&self) {
        self.abort.cancel();
    }

    /// Returns whether the connection is to end at once.
    pub(super) fn is_aborted(&self) -> bool {
        self.abort.is_cancelled()
    }

    /// Completes when the connection is to end at once.
    pub(super) async fn aborted(&self) {
        self.abort.cancelled().await;
    }

    /// Returns whether the connection ends as soon as it has no request.
    pub(super) fn is_closed(&self) -> bool {
        self.close.is_cancelled() || self.abort.is_cancelled()
    }

    /// Returns whether the connection ends then, or after its next response.
    pub(super) fn is_closing(&self) -> bool {
        self.closes_after_response.load(Ordering::SeqCst) || self.is_closed()
    }

    /// Closes the connection if it is idle, and otherwise after its requests in progress.
    pub(super) fn close(&self) {
        self.close.cancel();
    }

    fn now_us(&self) -> u64 {
        micros_since(self.clock_start)
    }

    /// Sets what the connection is used for, before its first request.
    pub(super) fn set_protocol(&self, protocol: Protocol) {
        if protocol == Protocol::RefusedPlainHttp {
            self.closes_after_response.store(true, Ordering::SeqCst);
        }
        self.protocol.get_or_init(|| protocol);
    }

    /// Returns whether the client must use TLS but does not.
    pub(in crate::api) fn lacks_tls(&self) -> bool {
        self.protocol.get() == Some(&Protocol::RefusedPlainHttp)
    }

    pub(super) fn is_http2(&self) -> bool {
        self.protocol.get() == Some(&Protocol::Http2)
    }

    pub(super) fn is_websocket(&self) -> bool {
        self.protocol.get() == Some(&Protocol::WebSocket)
    }

    /// Lets the connection become a WebSocket after its next response.
    pub(in crate::api) fn upgrade(&self, serve: ServeUpgraded) {
        self.set_protocol(Protocol::WebSocket);
        *self.upgraded.lock() = Some(serve);
    }

    /// Returns what serves the connection from now on, if it was upgraded.
    pub(super) fn take_upgrade(&self) -> Option<ServeUpgraded> {
        self.upgraded.lock().take()
    }

    pub(super) fn state(&self) -> u64 {
        if self.is_websocket() || self.event_streams.load(Ordering::SeqCst) > 0 {
            STREAMING
        } else if self.http2_requests.load(Ordering::SeqCst) > 0 {
            PROCESSING
        } else {
            self.state.load(Ordering::SeqCst)
        }
    }

    /// Records that a request has arrived.
    pub(super) fn begin_request(&self) {
        self.state.store(PROCESSING, Ordering::SeqCst);
        self.head_began_us.store(NOT_BEGUN, Ordering::SeqCst);
        self.waits.store(false, Ordering::SeqCst);
    }

    /// Records that the request waits for messages.
    pub(in crate::api) fn begin_wait(&self) {
        self.waits.store(true, Ordering::SeqCst);
        self.half_closed.wake();
    }

    /// Records that bytes have arrived.
    pub(super) fn note_arrival(&self) {
        if self.is_idle() && self.head_began_us.load(Ordering::SeqCst) == NOT_BEGUN {
            self.head_began_us.store(self.now_us(), Ordering::SeqCst);
        }
    }

    /// Returns whether a client over HTTP/1 takes too long for the head of a request.
    pub(super) fn is_head_late(&self, head_timeout: Duration) -> bool {
        let began_us = self.head_began_us.load(Ordering::SeqCst);
        began_us != NOT_BEGUN && self.is_idle_http1() && self.micros_passed(began_us) > head_timeout.as_micros()
    }

    /// Returns whether a connection with HTTP/1 has been idle for longer since its last request.
    pub(super) fn is_idle_for(&self, idle_timeout: Duration) -> bool {
        self.head_began_us.load(Ordering::SeqCst) == NOT_BEGUN
            && self.is_idle_http1()
            && self.micros_passed(self.state()) > idle_timeout.as_micros()
    }

    /// Returns the time for which a connection that is to be closed waits for a first request. It
    /// may be on its way if the connection is new.
    pub(super) fn time_for_first_request(&self) -> Duration {
        let has_begun = self.head_began_us.load(Ordering::SeqCst) != self.accepted_us || !self.is_idle();
        if has_begun { Duration::ZERO } else { FIRST_REQUEST_MAX.saturating_sub(self.age()) }
    }

    /// Completes when the connection is to be closed and no first request is on its way.
    pub(super) async fn closing(&self, close: &CancellationToken) {
        close.cancelled().await;
        sleep(self.time_for_first_request()).await;
    }

    fn age(&self) -> Duration {
        Duration::from_micros(self.now_us().saturating_sub(self.accepted_us))
    }

    fn is_idle_http1(&self) -> bool {
        !self.is_http2() && self.is_idle()
    }

    fn micros_passed(&self, since_us: u64) -> u128 {
        self.now_us().saturating_sub(since_us).into()
    }

    /// Records that the client has ended its side of the connection. Returns whether it still gets
    /// the response to its request. `reader` is woken when it does not any more.
    pub(super) fn half_close(&self, reader: &Waker) -> bool {
        self.is_half_closed.store(true, Ordering::SeqCst);
        self.half_closed.register(reader);
        let has_request = !self.is_http2() && matches!(self.state(), PROCESSING | RESPONDING);
        has_request && !self.waits.load(Ordering::SeqCst)
    }

    /// Returns whether the client has ended its side of the connection.
    pub(in crate::api) fn is_half_closed(&self) -> bool {
        self.is_half_closed.load(Ordering::SeqCst)
    }

    /// Records that the response to the request is ready to be written. Returns whether the
    /// connection is closed after it, which the response must announce.
    pub(in crate::api) fn begin_response(&self, is_stream: bool) -> bool {
        // Over HTTP/2, other requests may be in progress, and no response announces the end. A
        // WebSocket has no HTTP responses.
        if self.is_http2() || self.is_websocket() {
            return false;
        }
        self.state.store(if is_stream { STREAMING } else { RESPONDING }, Ordering::SeqCst);
        if is_stream {
            self.begin_wait();
        }
        self.closes_after_response.load(Ordering::SeqCst)
    }

    /// Records that the body of a response has ended. If it was a stream over HTTP/1, the
    /// connection is idle as soon as its last part is written.
    pub(super) fn end_stream(&self) {
        let _not_a_stream = self.state.compare_exchange(STREAMING, RESPONDING, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Records over HTTP/2 that a response is a stream, until the returned value is dropped.
    pub(super) fn begin_event_stream(self: Arc<Self>) -> EventStream {
        self.event_streams.fetch_add(1, Ordering::SeqCst);
        EventStream(self)
    }

    /// Records over HTTP/2 that a request has arrived.
    pub(super) fn begin_http2_request(&self) {
        self.http2_requests.fetch_add(1, Ordering::SeqCst);
        self.begin_request();
    }

    /// Records over HTTP/2 that a request has ended.
    pub(super) fn end_http2_request(&self) {
        // The time comes first: without requests, the state is the time when the last one ended.
        self.state.store(self.now_us(), Ordering::SeqCst);
        self.http2_requests.fetch_sub(1, Ordering::SeqCst);
    }

    /// Completes when the connection has been idle for this time since the call.
    pub(super) async fn stays_idle(&self, time: Duration) {
        let began_us = self.now_us();
        loop {
            // With a request, the state is later than any time.
            let idle_us = self.now_us().saturating_sub(began_us.max(self.state()));
            let left = time.saturating_sub(Duration::from_micros(idle_us));
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }

    /// Records that all responses so far have been written.
    pub(super) fn written(&self) {
        self.pending_deliveries.disarm_guards();
        if self.state.load(Ordering::SeqCst) == RESPONDING {
            self.state.store(self.now_us(), Ordering::SeqCst);
            self.half_closed.wake();
        }
    }

    /// Returns whether the connection has no request and nothing to write.
    pub(super) fn is_idle(&self) -> bool {
        self.state() < STREAMING
    }

    /// Records that messages with so many return guards are on their way to the connection.
    pub(super) fn expect_deliveries(&self, guards: usize) {
        self.expected_deliveries.fetch_add(guards, Ordering::SeqCst);
    }

    /// Records that the messages are now in [`Self::pending_deliveries`], or are not delivered.
    pub(super) fn stop_expecting(&self, guards: usize) {
        self.expected_deliveries.fetch_sub(guards, Ordering::SeqCst);
    }

    /// Returns whether messages are being written that can be returned to their queue.
    pub(super) fn has_undelivered_messages(&self) -> bool {
        self.expected_deliveries.load(Ordering::SeqCst) > 0 || !self.pending_deliveries.is_empty()
    }

    /// Closes the connection after its response, although the client is still sending its request.
    /// With HTTP/2, a response can end before its request.
    pub(in crate::api) fn close_unread(&self) {
        if !self.is_http2() {
            self.is_unread.store(true, Ordering::SeqCst);
            self.closes_after_response.store(true, Ordering::SeqCst);
        }
    }

    /// Returns whether the client may still be sending when the connection is closed.
    pub(super) fn is_unread(&self) -> bool {
        self.is_unread.load(Ordering::SeqCst)
    }

    /// Closes the connection after its next response. With HTTP/2, it accepts no more requests.
    pub(in crate::api) fn close_after_response(&self) {
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
