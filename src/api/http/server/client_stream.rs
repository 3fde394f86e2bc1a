//! The TCP stream of a connection, which reports when all responses are written, and detects clients
//! that have disconnected.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::connections::Connection;

/// A TCP stream that reports to its connection when all responses are written.
pub(super) struct ClientStream {
    pub(super) stream: TcpStream,
    pub(super) connection: Arc<Connection>,
}

impl ClientStream {
    /// Fails if the client has disconnected and the response has messages that can be returned to
    /// their queue.
    fn check_client(&self) -> io::Result<()> {
        if self.connection.pending_deliveries.is_empty() {
            return Ok(());
        }
        let disconnected = || Err(io::Error::from(io::ErrorKind::BrokenPipe));
        let mut byte = [MaybeUninit::uninit()];
        // This asks the operating system, because the runtime may not know yet that the client has
        // disconnected.
        match SockRef::from(&self.stream).peek(&mut byte) {
            Ok(0) => disconnected(),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => disconnected(),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check_client()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_client()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        // hyper flushes when nothing is left to write.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.connection.written();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
