//! Connections with HTTP/2: several requests at the same time.
//!
//! hyper serves them. The parts of a response count what has been written (`outgoing.rs`), so that
//! messages whose delivery fails are returned.

mod in_progress;
mod incoming;
mod outgoing;

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{Request, Response};
use h2::Reason;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use self::in_progress::InProgress;
use self::outgoing::OutgoingBody;
use super::client_stream::ClientStream;
use super::connection::Connection;
use super::delivery::PendingDeliveries;
use super::limits::ServerLimits;
use super::no_body::without_content_length;
use super::unknown_turns::UnknownTurns;
use crate::wire::error::HEAD_BYTES_MAX;

/// Time for the client to close a connection that has no more requests.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of requests of a connection that are in progress. Browsers expect this number.
const STREAMS_MAX: u32 = 100;
/// Maximum size of the headers of a request in bytes, as HTTP/2 counts them: with 32 bytes for
/// each. Requests with larger headers get a response without a description.
const HEADER_LIST_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;
/// Maximum number of bytes of a request body that have arrived before a handler reads them.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// The same for all requests of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 128 << 10;
/// Maximum number of bytes of a response that hyper passes on before the client accepts them.
const BUFFERED_BYTES_MAX: usize = 64 << 10;
/// Maximum number of requests that the client resets before they are accepted. A client that resets
/// more is attacking the service (CVE-2023-44487).
const UNACCEPTED_RESETS_MAX: usize = 20;
/// Maximum number of streams that are reset because of errors of the client.
const ERRORS_MAX: usize = 100;

/// What all connections of a listener have in common.
pub(super) struct Http2 {
    builder: Builder<TokioExecutor>,
    router: Router,
    idle_timeout: Duration,
    /// Limits the number of requests in progress, so that they need no more memory than with
    /// HTTP/1, which has one for each connection.
    requests: Arc<Semaphore>,
    /// The same for unknown clients, which have a share of their own.
    unknown_requests: Arc<Semaphore>,
    unknown_turns: UnknownTurns,
}

/// Unknown clients have one of this number of permits for requests in progress.
const UNKNOWN_SHARE: usize = 4;

impl Http2 {
    /// Creates the server for the connections of a listener.
    pub(super) fn new(router: Router, limits: ServerLimits, unknown_turns: UnknownTurns) -> Self {
        let ServerLimits { head_timeout, idle_timeout, connections_max } = limits;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(u32::try_from(HEADER_LIST_BYTES_MAX).expect("the limit is small"))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(BUFFERED_BYTES_MAX)
            .max_pending_accept_reset_streams(UNACCEPTED_RESETS_MAX)
            .max_local_error_reset_streams(ERRORS_MAX)
            // A client that waits for a response sends nothing, so only a ping shows whether it is
            // still there.
            .keep_alive_interval(head_timeout / 2)
            .keep_alive_timeout(head_timeout / 2);
        let connections_max = connections_max.min(Semaphore::MAX_PERMITS);
        let [requests, unknown_requests] =
            [connections_max, connections_max.div_ceil(UNKNOWN_SHARE)].map(Semaphore::new).map(Arc::new);
        Self { builder, router, idle_timeout, requests, unknown_requests, unknown_turns }
    }

    /// Serves a connection until it ends. When `close` is canceled, the requests in progress are
    /// completed.
    pub(super) async fn serve(&self, stream: ClientStream, close: CancellationToken) -> hyper::Result<()> {
        let connection = stream.connection.clone();
        let service = RequestService {
            router: self.router.clone(),
            requests: self.requests.clone(),
            unknown_requests: self.unknown_requests.clone(),
            unknown_turns: self.unknown_turns.clone(),
            connection: connection.clone(),
        };
        let mut http = pin!(self.builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            ended = http.as_mut() => return ended,
            () = connection.closing(&close) => {}
            () = connection.stays_idle(self.idle_timeout) => {}
        }
        http.as_mut().graceful_shutdown();
        tokio::select! {
            biased;
            ended = http.as_mut() => ended,
            () = connection.stays_idle(CLOSE_TIMEOUT) => Ok(()),
        }
    }
}

/// Returns whether an error says that the client resets too many requests.
pub(super) fn is_flood(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    source.is_some_and(|error| error.reason() == Some(Reason::ENHANCE_YOUR_CALM))
}

/// The router, for the requests of one connection.
struct RequestService {
    router: Router,
    requests: Arc<Semaphore>,
    unknown_requests: Arc<Semaphore>,
    unknown_turns: UnknownTurns,
    connection: Arc<Connection>,
}

impl hyper::service::Service<Request<Incoming>> for RequestService {
    type Response = Response<OutgoingBody>;
    type Error = h2::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, h2::Error>> + Send>>;

    /// Handles a request, or refuses it if there are too many in progress. Then the client may
    /// repeat it.
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // Each connection may have one request.
        let permit = if self.connection.is_idle() {
            None
        } else if let Ok(permit) = self.permits().clone().try_acquire_owned() {
            Some(permit)
        } else {
            return Box::pin(async { Err(Reason::REFUSED_STREAM.into()) });
        };
        let in_progress = InProgress::begin(self.connection.clone(), permit);
        let deliveries = PendingDeliveries::default();
        let mut request = incoming::request(request);
        let extensions = request.extensions_mut();
        self.connection.describe(extensions);
        extensions.insert(deliveries.clone());
        let response = self.unknown_turns.serve(self.connection.clone(), self.router.clone().call(request));
        Box::pin(async move {
            let response = response.await.unwrap_or_else(|error: Infallible| match error {});
            Ok(outgoing(without_content_length(response), deliveries, in_progress))
        })
    }
}

impl RequestService {
    fn permits(&self) -> &Arc<Semaphore> {
        if self.connection.is_known() { &self.requests } else { &self.unknown_requests }
    }
}

fn outgoing(
    response: Response<Body>,
    deliveries: PendingDeliveries,
    in_progress: Arc<InProgress>,
) -> Response<OutgoingBody> {
    let is_event_stream = response.body().size_hint().exact().is_none();
    response.map(|body| OutgoingBody::new(body, deliveries, in_progress, is_event_stream))
}
