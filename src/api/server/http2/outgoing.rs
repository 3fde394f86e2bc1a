//! The parts of a response on their way to the client. They take along the return guards of
//! messages.
//!
//! hyper keeps the parts of a stream until the client accepts them, and drops them if the stream is
//! reset or the connection breaks. So a part that is dropped before all of it has been written
//! returns the messages to their queue.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};

use super::in_progress::InProgress;
use crate::api::server::connection::{Connection, EventStream};
use crate::api::server::delivery::PendingDeliveries;
use crate::broker::undelivered::ReturnGuard;

/// The body of a response.
pub(super) struct OutgoingBody {
    body: Body,
    deliveries: PendingDeliveries,
    in_progress: Arc<InProgress>,
    _event_stream: Option<EventStream>,
}

/// Bytes of a response.
pub(super) struct Outgoing {
    bytes: Bytes,
    end: Option<End>,
}

/// What happens when the bytes have been passed to the stream of the connection.
struct End {
    guards: Vec<ReturnGuard>,
    /// Number of guards at the start.
    expected: usize,
    connection: Arc<Connection>,
    /// The request is in progress until its response is written.
    _in_progress: Arc<InProgress>,
}

impl OutgoingBody {
    pub(super) fn new(
        body: Body,
        deliveries: PendingDeliveries,
        in_progress: Arc<InProgress>,
        is_event_stream: bool,
    ) -> Self {
        let connection = &in_progress.connection;
        let event_stream = is_event_stream.then(|| connection.clone().begin_event_stream());
        Self { body, deliveries, in_progress, _event_stream: event_stream }
    }

    /// Returns bytes of the body. If they complete the delivery of messages, they have the guards.
    fn outgoing(&self, bytes: Bytes) -> Outgoing {
        let guards = self.deliveries.take();
        let in_progress = self.in_progress.clone();
        let connection = in_progress.connection.clone();
        connection.expect_deliveries(guards.len());
        Outgoing { bytes, end: Some(End { expected: guards.len(), guards, connection, _in_progress: in_progress }) }
    }
}

impl HttpBody for OutgoingBody {
    type Data = Outgoing;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Outgoing>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| self.outgoing(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for Outgoing {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
        if self.bytes.is_empty()
            && let Some(mut end) = self.end.take()
        {
            // These bytes, and all earlier ones, are in the buffers of the connection. Its next
            // flush delivers the messages.
            end.connection.pending_deliveries.add(end.guards.drain(..));
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.connection.stop_expecting(self.expected);
    }
}
