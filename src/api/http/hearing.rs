//! A body that nobody read is read all the same: a client that is still sending when the connection is
//! closed gets an error of the network, and never reads why it was refused.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use axum::middleware::Next;
use axum::response::Response;
use futures::stream::poll_fn;
use futures::{Stream, StreamExt};

/// A client that sends more than this in vain is not heard out.
const HEARD_BYTES_MAX: usize = 1 << 20;

/// A body, until it has come to its end, good or bad.
type Shared = Arc<Mutex<Option<BodyDataStream>>>;

pub(super) async fn hear_out(request: Request, next: Next) -> Response {
    // Who expects `100 Continue` sends nothing before it is asked for.
    if request.body().is_end_stream() || request.headers().contains_key(EXPECT) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let body: Shared = Arc::new(Mutex::new(Some(body.into_data_stream())));
    let lent = Body::from_stream(stream_of(Arc::clone(&body)));
    let response = next.run(Request::from_parts(parts, lent)).await;
    let mut heard_bytes = 0;
    let mut rest = stream_of(body);
    while let Some(Ok(data)) = rest.next().await {
        heard_bytes += data.len();
        if heard_bytes > HEARD_BYTES_MAX {
            break;
        }
    }
    response
}

fn stream_of(body: Shared) -> impl Stream<Item = <BodyDataStream as Stream>::Item> + Unpin {
    poll_fn(move |context| {
        let mut body = body.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = &mut *body else {
            return Poll::Ready(None);
        };
        let data = ready!(stream.poll_next_unpin(context));
        if !matches!(data, Some(Ok(_))) {
            *body = None;
        }
        Poll::Ready(data)
    })
}
