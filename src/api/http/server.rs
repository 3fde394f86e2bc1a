//! The accept loop: one task a connection, a bound on how long a request's head may take, and an end
//! that lets what is under way finish.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::delivery::{Line, Outbound};

/// The longest head of a request, in bytes; a longer one is answered 431.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long to wait when no connection can be accepted, which is when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `stop` is over. Then takes no more, and returns what waits for the requests
/// that are under way. A client that takes longer than `head_timeout` to send a request's head, or to
/// begin with the next one, is hung up on.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    head_timeout: Duration,
    stop: impl Future<Output = ()>,
) -> impl Future<Output = ()> {
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(HEAD_BYTES_MAX);
    let connections = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, _peer)) => {
                set_up(&stream, head_timeout);
                let outbound = Outbound::default();
                let line = Line { stream, outbound: outbound.clone() };
                let service = Attended { service: service.clone(), outbound };
                let connection = http.serve_connection(TokioIo::new(line), service);
                let connection = connections.watch(connection);
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        debug!(%error, "connection ended early");
                    }
                });
            }
            Err(error) => pause(&error).await,
        }
    }
    connections.shutdown()
}

/// The service as one connection has it, whose requests know how to put back what they have taken in vain.
struct Attended {
    service: TowerToHyperService<Router>,
    outbound: Outbound,
}

impl Service<Request<Incoming>> for Attended {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.outbound.clone());
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
