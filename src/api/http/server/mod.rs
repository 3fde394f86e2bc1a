//! The HTTP server: accepts connections, serves each in a task of its own, and closes them when the
//! service stops.
//!
//! The time to send the head of a request is limited. When the server stops, requests in progress
//! are completed.

mod client_stream;
pub(super) mod connections;
pub(super) mod delivery;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::client_stream::ClientStream;
use self::connections::{Connection, Connections};
use crate::api::error::HEAD_BYTES_MAX;
use crate::authentication::Peer;
use crate::metrics::LiveCount;

/// Pause before the next attempt if no connection can be accepted, for example because file
/// descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits on the connections of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Maximum time for a client to send the head of a request, or to begin the next request.
    pub head_timeout: Duration,
    /// Maximum number of open connections.
    pub connections_max: usize,
}

/// Serves connections until `stop` completes. Then it accepts no more, and returns a future that
/// waits for the requests in progress.
///
/// At the maximum number of connections, a new connection replaces the one that has been idle for
/// longest, or waits until one is idle. `open` counts the connections.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    open: LiveCount,
    stop: impl Future<Output = ()>,
) -> impl Future<Output = ()> {
    let ServerLimits { head_timeout, connections_max } = limits;
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(HEAD_BYTES_MAX);
    let connections = Connections::new(connections_max, open);
    tokio::pin!(stop);
    for number in 0.. {
        let accepted = async {
            let (stream, peer) = accept(&listener).await;
            (stream, peer, connections.acquire().await)
        };
        let (stream, peer, permit) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        set_options(&stream, head_timeout);
        connections.serve(number, peer, permit, |connection, close| {
            let stream = ClientStream { stream, connection: connection.clone() };
            let service = ConnectionService { service: service.clone(), connection: connection.clone() };
            serve_connection(http.serve_connection(TokioIo::new(stream), service), connection, close)
        });
    }
    connections.close()
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

/// Serves a connection until it ends. When `close` is canceled, an idle connection is closed at
/// once, even if a part of the head of a request has arrived. Another connection is closed after
/// its response.
async fn serve_connection(
    http: http1::Connection<TokioIo<ClientStream>, ConnectionService>,
    connection: Arc<Connection>,
    close: CancellationToken,
) {
    let mut http = pin!(http);
    let ended = tokio::select! {
        // The connection is polled first, because a request may have arrived.
        biased;
        ended = http.as_mut() => ended,
        () = close.cancelled() => {
            if connection.is_idle() {
                return;
            }
            http.as_mut().graceful_shutdown();
            http.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended early");
    }
}

/// The router, for the requests of one connection.
struct ConnectionService {
    service: TowerToHyperService<Router>,
    connection: Arc<Connection>,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.connection.begin_request();
        request.extensions_mut().insert(self.connection.clone());
        self.service.call(request)
    }
}

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
