//! The stream of a connection, with or without TLS, which reports when all responses are written,
//! and detects clients that have disconnected.
//!
//! A client may end its side of the connection after a request and still read the response. The end
//! of input is hidden from hyper until the response is written, because hyper would drop the
//! request. But if the request waits for messages, or its response is a stream, the client may have
//! gone, and the request is canceled at once.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::connection::Connection;

/// A stream that reports to its connection when all responses are written.
pub(super) struct ClientStream {
    transport: Transport,
    pub(super) connection: Arc<Connection>,
    lingering: Option<Lingering>,
}

/// The end of a connection whose client is still sending. The client would not read its last
/// response if the connection were closed with bytes that were not read.
struct Lingering {
    end: Pin<Box<Sleep>>,
    bytes_left: usize,
}

/// Maximum time for which a client that is still sending is read after its last response.
const LINGER_MAX: Duration = Duration::from_secs(5);
/// Maximum number of bytes that are read then.
const LINGER_BYTES_MAX: usize = 16 << 20;
/// Number of bytes that are read at a time.
const LINGER_BUFFER_BYTES: usize = 4 << 10;

/// A connection without and with TLS.
type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;

impl ClientStream {
    /// Returns the stream of a connection without TLS.
    pub(super) fn plain(stream: TcpStream, connection: Arc<Connection>) -> Self {
        Self { transport: Either::Left(stream), connection, lingering: None }
    }

    /// Notes a response of hyper itself, to a head that it cannot parse: the client may still be
    /// sending then. Fails if the client has disconnected and a response has messages that can be
    /// returned to their queue.
    fn begin_write(&mut self, context: &Context<'_>) -> io::Result<()> {
        if self.connection.is_idle() {
            self.connection.close_unread();
        }
        if !self.connection.has_undelivered_messages() {
            return Ok(());
        }
        let is_connected = match &mut self.transport {
            Either::Left(stream) => is_connected(stream),
            Either::Right(stream) => is_connected_by_tls(stream, context),
        };
        if is_connected { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Returns the stream of a connection with TLS.
    pub(super) fn with_tls(stream: Box<TlsStream<TcpStream>>, connection: Arc<Connection>) -> Self {
        Self { transport: Either::Right(stream), connection, lingering: None }
    }

    /// Reads and drops what the client is still sending, until it ends or has sent for too long.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { transport, lingering: Some(Lingering { end, bytes_left }), .. } = self else {
            return Poll::Ready(());
        };
        let mut bytes = [MaybeUninit::uninit(); LINGER_BUFFER_BYTES];
        while *bytes_left > 0 && end.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::uninit(&mut bytes);
            match ready!(Pin::new(&mut *transport).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => *bytes_left = bytes_left.saturating_sub(buffer.filled().len()),
                _ => break,
            }
        }
        Poll::Ready(())
    }

    fn transport(&mut self) -> Pin<&mut Transport> {
        Pin::new(&mut self.transport)
    }
}

// These functions ask the operating system, because the runtime may not know yet that the client
// has disconnected.

fn is_connected(stream: &TcpStream) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    match SockRef::from(stream).peek(&mut byte) {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Reads what has arrived, because the last message of a client says that it disconnects.
fn is_connected_by_tls(stream: &mut TlsStream<TcpStream>, context: &Context<'_>) -> bool {
    let (stream, session) = stream.get_mut();
    loop {
        if session.process_new_packets().map_or(true, |state| state.peer_has_closed()) {
            return false;
        }
        // A client that has sent a further request is connected.
        if !session.wants_read() {
            return true;
        }
        match session.read_tls(&mut &*SockRef::from(&*stream)) {
            Ok(0) => return false,
            // The runtime does not know that these bytes have arrived.
            Ok(_) => context.waker().wake_by_ref(),
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, may_read) = (buffer.filled().len(), buffer.remaining() > 0);
        ready!(self.transport().poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.connection.note_arrival();
        } else if may_read && self.connection.half_close(context.waker()) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.begin_write(context)?;
        self.transport().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.begin_write(context)?;
        self.transport().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.transport().poll_flush(context);
        // hyper flushes when nothing is left to write. Over HTTP/2, the connection knows by itself
        // which messages have been written.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.connection.written();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(self.transport().poll_shutdown(context))?;
            if !self.connection.is_unread() {
                return Poll::Ready(Ok(()));
            }
            self.lingering = Some(Lingering { end: Box::pin(sleep(LINGER_MAX)), bytes_left: LINGER_BYTES_MAX });
        }
        self.poll_linger(context).map(Ok)
    }
}
