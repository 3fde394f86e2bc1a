//! Whether an answer has reached its client: what was taken out of a queue for a client that waited goes back
//! if it has gone before the last byte of its answer was given to the network.
//!
//! An answer's body hands its way back to the connection with its last byte; the connection looks whether the client is
//! still there before it writes, and closes the way when everything is written. Whatever ends before that drops it, and
//! so opens it. What a client does afterwards is its own business: a claim then runs its ttl.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::Extension;
use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::connections::Connection;
use crate::broker::taken::WayBack;

/// What a connection has been given to write and was taken out of queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbound(Arc<Mutex<Vec<WayBack>>>);

impl Outbound {
    fn on_their_way(&self) -> MutexGuard<'_, Vec<WayBack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.on_their_way().is_empty()
    }

    pub(super) fn written(&self) {
        std::mem::take(&mut *self.on_their_way()).into_iter().for_each(WayBack::delivered);
    }
}

/// The response with a way back for what is in it, unless it goes out over this connection.
pub(super) fn with_way_back(
    response: Response,
    way_back: WayBack,
    connection: Option<Extension<Arc<Connection>>>,
) -> Response {
    if !way_back.is_open() {
        return response;
    }
    let outbound = connection.map(|Extension(connection)| connection.outbound.clone()).unwrap_or_default();
    response.map(|body| Body::new(Guarded { body, way_back: Some(way_back), outbound }))
}

/// A body that goes out as a whole or not at all.
struct Guarded {
    body: Body,
    way_back: Option<WayBack>,
    outbound: Outbound,
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        // The connection has taken all of it when it has this frame, and writes it out before anything else.
        if (matches!(frame, Poll::Ready(Some(Ok(_)))) && self.body.is_end_stream())
            || matches!(frame, Poll::Ready(None))
        {
            let way_back = self.way_back.take();
            self.outbound.on_their_way().extend(way_back);
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

/// A connection that knows what was taken out of queues for its client, and when its answers are written.
pub(super) struct Line {
    pub(super) stream: TcpStream,
    pub(super) connection: Arc<Connection>,
}

impl Line {
    /// Fails if the client has gone and there is something that can go back.
    fn check(&self) -> io::Result<()> {
        if self.connection.outbound.is_empty() {
            return Ok(());
        }
        let gone = || Err(io::Error::from(io::ErrorKind::BrokenPipe));
        let mut byte = [MaybeUninit::uninit()];
        // Past the runtime, which may not know yet.
        match SockRef::from(&self.stream).peek(&mut byte) {
            Ok(0) => gone(),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => gone(),
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        // Asked for when nothing is left to write.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.connection.written();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
