//! The bodies of requests: handlers read them, and what a handler does not read is drained after
//! it.
//!
//! A request is refused before its body is collected, so refusing it costs no memory. But if the
//! connection is closed while the client is still sending, the client gets a network error and
//! never reads why it was refused. So up to 1 MiB is drained before the response. If the body is
//! still incomplete, or the client is unknown, the connection is closed a few seconds after the
//! response.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tower_http::timeout::{DeadlineBody, TimeoutBody};

use crate::api::server::connection::Connection;
use sukkal_base::memory_budget::MemoryShare;

/// Maximum number of bytes that are drained.
const DRAINED_BYTES_MAX: usize = 1 << 20;
/// Maximum time for a whole body, in units of the maximum pause.
const BODY_TIMEOUT_PAUSES: u32 = 2;

/// The body of a request, which may not have arrived yet. Clones are the same.
#[derive(Clone)]
pub(in crate::api) struct RequestBody(Arc<Mutex<DrainState>>);

struct DrainState {
    source: Source,
    /// Maximum pause between two parts of the body.
    pause_max: Duration,
    /// Whether the client sends the body without being asked for it.
    is_sending: bool,
    /// When the last part arrived for which a reader had to wait.
    last_arrival: Option<Instant>,
    /// The share of the memory budget that the arriving bytes are taken from.
    share: Option<MemoryShare>,
    connection: Option<Arc<Connection>>,
    progress: Progress,
}

/// How much of a body has been read.
#[derive(Clone, Copy, PartialEq)]
enum Progress {
    /// Nobody has begun to read it.
    Unread,
    Begun,
    /// The rest cannot be read.
    Failed,
    Complete,
}

/// The source of a body. It gets its timers when a reader first has to wait for a part of it.
enum Source {
    Untimed(Body),
    Timed(Pin<Box<DeadlineBody<TimeoutBody<Body>>>>),
}

impl RequestBody {
    /// Replaces the body of a request, unless all of it has arrived. The client may pause for
    /// `pause_max` while it sends.
    pub(super) fn replace_in(request: &mut Request, pause_max: Duration) -> Option<Self> {
        if request.body().is_end_stream() {
            return None;
        }
        // A client that expects `100 Continue` sends the body only when a handler begins to read
        // it.
        let is_sending = !request.headers().contains_key(EXPECT);
        let source = Source::Untimed(std::mem::take(request.body_mut()));
        let connection = request.extensions().get().cloned();
        let state = DrainState {
            source,
            pause_max,
            is_sending,
            last_arrival: None,
            share: None,
            connection,
            progress: Progress::Unread,
        };
        let body = Self(Arc::new(Mutex::new(state)));
        *request.body_mut() = Body::new(body.clone());
        Some(body)
    }

    /// Reads and drops what the handler has not read, up to [`DRAINED_BYTES_MAX`]. Returns whether
    /// the client sends a body of which the handler has read nothing.
    pub(super) async fn drain(&self) -> bool {
        let (is_unread, is_sending, is_arriving) = {
            let mut state = self.0.lock();
            state.share = None;
            let is_arriving = state.is_sending && state.progress != Progress::Failed;
            (state.progress == Progress::Unread, state.is_sending, is_arriving)
        };
        let mut drained_bytes = 0;
        while is_arriving && drained_bytes <= DRAINED_BYTES_MAX {
            match self.clone().frame().await {
                Some(Ok(frame)) => drained_bytes += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) | None => break,
            }
        }
        is_unread && (drained_bytes > 0 || !is_sending)
    }

    /// Returns whether the client may send more of the body than has been read.
    pub(super) fn is_unread(&self) -> bool {
        self.0.lock().progress != Progress::Complete && !self.is_end_stream()
    }

    /// Returns when the last part arrived for which a reader had to wait.
    pub(super) fn last_arrival(&self) -> Option<Instant> {
        self.0.lock().last_arrival
    }

    /// Takes the bytes that arrive from now on from this share of a memory budget, until the body
    /// is drained.
    pub(super) fn charge_to(&self, share: MemoryShare) {
        self.0.lock().share = Some(share);
    }
}

/// The error of a body whose client has ended its side of the connection too early.
fn cut_off() -> axum::Error {
    axum::Error::new(io::Error::from(io::ErrorKind::UnexpectedEof))
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let DrainState { source, pause_max, last_arrival, share, connection, progress, .. } = &mut *self.0.lock();
        let charged = |frame: Result<Frame<Bytes>, axum::Error>| {
            let bytes = frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            share.as_ref().map_or(Ok(()), |share| share.take(bytes)).map_err(axum::Error::new)?;
            frame
        };
        let mut noted = |frame: Option<Result<Frame<Bytes>, axum::Error>>| {
            *progress = match frame {
                Some(Ok(_)) => Progress::Begun,
                Some(Err(_)) => Progress::Failed,
                None => Progress::Complete,
            };
            frame.map(charged)
        };
        if let Source::Untimed(body) = source {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
                return Poll::Ready(noted(frame));
            }
            let timed = TimeoutBody::new(*pause_max, std::mem::take(body));
            *source = Source::Timed(Box::pin(DeadlineBody::new(*pause_max * BODY_TIMEOUT_PAUSES, timed)));
        }
        let Source::Timed(body) = source else { unreachable!("the source was just given its timers") };
        let Poll::Ready(frame) = body.as_mut().poll_frame(cx) else {
            let is_cut_off = connection.as_ref().is_some_and(|connection| connection.is_half_closed());
            return if is_cut_off { Poll::Ready(Some(Err(cut_off()))) } else { Poll::Pending };
        };
        *last_arrival = Some(Instant::now());
        Poll::Ready(noted(frame.map(|frame| frame.map_err(axum::Error::new))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0.lock().source {
            Source::Untimed(body) => body.is_end_stream(),
            Source::Timed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0.lock().source {
            Source::Untimed(body) => body.size_hint(),
            Source::Timed(body) => body.size_hint(),
        }
    }
}
