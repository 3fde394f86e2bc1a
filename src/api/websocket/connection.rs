//! Serves one connection: requests in frames, each after the one before it, and notifications.
//!
//! Nothing is read while a request is handled or a reply is written, so a client that does not read
//! its replies cannot send more requests. At most one page of notifications is held for a client.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::response::IntoResponse;
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, error::ProtocolError};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use uuid::Uuid;

use super::action::{Action, Frame, FrameContext, InProgress};
use super::actions::{self, Proved};
use super::counted::{CountedStream, FREE_BYTES};
use super::notifications::{Notifications, Part};
use super::refusal;
use super::reply::Outcome;
use super::session::Session;
use super::slots::Slot;
use crate::api::service::Service;
use crate::api::warnings::Warnings;
use crate::wire::Error;
use crate::wire::frame::{FrameRequest, Kind};
use sukkal_domain::Limits;

/// Size in bytes of the buffer into which a connection reads. Larger requests make it grow.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// Number of bytes that are collected before they are written.
const WRITE_BUFFER_BYTES: usize = 8 << 10;
/// Maximum number of bytes of control frames that wait until the client reads. The answers to
/// further pings replace each other.
const CONTROL_BYTES_MAX: usize = 1 << 10;
/// Maximum size in bytes of the head of a frame.
const HEAD_BYTES_MAX: usize = 14;
/// Maximum size in bytes of a request besides its messages or its metadata.
const ENVELOPE_BYTES_MAX: u64 = 64 << 10;
/// Maximum size in bytes of a request as long as the client is unknown.
const UNKNOWN_BYTES_MAX: usize = FREE_BYTES;
/// Maximum size in bytes of a request that the reply to an unknown client repeats.
const UNKNOWN_ECHO_BYTES_MAX: usize = 1 << 10;
/// Time for the client to answer that the connection closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are read and dropped after the connection has been closed because
/// of them. A client that is still sending would otherwise not read why.
const DROPPED_BYTES_MAX: usize = 4 << 20;
/// Why a connection is closed whose request or reply gets no memory.
const NO_MEMORY: &str = "Other requests use all the memory. Try again in a few seconds.";
/// Close code for a credential that has ended, as in Zaqar.
const EXPIRED: u16 = 4003;

type Socket = WebSocketStream<CountedStream>;

/// A connection that is open.
struct SocketConnection {
    id: Uuid,
    socket: Socket,
    session: Session,
    slot: Slot,
    service: Service,
    notifications: Notifications,
    /// Canceled when the connection is to be closed.
    closing: CancellationToken,
    /// Whether notifications are binary frames: as the last request was that has subscribed.
    are_binary: Arc<AtomicBool>,
    /// When the last request arrived. As long as the client has not authenticated, only requests
    /// that succeed count.
    last_request: Instant,
    next_ping: Instant,
    /// Whether nothing has arrived since the last ping.
    awaits_pong: bool,
    /// Whether the library needs new buffers: a request has made them grow, and they never shrink,
    /// or the client may send larger requests now.
    needs_buffers: bool,
    /// Whether the client was known when the last request was handled.
    is_known: bool,
}

/// Why a connection ends.
enum End {
    /// The service closes it, with a code and a reason.
    Close(CloseCode, &'static str),
    /// The client has closed it, or it is broken.
    Gone,
}

/// What happens next on a connection.
enum Event {
    End(End),
    Tick,
    Received(Option<Result<Message, WsError>>),
    Notifications(Box<Part>),
}

/// Serves a connection until it ends. When `close` is canceled, the connection is closed.
pub(super) async fn serve(
    stream: TokioIo<Upgraded>,
    session: Session,
    slot: Slot,
    service: Service,
    close: CancellationToken,
) {
    let is_known = session.is_known();
    let share = service.request_bodies.share(&session.project_or_none());
    let stream = CountedStream::new(stream, share, is_known);
    let socket = with_buffers(stream, service.broker.limits(), is_known).await;
    let are_binary = Arc::new(AtomicBool::new(false));
    let connection = SocketConnection {
        id: Uuid::new_v4(),
        socket,
        session,
        slot,
        notifications: Notifications::new(service.stream_events.clone(), are_binary.clone()),
        service,
        closing: close,
        are_binary,
        last_request: Instant::now(),
        next_ping: Instant::now(),
        awaits_pong: false,
        needs_buffers: false,
        is_known,
    };
    connection.run().await;
}

/// Returns a stream with the buffers of the library.
async fn with_buffers(stream: CountedStream, limits: &Limits, is_known: bool) -> Socket {
    WebSocketStream::from_raw_socket(stream, Role::Server, Some(configuration(limits, is_known))).await
}

/// Returns the limits of frames. A request that is a little too large for its action gets a reply
/// with the reason, and JSON may need more bytes than the `MessagePack` whose size counts.
fn configuration(limits: &Limits, is_known: bool) -> WebSocketConfig {
    let bytes_max = 2 * limits.max_messages_post_size.max(limits.max_queue_metadata) + ENVELOPE_BYTES_MAX;
    let bytes_max = if is_known { usize::try_from(bytes_max).unwrap_or(usize::MAX) } else { UNKNOWN_BYTES_MAX };
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        // The library writes control frames only.
        .write_buffer_size(0)
        .max_write_buffer_size(CONTROL_BYTES_MAX)
        .max_message_size(Some(bytes_max))
        .max_frame_size(Some(bytes_max))
}

impl SocketConnection {
    async fn run(mut self) {
        let tick = {
            let settings = &self.service.settings;
            settings.websocket.ping_interval.min(settings.websocket.idle_timeout).min(settings.client_timeout)
        };
        let mut next_tick = Instant::now() + tick;
        self.next_ping = Instant::now() + self.service.settings.websocket.ping_interval;
        loop {
            let event = self.next_event(next_tick).await;
            let outcome = match event {
                Event::End(end) => Err(end),
                Event::Tick => {
                    next_tick = Instant::now() + tick;
                    self.tick().await
                }
                Event::Received(message) => self.receive(message).await,
                Event::Notifications(part) => self.notify(*part).await,
            };
            match outcome {
                Ok(()) if self.needs_buffers => self = self.with_new_buffers().await,
                Ok(()) => {}
                Err(End::Gone) => return,
                Err(End::Close(code, reason)) => return self.close(code, reason).await,
            }
            // A client that always sends a next frame does not keep others waiting.
            yield_now().await;
        }
    }

    /// Returns the connection with new buffers. The last request was handled, so the old ones are
    /// empty.
    async fn with_new_buffers(self) -> Self {
        let socket = with_buffers(self.socket.into_inner(), self.service.broker.limits(), self.is_known).await;
        Self { socket, needs_buffers: false, ..self }
    }

    async fn next_event(&mut self, next_tick: Instant) -> Event {
        let Self { socket, session, slot, notifications, closing, .. } = self;
        tokio::select! {
            biased;
            () = slot.lost() => Event::End(End::Close(CloseCode::Again, "Another client needs the connection.")),
            () = closing.cancelled() => Event::End(End::Close(CloseCode::Away, "The service stops.")),
            () = session.ended() => Event::End(End::Close(CloseCode::from(EXPIRED), "Authentication expired.")),
            () = sleep_until(next_tick) => Event::Tick,
            event = async {
                // Neither requests nor notifications wait for all of the others.
                tokio::select! {
                    message = socket.next() => Event::Received(message),
                    part = notifications.next() => Event::Notifications(Box::new(part)),
                }
            } => event,
        }
    }

    /// Sends a ping if one is due, or ends the connection: if the last ping was not answered, if no
    /// request has arrived for too long, or if the client does not authenticate.
    async fn tick(&mut self) -> Result<(), End> {
        let limits = &self.service.settings.websocket;
        // A client must authenticate in the time for the head of a request.
        let (idle_max, reason) = if self.session.is_unknown() {
            (self.service.settings.client_timeout, "The client has not authenticated in time.")
        } else {
            (limits.idle_timeout, "No request has arrived for too long.")
        };
        // The same time as for the body of a request over HTTP.
        let request_max = self.service.settings.client_timeout * 2;
        if self.socket.get_ref().request_began().is_some_and(|began| began.elapsed() >= request_max) {
            return Err(End::Close(CloseCode::Policy, "The request has not arrived in time."));
        }
        if self.notifications.is_empty() && self.last_request.elapsed() >= idle_max {
            return Err(End::Close(CloseCode::Normal, reason));
        }
        if Instant::now() < self.next_ping {
            return Ok(());
        }
        if std::mem::replace(&mut self.awaits_pong, true) {
            debug!("a WebSocket does not answer");
            return Err(End::Gone);
        }
        self.next_ping = Instant::now() + limits.ping_interval;
        self.send(OpCode::Control(Control::Ping), [Vec::new()]).await
    }

    async fn receive(&mut self, message: Option<Result<Message, WsError>>) -> Result<(), End> {
        self.awaits_pong = false;
        let (kind, payload) = match message {
            None => return Err(End::Gone),
            Some(Err(error)) => return Err(end_after(&error)),
            Some(Ok(Message::Text(text))) => (Kind::Text, Bytes::from(text)),
            Some(Ok(Message::Binary(bytes))) => (Kind::Binary, bytes),
            Some(Ok(Message::Close(_))) => {
                // The library has the answer.
                let _is_late = timeout(CLOSE_TIMEOUT, self.socket.flush()).await;
                return Err(End::Gone);
            }
            // The library answers pings.
            Some(Ok(_)) => return Ok(()),
        };
        if !self.session.is_unknown() {
            self.last_request = Instant::now();
        }
        self.needs_buffers = payload.len() > READ_BUFFER_BYTES;
        let (reply, in_progress) = if self.service.settings.websocket.echoes {
            (payload.into(), None)
        } else {
            let reply = self.reply_to(kind, payload).await;
            reply.map_err(|_error| End::Close(CloseCode::Error, "The reply could not be written."))?
        };
        if !self.is_known && self.session.is_known() {
            self.slot.keep();
            self.socket.get_mut().note_known();
            (self.is_known, self.needs_buffers) = (true, true);
        }
        let own_memory = self.service.responses.share(&self.session.project_or_none());
        let memory = in_progress.as_ref().map_or(&own_memory, InProgress::reply_memory);
        if reply.len() > FREE_BYTES && memory.take(reply.len()).is_err() {
            return Err(End::Close(CloseCode::Again, NO_MEMORY));
        }
        self.send(opcode_of(kind), [reply]).await?;
        drop((own_memory, in_progress));
        self.socket.get_mut().end_request();
        Ok(())
    }

    /// Handles a request and returns the reply. The request is in progress until the reply is
    /// written.
    async fn reply_to(&mut self, kind: Kind, payload: Bytes) -> Result<(Vec<u8>, Option<InProgress>), Error> {
        let request = match FrameRequest::parse(kind, &payload) {
            Ok(request) => request,
            Err(reason) => return self.refuse(Outcome::error_text(400, &reason), kind, actions::unknown(), None).await,
        };
        drop(payload);
        let service = self.service.clone();
        let name = request.action();
        let verifies_tokens = service.settings.authenticator.verifies_tokens();
        let action = match actions::find(&name) {
            Some(action) if action.authenticates() && !verifies_tokens => None,
            found => found,
        };
        let Some(action) = action else {
            let outcome = Outcome::error_text(400, &format!("{name} is not a valid action"));
            return self.refuse(outcome, kind, actions::unknown(), Some(&request)).await;
        };
        if let Err(reason) = action.check(&request) {
            return self.refuse(Outcome::schema_violation(&reason), kind, action, Some(&request)).await;
        }
        let mut http_request = match self.session.http_request(action, &request) {
            Ok(http_request) => http_request,
            Err(outcome) => return self.refuse(outcome, kind, action, Some(&request)).await,
        };
        let warnings = Warnings(action.warnings(&request));
        let context = Arc::new(FrameContext {
            request,
            connection: self.id,
            subscribed: Mutex::default(),
            returns_page: action.returns_page,
            in_progress: Mutex::default(),
        });
        http_request.extensions_mut().insert(Frame(context.clone()));
        let response = (warnings, action.handle(http_request, service).await).into_response();
        if response.status().is_success() {
            self.last_request = Instant::now();
        }
        let request = &context.request;
        if let Some(Proved(client)) = response.extensions().get()
            && let Some(identity) = &client.identity
        {
            let is_other_project = self.session.authenticated(request, identity, &self.service.settings);
            if is_other_project {
                let share = self.service.request_bodies.share(&self.session.project_or_none());
                self.socket.get_mut().charge_to(share);
            }
            // What the connection has subscribed to must be allowed with the new token too.
            if is_other_project || !self.service.broker.may_subscribe_connection(client) {
                self.notifications.clear();
            }
        }
        if let Some(subscribed) = context.subscribed.lock().await.take() {
            self.are_binary.store(kind == Kind::Binary, Ordering::Relaxed);
            self.notifications.add(subscribed);
        }
        let outcome = Outcome::of(response, action.authenticates(), self.session.is_proved()).await;
        let repeated = if action.authenticates() { request.without_contents() } else { self.repeated(request) };
        Ok((outcome.write(kind, Some(&repeated))?, context.in_progress.lock().await.take()))
    }

    /// Returns the reply to a request that is refused before the middleware of its action.
    async fn refuse(
        &mut self,
        outcome: Outcome,
        kind: Kind,
        action: &Action,
        frame: Option<&FrameRequest>,
    ) -> Result<(Vec<u8>, Option<InProgress>), Error> {
        let (project, request) = (self.session.counted_project(frame), self.session.refused_request(action, frame));
        let outcome = refusal::count(outcome, project, request, self.service.clone()).await;
        let repeated = frame.map(|frame| self.repeated(frame));
        Ok((outcome.write(kind, repeated.as_ref())?, None))
    }

    /// Returns what a reply repeats of a request. Unknown clients get short replies.
    fn repeated(&self, request: &FrameRequest) -> FrameRequest {
        let is_short = request.bytes() <= UNKNOWN_ECHO_BYTES_MAX;
        if self.session.is_known() || is_short { request.clone() } else { request.without_contents() }
    }

    async fn notify(&mut self, part: Part) -> Result<(), End> {
        let kind = if self.are_binary.load(Ordering::Relaxed) { Kind::Binary } else { Kind::Text };
        self.send(opcode_of(kind), part.documents).await?;
        self.notifications.resume(part.subscribed);
        Ok(())
    }

    /// Writes frames, after the answers of the library to pings. Ends the connection if the client
    /// does not read for too long, or if its credential ends or the service stops meanwhile.
    async fn send(&mut self, opcode: OpCode, payloads: impl IntoIterator<Item = Vec<u8>>) -> Result<(), End> {
        let Self { socket, session, slot, service, closing, .. } = self;
        let time = service.settings.client_timeout;
        let written = async {
            timeout(time, socket.flush()).await.ok()?.ok()?;
            let mut writer = BufWriter::with_capacity(WRITE_BUFFER_BYTES, socket.get_mut());
            for payload in payloads {
                timeout(time, write_frame(&mut writer, opcode, &payload)).await.ok()?.ok()?;
            }
            timeout(time, writer.flush()).await.ok()?.ok()
        };
        tokio::select! {
            written = written => written.ok_or(End::Gone),
            () = session.ended() => Err(End::Gone),
            () = slot.lost() => Err(End::Gone),
            () = async { closing.cancelled().await; sleep(CLOSE_TIMEOUT).await } => Err(End::Gone),
        }
    }

    /// Tells the client why the connection closes, and waits a moment for its answer.
    async fn close(mut self, code: CloseCode, reason: &'static str) {
        // The subscriptions end at once.
        self.notifications.clear();
        self.service.metrics.count_closed_socket(code.into());
        let frame = CloseFrame { code, reason: reason.into() };
        let closed = async {
            if self.socket.close(Some(frame)).await.is_err() {
                return;
            }
            while let Some(Ok(_)) = self.socket.next().await {}
            let mut stream = self.socket.into_inner().into_inner();
            let _is_broken = stream.shutdown().await;
            let (mut buffer, mut dropped) = ([0; READ_BUFFER_BYTES], 0);
            while dropped < DROPPED_BYTES_MAX {
                match stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => dropped += bytes,
                }
                yield_now().await;
            }
        };
        let _is_late = timeout(CLOSE_TIMEOUT, closed).await;
    }
}

/// Returns how a connection ends after an error of the client or of the connection.
fn end_after(error: &WsError) -> End {
    match error {
        WsError::Capacity(_) => End::Close(CloseCode::Size, "The message is too large."),
        WsError::Utf8(_) => End::Close(CloseCode::Invalid, "The text is not UTF-8; send UTF-8, not UTF-16."),
        WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => End::Gone,
        WsError::Protocol(_) => End::Close(CloseCode::Protocol, "Protocol error."),
        WsError::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => End::Close(CloseCode::Again, NO_MEMORY),
        WsError::Io(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
            End::Close(CloseCode::Policy, "The client has sent too much without authenticating.")
        }
        _ => End::Gone,
    }
}

/// Returns the opcode of the documents of this kind.
fn opcode_of(kind: Kind) -> OpCode {
    OpCode::Data(match kind {
        Kind::Text => Data::Text,
        Kind::Binary => Data::Binary,
    })
}

/// Writes a frame. The library would copy the payload to a buffer that never shrinks.
async fn write_frame(writer: &mut (impl AsyncWrite + Unpin), opcode: OpCode, payload: &[u8]) -> io::Result<()> {
    let mut head = Vec::with_capacity(HEAD_BYTES_MAX);
    let header = FrameHeader { opcode, ..FrameHeader::default() };
    header.format(payload.len() as u64, &mut head).map_err(io::Error::other)?;
    writer.write_all(&head).await?;
    writer.write_all(payload).await
}
