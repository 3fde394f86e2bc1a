//! Returns claimed and popped messages to their queue if the client of a waiting request
//! disconnects before the whole response is written.
//!
//! The body of a response hands over its [`ReturnGuard`] together with its last byte: over HTTP/1
//! to the connection, and over HTTP/2 to the stream, which lets the guard travel with that byte
//! (`http2/outgoing.rs`). The connection checks before each write that the client is still
//! connected, and disarms the guards when everything is written. In all other cases the guard is
//! dropped, which returns the messages. After that, it is up to the client: a claim lasts until its
//! TTL ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::broker::undelivered::ReturnGuard;

/// The return guards of the messages that a connection or a stream has been given to write. Clones
/// are the same.
#[derive(Clone, Debug, Default)]
pub(in crate::api) struct PendingDeliveries(Arc<Mutex<Vec<ReturnGuard>>>);

impl PendingDeliveries {
    /// Returns whether there are no guards.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Adds guards.
    pub(super) fn add(&self, guards: impl Iterator<Item = ReturnGuard>) {
        let mut guards = guards.peekable();
        if guards.peek().is_some() {
            self.0.lock().extend(guards);
        }
    }

    /// Takes all guards.
    pub(super) fn take(&self) -> Vec<ReturnGuard> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Disarms all guards, because everything is written.
    pub(super) fn disarm_guards(&self) {
        self.take().into_iter().for_each(ReturnGuard::disarm);
    }
}

/// Returns the response with a guard that returns its messages unless the response is written to
/// the connection or stream of these deliveries.
pub(in crate::api) fn with_return_guard(
    mut response: Response,
    return_guard: ReturnGuard,
    deliveries: PendingDeliveries,
) -> Response {
    if !return_guard.is_armed() {
        return response;
    }
    response.extensions_mut().insert(Returnable);
    response.map(|body| Body::new(GuardedBody { body, return_guard: Some(return_guard), deliveries }))
}

/// The messages of this response return to their queue if it is dropped.
#[derive(Clone, Copy)]
pub(in crate::api) struct Returnable;

/// A response body whose messages are delivered if all of it is written.
struct GuardedBody {
    body: Body,
    return_guard: Option<ReturnGuard>,
    deliveries: PendingDeliveries,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        // With this frame the connection has the whole body, and writes it before anything else.
        if (matches!(frame, Poll::Ready(Some(Ok(_)))) && self.body.is_end_stream())
            || matches!(frame, Poll::Ready(None))
        {
            let return_guard = self.return_guard.take();
            self.deliveries.0.lock().extend(return_guard);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
