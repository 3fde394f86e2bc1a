//! The stream of a connection, which takes the bytes of requests from a memory budget, and which is
//! read frame by frame.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;
use tokio::time::Instant;

use super::frame_bounds::FrameBounds;
use sukkal_base::memory_budget::MemoryShare;

/// Maximum number of bytes of a request that need no share of the budget.
pub(super) const FREE_BYTES: usize = 16 << 10;
/// Maximum number of bytes that a client sends before it is known, control frames included.
const UNKNOWN_TOTAL_BYTES_MAX: usize = 64 << 10;

/// A stream that counts the bytes of the request that is arriving. One read ends at the latest
/// where a frame ends, so that nothing is in the buffers of the reader after a request.
pub(super) struct CountedStream {
    stream: TokioIo<Upgraded>,
    share: MemoryShare,
    /// Number of bytes that the client may still send; `None` if it is known.
    unknown_left: Option<usize>,
    /// Number of bytes that were read since the last request was handled, without control frames.
    bytes: usize,
    bounds: FrameBounds,
    /// When the first of these bytes was read.
    request_began: Option<Instant>,
    /// Bytes that have arrived and were not read, because they belong to the next frames.
    unread: Bytes,
}

impl CountedStream {
    pub(super) fn new(stream: TokioIo<Upgraded>, share: MemoryShare, is_known: bool) -> Self {
        let (unknown_left, bounds) = ((!is_known).then_some(UNKNOWN_TOTAL_BYTES_MAX), FrameBounds::default());
        Self { stream, share, unknown_left, bytes: 0, bounds, request_began: None, unread: Bytes::new() }
    }

    /// Records that the client is known, so that it may send any number of bytes.
    pub(super) fn note_known(&mut self) {
        self.unknown_left = None;
    }

    /// Returns the stream, whose bytes do not count any more.
    pub(super) fn into_inner(self) -> TokioIo<Upgraded> {
        self.stream
    }

    /// Returns when the request that is arriving began.
    pub(super) fn request_began(&self) -> Option<Instant> {
        self.request_began
    }

    /// Records that the request was handled.
    pub(super) fn end_request(&mut self) {
        (self.bytes, self.request_began) = (0, None);
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
        let this = &mut *self;
        // Many short frames arrive in one read, and each takes time.
        let progress = ready!(coop::poll_proceed(context));
        if this.unread.is_empty() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            this.unread = Bytes::copy_from_slice(&buffer.filled()[before..]);
            buffer.set_filled(before);
        }
        progress.made_progress();
        let available = this.unread.len().min(buffer.remaining());
        let part = this.bounds.advance(&this.unread[..available]);
        buffer.put_slice(&this.unread.split_to(part.bytes));
        if let Some(left) = &mut this.unknown_left {
            *left = left.checked_sub(part.bytes).ok_or(io::ErrorKind::QuotaExceeded)?;
        }
        // The library handles a control frame at once.
        this.bytes = this.bytes + part.bytes - part.control_bytes;
        this.request_began = if this.bytes == 0 { None } else { this.request_began.or_else(|| Some(Instant::now())) };
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
