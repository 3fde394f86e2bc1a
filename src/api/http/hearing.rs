//! Bodies of requests are read by the handlers that need them. What a handler leaves is heard out behind it: a client that
//! is still sending when the connection is closed gets an error of the network, and never reads why it was refused.
//!
//! So a request is refused before its body is collected, and costs no memory for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tower_http::timeout::{DeadlineBody, TimeoutBody};

use super::memory::MemoryShare;

/// A client that sends more than this in vain is not heard out.
const HEARD_BYTES_MAX: usize = 1 << 20;
/// A body has to be there after so many of the longest pauses, however short its own are.
const PAUSES_MAX: u32 = 2;

/// The body of a request on its way. Clones are the same.
#[derive(Clone)]
pub(super) struct Arriving(Arc<Mutex<State>>);

struct State {
    body: Source,
    patience: Duration,
    last_arrival: Option<Instant>,
    /// What its bytes are taken from as they arrive.
    share: Option<MemoryShare>,
}

/// No timer is started before somebody has to wait.
enum Source {
    AtHand(Body),
    Awaited(Pin<Box<DeadlineBody<TimeoutBody<Body>>>>),
}

impl Arriving {
    fn new(body: Body, patience: Duration) -> Self {
        Self(Arc::new(Mutex::new(State { body: Source::AtHand(body), patience, last_arrival: None, share: None })))
    }

    /// When the last part of it arrived that somebody had to wait for.
    pub(super) fn last_arrival(&self) -> Option<Instant> {
        self.state().last_arrival
    }

    /// Takes the bytes that arrive from now on from this share of a budget, until the request is answered.
    pub(super) fn charge(&self, share: MemoryShare) {
        self.state().share = Some(share);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let State { body, patience, last_arrival, share } = &mut *self.state();
        let counted = |frame: Result<Frame<Bytes>, axum::Error>| {
            let bytes = frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            share.as_ref().map_or(Ok(()), |share| share.take(bytes)).map_err(axum::Error::new)?;
            frame
        };
        if let Source::AtHand(at_hand) = body {
            if let Poll::Ready(frame) = Pin::new(&mut *at_hand).poll_frame(cx) {
                return Poll::Ready(frame.map(counted));
            }
            let awaited = TimeoutBody::new(*patience, std::mem::take(at_hand));
            *body = Source::Awaited(Box::pin(DeadlineBody::new(*patience * PAUSES_MAX, awaited)));
        }
        let Source::Awaited(awaited) = body else { unreachable!("it was just made so") };
        let frame = std::task::ready!(awaited.as_mut().poll_frame(cx));
        *last_arrival = Some(Instant::now());
        Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)).map(counted))
    }

    fn is_end_stream(&self) -> bool {
        match &self.state().body {
            Source::AtHand(body) => body.is_end_stream(),
            Source::Awaited(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state().body {
            Source::AtHand(body) => body.size_hint(),
            Source::Awaited(body) => body.size_hint(),
        }
    }
}

/// Handles a request, and hears out what its handler has left of its body. The client may pause as long as `patience`
/// allows.
pub(super) async fn hear_out<F: Future<Output = Response>>(
    mut request: Request,
    patience: Duration,
    handle: impl FnOnce(Request) -> F,
) -> Response {
    if request.body().is_end_stream() {
        return handle(request).await;
    }
    // Who expects `100 Continue` sends nothing before it is asked for.
    let is_sending = !request.headers().contains_key(EXPECT);
    let mut arriving = Arriving::new(std::mem::take(request.body_mut()), patience);
    *request.body_mut() = Body::new(arriving.clone());
    request.extensions_mut().insert(arriving.clone());
    let response = handle(request).await;
    arriving.state().share = None;
    let mut heard_bytes = 0;
    while is_sending && heard_bytes <= HEARD_BYTES_MAX {
        match arriving.frame().await {
            Some(Ok(frame)) => heard_bytes += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => break,
        }
    }
    response
}
