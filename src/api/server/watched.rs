//! Bodies of responses whose parts the client must accept in time: see `unsent.rs`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

use super::connection::Connection;
use super::unsent::Held;

/// Maximum size in bytes of a response over HTTP/1 that is not watched, because the operating
/// system takes it at once.
const UNWATCHED_BYTES_MAX: u64 = 16 << 10;

/// Returns whether the client must accept the response in time.
pub(in crate::api) fn is_watched(response: &Response, connection: &Connection) -> bool {
    let is_small = response.body().size_hint().exact().is_some_and(|bytes| bytes <= UNWATCHED_BYTES_MAX);
    // With HTTP/2, the client says how many bytes it accepts. The replies of WebSockets are limited
    // elsewhere.
    !connection.is_websocket() && (connection.is_http2() || !is_small)
}

/// Returns the response with a body whose parts the client must accept in time.
pub(in crate::api) fn watched(mut response: Response, connection: &Arc<Connection>) -> Response {
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

impl Drop for WatchedBody {
    fn drop(&mut self) {
        self.connection.end_stream();
    }
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
    use std::time::Duration;

    use axum::response::IntoResponse;
    use http_body_util::BodyExt;
    use tokio::time::{Instant, advance};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::api::server::unsent::UnsentParts;
    use crate::authentication::Peer;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn connection() -> Arc<Connection> {
        let peer = Peer::new([127, 0, 0, 1].into());
        let unsent = UnsentParts::new(TIMEOUT);
        Arc::new(Connection::new(peer, Instant::now().into_std(), unsent, CancellationToken::new()))
    }

    #[tokio::test]
    async fn a_connection_is_idle_after_a_stream_has_ended_and_is_written() {
        let connection = connection();
        connection.begin_request();
        let stream = Body::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>());
        let response = watched(stream.into_response(), &connection);
        connection.begin_response(true);
        connection.written();
        assert!(!connection.is_idle());

        drop(response);
        connection.written();

        assert!(connection.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_is_late_after_the_timeout_and_the_time_for_its_size_until_it_is_written() {
        let connection = connection();
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
