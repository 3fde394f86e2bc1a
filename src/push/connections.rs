//! Counts the connections to subscribers that are open, whether they are used or not, and bounds
//! what a subscriber may send.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use hyper::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

/// Maximum number of bytes that a subscriber may send without another request, with all heads and
/// the messages of TLS. Otherwise, endless informational responses would keep a thread busy.
const BYTES_PER_REQUEST_MAX: usize = 256 * 1024;
/// Number of bytes that are read at a time.
const READ_BYTES: usize = 8 * 1024;

/// Number of open connections. Clones share it.
#[derive(Clone, Default)]
pub(super) struct OpenConnections(Arc<AtomicUsize>);

/// Makes connections, and counts them until they are closed.
#[derive(Clone)]
pub(super) struct CountingConnector<C> {
    connector: C,
    open: OpenConnections,
}

/// A connection that is counted until it is dropped.
pub(super) struct CountedConnection<S> {
    stream: S,
    open: OpenConnections,
    /// Number of bytes that were read since the last write.
    read: usize,
}

impl OpenConnections {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl<C> CountingConnector<C> {
    pub(super) fn new(connector: C, open: OpenConnections) -> Self {
        Self { connector, open }
    }
}

impl<C> Service<Uri> for CountingConnector<C>
where
    C: Service<Uri, Future: Send + 'static>,
{
    type Response = CountedConnection<C::Response>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, open) = (self.connector.call(uri), self.open.clone());
        Box::pin(async move {
            let stream = connecting.await?;
            open.0.fetch_add(1, Ordering::Relaxed);
            Ok(CountedConnection { stream, open, read: 0 })
        })
    }
}

impl<S> Drop for CountedConnection<S> {
    fn drop(&mut self) {
        self.open.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: Connection> Connection for CountedConnection<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: Read + Unpin> Read for CountedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read > BYTES_PER_REQUEST_MAX {
            return Poll::Ready(Err(io::Error::other("the response is too large")));
        }
        let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
        let size = READ_BYTES.min(buffer.remaining());
        let mut part = ReadBuf::uninit(&mut bytes[..size]);
        ready!(Pin::new(&mut self.stream).poll_read(context, part.unfilled()))?;
        self.read += part.filled().len();
        buffer.put_slice(part.filled());
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for CountedConnection<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.read = 0;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.read = 0;
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }
}
