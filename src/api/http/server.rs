//! The accept loop: one task a connection, a bound on how long a request's head may take, and an end
//! that lets what is under way finish.

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

use super::connections::{Connection, Connections};
use super::delivery::Line;
use crate::api::error::HEAD_BYTES_MAX;

/// How long to wait when no connection can be accepted, which is when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How connections are served.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    /// How long a client may take to send a request's head, or to begin with the next one.
    pub head_timeout: Duration,
    /// Maximum number of open connections.
    pub connections_max: usize,
}

/// Serves connections until `stop` is over. Then takes no more, and returns what waits for the requests
/// that are under way. While as many connections are open as may be, a new one takes the place of the one that has been
/// idle for longest, or waits until one is idle.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    serving: Serving,
    stop: impl Future<Output = ()>,
) -> impl Future<Output = ()> {
    let Serving { head_timeout, connections_max } = serving;
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(HEAD_BYTES_MAX);
    let connections = Connections::new(connections_max);
    tokio::pin!(stop);
    for number in 0.. {
        let accepted = async {
            let stream = accept(&listener).await;
            (stream, connections.place().await)
        };
        let (stream, place) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        set_up(&stream, head_timeout);
        connections.serve(number, place, |connection, close| {
            let line = Line { stream, connection: connection.clone() };
            let service = Attended { service: service.clone(), connection: connection.clone() };
            attend(http.serve_connection(TokioIo::new(line), service), connection, close)
        });
    }
    connections.close()
}

/// The next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => return stream,
            Err(error) => pause(&error).await,
        }
    }
}

/// Serves one connection until it ends. When it is to be closed, an idle one is closed at once, even if the head of a request has
/// begun to arrive; another one behind its answer.
async fn attend(
    http: http1::Connection<TokioIo<Line>, Attended>,
    connection: Arc<Connection>,
    close: CancellationToken,
) {
    let mut http = pin!(http);
    let ended = tokio::select! {
        // First, because a request may have arrived.
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

/// The service as one connection has it.
struct Attended {
    service: TowerToHyperService<Router>,
    connection: Arc<Connection>,
}

impl Service<Request<Incoming>> for Attended {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.connection.begin_request();
        request.extensions_mut().insert(self.connection.clone());
        self.service.call(request)
    }
}

/// Answers are complete, so waiting for more to send would only delay them. And a client that takes no
/// more of its answer is waited for as long as one that sends no more of its request.
fn set_up(stream: &TcpStream, patience: Duration) {
    let nodelay = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let nodelay = nodelay.and_then(|()| SockRef::from(stream).set_tcp_user_timeout(Some(patience)));
    if let Err(error) = nodelay {
        debug!(%error, "the connection is served as it is");
    }
}

async fn pause(error: &io::Error) {
    let of_the_peer = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !of_the_peer.contains(&error.kind()) {
        warn!(%error, "cannot accept connections");
        sleep(ACCEPT_PAUSE).await;
    }
}
