//! The stream of a connection, which takes the bytes of incomplete requests from a memory budget.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::memory_budget::MemoryShare;

/// Maximum number of bytes of a request that need no share of the budget.
const FREE_BYTES: usize = 16 << 10;

/// A stream that counts the bytes of the request that is arriving.
pub(super) struct CountedStream {
    stream: TokioIo<Upgraded>,
    share: MemoryShare,
    /// Number of bytes that have arrived since the last complete request.
    bytes: usize,
}

impl CountedStream {
    pub(super) fn new(stream: TokioIo<Upgraded>, share: MemoryShare) -> Self {
        Self { stream, share, bytes: 0 }
    }

    /// Returns the stream, whose bytes do not count any more.
    pub(super) fn into_inner(self) -> TokioIo<Upgraded> {
        self.stream
    }

    /// Records that the request has arrived.
    pub(super) fn end_request(&mut self) {
        self.bytes = 0;
        self.share.release();
    }

    /// Takes bytes of the next request from this share from now on.
    pub(super) fn charge_to(&mut self, share: MemoryShare) {
        self.end_request();
        self.share = share;
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.bytes += buffer.filled().len() - before;
        let missing = self.bytes.saturating_sub(self.share.bytes());
        if self.bytes > FREE_BYTES && self.share.take(missing).is_err() {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
