//! Connections with HTTP/2: several requests at the same time, each in a task of its own.
//!
//! The server of hyper would pass a response to h2 and forget it, but the return guards of messages
//! must know whether their response has been written. It would also wait without limit for a client
//! that does not accept its response.

mod incoming;
mod outgoing;
mod stream;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use h2::server::{Builder, Connection as Http2Connection, SendResponse};
use h2::{Ping, Reason, RecvStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::outgoing::Outgoing;
use self::stream::{BUFFERED_BYTES_MAX, Stream};
use super::client_stream::ClientStream;
use super::connections::Connection;
use crate::api::error::HEAD_BYTES_MAX;
use crate::auth::ClientCertificate;

/// Maximum number of requests of a connection that are in progress. Browsers expect this number.
const STREAMS_MAX: u32 = 100;
/// Maximum size of the headers of a request in bytes, as HTTP/2 counts them: with 32 bytes for each.
/// Requests with larger headers get a response without a description.
const HEADER_LIST_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;
/// Maximum number of bytes of a request body that have arrived before a handler reads them.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// The same for all requests of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 128 << 10;
/// Maximum number of requests that the client resets before they are accepted. A client that resets
/// more is attacking the service (CVE-2023-44487).
const UNACCEPTED_RESETS_MAX: usize = 20;
/// Maximum number of streams that are reset because of errors of the client.
const ERRORS_MAX: usize = 100;
/// Time for the client to close a connection that has no more requests.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What all connections of a listener have in common.
pub(super) struct Http2 {
    router: Router,
    timeout: Duration,
    /// Limits the number of requests in progress, so that they need no more memory than with HTTP/1,
    /// which has one for each connection.
    requests: Arc<Semaphore>,
}

impl Http2 {
    /// Creates the server for the connections of a listener.
    pub(super) fn new(router: Router, timeout: Duration, connections_max: usize) -> Self {
        let requests = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
        Self { router, timeout, requests }
    }

    /// Serves a connection until it ends. When `close` is canceled, the requests in progress are
    /// completed.
    pub(super) async fn serve(
        &self,
        stream: ClientStream,
        certificate: Option<ClientCertificate>,
        close: CancellationToken,
    ) -> Result<(), h2::Error> {
        let connection = stream.connection.clone();
        let handshake = timeout(self.timeout, builder().handshake(stream));
        let http = tokio::select! {
            biased;
            () = close.cancelled() => return Ok(()),
            http = handshake => http,
        };
        let Ok(http) = http else { return Ok(()) };
        let requests = Requests { http2: self, connection, certificate, running: JoinSet::new() };
        requests.serve(http?, close).await
    }
}

/// The requests of a connection.
struct Requests<'h> {
    http2: &'h Http2,
    connection: Arc<Connection>,
    certificate: Option<ClientCertificate>,
    /// Dropping the set ends the requests.
    running: JoinSet<()>,
}

impl Requests<'_> {
    async fn serve(
        mut self,
        mut http: Http2Connection<ClientStream, Outgoing>,
        close: CancellationToken,
    ) -> Result<(), h2::Error> {
        let mut pings = http.ping_pong().expect("this is the first call");
        let mut awaits_pong = false;
        let mut is_closing = false;
        let mut idle_end = pin!(sleep(self.http2.timeout));
        let mut next_ping = pin!(sleep(self.http2.timeout / 2));
        loop {
            let may_accept = self.running.len() < STREAMS_MAX as usize;
            tokio::select! {
                biased;
                accepted = next(&mut http, may_accept) => match accepted {
                    Some(accepted) => {
                        let (request, respond) = accepted?;
                        self.begin(request, respond);
                    }
                    None => return Ok(()),
                },
                Some(_ended) = self.running.join_next() => {
                    if self.running.is_empty() {
                        self.connection.end_requests();
                        let idle_max = if is_closing { CLOSE_TIMEOUT } else { self.http2.timeout };
                        idle_end.as_mut().reset(Instant::now() + idle_max);
                    }
                }
                () = close.cancelled(), if !is_closing => {
                    is_closing = true;
                    http.graceful_shutdown();
                    idle_end.as_mut().reset(Instant::now() + CLOSE_TIMEOUT);
                }
                () = &mut idle_end, if self.running.is_empty() => {
                    if is_closing {
                        return Ok(());
                    }
                    is_closing = true;
                    http.graceful_shutdown();
                    idle_end.as_mut().reset(Instant::now() + CLOSE_TIMEOUT);
                }
                // A client that waits for a response sends nothing, so only a ping shows whether it
                // is still there.
                () = &mut next_ping, if !self.running.is_empty() => {
                    if awaits_pong {
                        debug!("a client does not answer");
                        return Ok(());
                    }
                    awaits_pong = pings.send_ping(Ping::opaque()).is_ok();
                    next_ping.as_mut().reset(Instant::now() + self.http2.timeout / 2);
                }
                _pong = poll_fn(|context| pings.poll_pong(context)), if awaits_pong => awaits_pong = false,
            }
        }
    }

    /// Handles a request, or refuses it if there are too many in progress.
    fn begin(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Outgoing>) {
        let permit = if self.running.is_empty() {
            None
        } else if let Ok(permit) = self.http2.requests.clone().try_acquire_owned() {
            Some(permit)
        } else {
            // The client may repeat the request.
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        };
        self.connection.begin_request();
        let stream = Stream {
            router: self.http2.router.clone(),
            connection: self.connection.clone(),
            certificate: self.certificate.clone(),
            stall_timeout: self.http2.timeout,
        };
        self.running.spawn(async move {
            stream.serve(request, respond).await;
            drop(permit);
        });
    }
}

/// Returns the next request, or `None` if the connection has ended. If it may not be accepted now,
/// the connection only makes progress with its other requests.
async fn next(
    http: &mut Http2Connection<ClientStream, Outgoing>,
    may_accept: bool,
) -> Option<Result<(Request<RecvStream>, SendResponse<Outgoing>), h2::Error>> {
    poll_fn(|context| {
        if may_accept {
            return http.poll_accept(context);
        }
        match http.poll_closed(context) {
            Poll::Ready(Ok(())) => Poll::Ready(None),
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEADER_LIST_BYTES_MAX).expect("the limit is small"))
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(BUFFERED_BYTES_MAX)
        .max_pending_accept_reset_streams(UNACCEPTED_RESETS_MAX)
        .max_local_error_reset_streams(Some(ERRORS_MAX));
    builder
}
