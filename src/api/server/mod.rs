//! The HTTP server: accepts connections, serves each in a task of its own, and closes them when the
//! service stops.
//!
//! A connection has HTTP/1, or HTTP/2 if both sides agree on it in the TLS handshake. The time to
//! send the head of a request is limited. When the server stops, requests in progress are
//! completed.

mod client_stream;
pub(super) mod connection;
mod connections;
pub(super) mod delivery;
mod http2;
mod limits;
mod no_body;
mod tls;
mod unknown_turns;
pub(super) mod unsent;
pub(super) mod watched;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::iter;
use std::net;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use futures::FutureExt;
use futures::future::Map;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::client_stream::ClientStream;
use self::connection::{Connection, Protocol};
use self::connections::Connections;
use self::http2::Http2;
pub use self::limits::ServerLimits;
use self::no_body::without_content_length;
use self::tls::Accepted;
pub use self::tls::{ClientCertificates, Tls, TlsError, TlsFiles};
use self::unknown_turns::UnknownTurns;
use crate::authentication::Peer;
use crate::observability::metrics::{Closed, ConnectionCounts};
use crate::wire::error::HEAD_BYTES_MAX;

/// Maximum time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before the next attempt if no connection can be accepted, for example because file
/// descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that accepts connections.
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// The certificates; `None` for connections without TLS.
    pub tls: Option<Tls>,
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Self { socket, tls: None }
    }
}

/// Serves connections until `stop` completes. Then it accepts no more, and returns a future that
/// waits for the requests in progress.
///
/// At the maximum number of connections, a new connection replaces the one that has been idle for
/// longest, or waits until one is idle. `counts` counts the connections.
pub async fn serve(
    listener: impl Into<Listener>,
    router: Router,
    limits: ServerLimits,
    counts: ConnectionCounts,
    stop: impl Future<Output = ()>,
) -> impl Future<Output = ()> {
    let Listener { socket, tls } = listener.into();
    let mut http1 = http1::Builder::new();
    // `Connections` has one clock for the times of all connections.
    http1.header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
    let unknown_turns = UnknownTurns::new();
    let http2 = Http2::new(router.clone(), limits, unknown_turns.clone());
    let service = TowerToHyperService::new(router);
    let handshake_timeout = HANDSHAKE_TIMEOUT.min(limits.head_timeout);
    let server = Arc::new(Server { http1, http2, service, handshake_timeout, counts: counts.clone() });
    let connections = Connections::new(limits, unknown_turns, counts);
    let mut numbers = 0..;
    let mut serve = |stream: TcpStream, peer, permit| {
        set_options(&stream, limits.head_timeout);
        let (server, number) = (server.clone(), numbers.next().expect("there are more numbers"));
        match tls.clone() {
            None => connections.serve(number, peer, permit, |connection, close| async move {
                server.serve_http1(ClientStream::plain(stream, connection), close).await;
            }),
            Some(tls) => connections.serve(number, peer, permit, |connection, close| async move {
                server.serve_with_tls(stream, &tls, connection, close).await;
            }),
        }
    };
    tokio::pin!(stop);
    loop {
        let accepted = async {
            let (stream, peer) = accept(&socket).await;
            (stream, peer, connections.acquire().await)
        };
        tokio::select! {
            (stream, peer, permit) = accepted => serve(stream, peer, permit),
            () = &mut stop => break,
        }
    }
    for (stream, peer) in accepted_by_system(socket) {
        if let Some(permit) = connections.try_acquire() {
            serve(stream, peer, permit);
        }
    }
    connections.close()
}

/// Closes a listener. Returns the connections that the operating system has accepted, which would
/// otherwise be reset.
fn accepted_by_system(listener: TcpListener) -> Vec<(TcpStream, Peer)> {
    let accepted = listener.into_std().map(|listener| {
        let next =
            || listener.accept().and_then(|(stream, peer)| adopt(stream).map(|stream| (stream, Peer::new(peer.ip()))));
        iter::from_fn(|| next().ok()).collect()
    });
    accepted.unwrap_or_default()
}

/// Converts a stream of the standard library to one of the runtime.
fn adopt(stream: net::TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

/// Returns the next connection and its other end.
async fn accept(listener: &TcpListener) -> (TcpStream, Peer) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, Peer::new(peer.ip())),
            Err(error) => pause(&error).await,
        }
    }
}

/// What the connections of a listener have in common.
struct Server {
    http1: http1::Builder,
    http2: Http2,
    service: TowerToHyperService<Router>,
    handshake_timeout: Duration,
    counts: ConnectionCounts,
}

impl Server {
    /// Serves a connection with HTTP/1 until it ends. When `close` is canceled, an idle connection
    /// is closed at once, even if a part of the head of a request has arrived. Another connection
    /// is closed after its response, and a new one too, if its first request arrives soon.
    async fn serve_http1(&self, stream: ClientStream, close: CancellationToken) {
        let connection = stream.connection.clone();
        let service = ConnectionService { service: self.service.clone(), connection: connection.clone() };
        let ended = {
            let mut http = pin!(self.http1.serve_connection(TokioIo::new(stream), service).with_upgrades());
            tokio::select! {
                // The connection is polled first, because a request may have arrived.
                biased;
                ended = http.as_mut() => ended,
                () = close.cancelled() => match timeout(connection.time_for_first_request(), http.as_mut()).await {
                    Ok(ended) => ended,
                    Err(_) if connection.is_idle() => return,
                    Err(_) => {
                        http.as_mut().graceful_shutdown();
                        http.await
                    }
                },
            }
        };
        if let Err(error) = ended {
            self.note_early_end(&error);
        } else if let Some(serve) = connection.take_upgrade() {
            serve(close).await;
        }
    }

    /// Does the handshake of a connection, and serves it with the protocol that the client wants.
    async fn serve_with_tls(
        &self,
        stream: TcpStream,
        tls: &Tls,
        connection: Arc<Connection>,
        close: CancellationToken,
    ) {
        let accepted = tokio::select! {
            biased;
            accepted = timeout(self.handshake_timeout, tls.accept(stream)) => accepted,
            () = connection.closing(&close) => return,
        };
        let accepted = accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match accepted {
            Err(error) => debug!(%error, "a TLS handshake failed"),
            Ok(Accepted::PlainHttp(stream)) => {
                connection.set_protocol(Protocol::RefusedPlainHttp);
                self.serve_http1(ClientStream::plain(stream, connection), close).await;
            }
            Ok(Accepted::Tls(stream, certificate)) => {
                connection.set_certificate(certificate);
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
                let stream = ClientStream::with_tls(stream, connection);
                if is_http2 {
                    stream.connection.set_protocol(Protocol::Http2);
                    if let Err(error) = self.http2.serve(stream, close).await {
                        self.note_early_end(&error);
                    }
                } else {
                    self.serve_http1(stream, close).await;
                }
            }
        }
    }

    /// Notes that a connection has ended before its client or the server wanted it to.
    fn note_early_end(&self, error: &hyper::Error) {
        debug!(%error, "connection ended early");
        if error.is_timeout() {
            self.counts.closed(Closed::Slow);
        } else if http2::is_flood(error) {
            self.counts.closed(Closed::Flood);
        }
    }
}

/// The router, for the requests of one connection.
struct ConnectionService {
    service: TowerToHyperService<Router>,
    connection: Arc<Connection>,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = Map<<TowerToHyperService<Router> as Service<Request<Incoming>>>::Future, AsSent>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.connection.begin_request();
        self.connection.describe(request.extensions_mut());
        self.service.call(request).map(|response| response.map(without_content_length))
    }
}

/// Returns a response as it is sent.
type AsSent = fn(Result<Response, Infallible>) -> Result<Response, Infallible>;

/// Sets the options of a new connection. Responses are complete when they are written, so Nagle's
/// algorithm would only delay them. A client that does not read its response for `timeout` is
/// disconnected, as is one that sends no request.
fn set_options(stream: &TcpStream, timeout: Duration) {
    let options = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let options = options.and_then(|()| SockRef::from(stream).set_tcp_user_timeout(Some(timeout)));
    if let Err(error) = options {
        debug!(%error, "cannot set the options of a connection; it is served without them");
    }
}

/// Logs why no connection could be accepted and pauses, unless the client aborted its own
/// connection.
async fn pause(error: &io::Error) {
    let client_errors = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !client_errors.contains(&error.kind()) {
        warn!(%error, "cannot accept connections");
        sleep(ACCEPT_PAUSE).await;
    }
}
