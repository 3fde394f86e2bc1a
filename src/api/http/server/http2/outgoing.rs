//! A part of a response on its way to the client. It takes along the return guards of messages.
//!
//! h2 keeps the parts of a stream until the client accepts them, and drops them if the stream is
//! reset or the connection breaks. So a part that is dropped before all of it has been written
//! returns the messages to their queue.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use tokio::sync::oneshot;

use crate::api::http::server::connections::Connection;
use crate::broker::undelivered::ReturnGuard;

/// Bytes of a response.
pub(super) struct Outgoing {
    bytes: Bytes,
    end: Option<End>,
}

/// What happens when the bytes have been passed to the stream of the connection.
struct End {
    guards: Vec<ReturnGuard>,
    /// Number of guards at the start.
    announced: usize,
    connection: Arc<Connection>,
    /// Its receiver waits for the end.
    _written: oneshot::Sender<()>,
}

impl Outgoing {
    /// Creates a part whose end is of no interest.
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, end: None }
    }

    /// Creates the part that completes the delivery of the messages with these guards. The receiver
    /// completes when the part has been passed to the connection, or has been dropped.
    pub(super) fn last(
        bytes: Bytes,
        guards: Vec<ReturnGuard>,
        connection: &Arc<Connection>,
    ) -> (Self, oneshot::Receiver<()>) {
        let (written, is_written) = oneshot::channel();
        let (connection, announced) = (connection.clone(), guards.len());
        connection.announce_deliveries(announced);
        (Self { bytes, end: Some(End { guards, announced, connection, _written: written }) }, is_written)
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
            && let Some(end) = &mut self.end
        {
            // These bytes, and all earlier ones, are in the buffers of the connection. Its next
            // flush delivers the messages.
            end.connection.pending_deliveries.add(end.guards.drain(..));
            self.end = None;
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.connection.withdraw_announcement(self.announced);
    }
}
