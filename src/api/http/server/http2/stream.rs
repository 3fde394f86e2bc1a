//! One request over HTTP/2 and its response.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_LENGTH, DATE, EXPECT};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tower_service::Service;
use tracing::debug;

use super::incoming;
use super::outgoing::Outgoing;
use crate::api::http::server::connections::Connection;
use crate::api::http::server::delivery::PendingDeliveries;
use crate::auth::ClientCertificate;

/// Maximum number of bytes of a response that the connection holds, besides those that the handler
/// has returned.
pub(super) const BUFFERED_BYTES_MAX: usize = 64 << 10;

/// The circumstances of a stream.
pub(super) struct Stream {
    pub(super) router: Router,
    pub(super) connection: Arc<Connection>,
    pub(super) certificate: Option<ClientCertificate>,
    /// Maximum time for which the client accepts no byte of its response.
    pub(super) stall_timeout: Duration,
}

/// Why a response has not been completed.
enum Interruption {
    /// The stream was reset, or the connection broke.
    Reset,
    /// The client does not read.
    Stalled,
    /// The response has failed.
    Body(axum::Error),
}

impl Stream {
    /// Handles a request, unless the client resets the stream before the response is complete.
    pub(super) async fn serve(mut self, request: Request<RecvStream>, mut respond: SendResponse<Outgoing>) {
        if request.headers().contains_key(EXPECT) {
            let mut proceed = Response::new(());
            *proceed.status_mut() = StatusCode::CONTINUE;
            let _is_reset = respond.send_informational(proceed);
        }
        let deliveries = PendingDeliveries::default();
        let mut request = incoming::request(request);
        let extensions = request.extensions_mut();
        extensions.insert(self.connection.clone());
        extensions.insert(deliveries.clone());
        if let Some(certificate) = &self.certificate {
            extensions.insert(certificate.clone());
        }
        let response = tokio::select! {
            biased;
            _ = poll_fn(|context| respond.poll_reset(context)) => return,
            response = self.router.call(request) => response.unwrap_or_else(|error: Infallible| match error {}),
        };
        let (head, body) = with_date(response).into_parts();
        let is_complete = body.is_end_stream();
        let Ok(mut stream) = respond.send_response(Response::from_parts(head, ()), is_complete) else { return };
        if is_complete {
            return;
        }
        match self.send_body(body, &deliveries, &mut stream).await {
            Ok(()) | Err(Interruption::Reset) => {}
            Err(Interruption::Stalled) => {
                debug!("a client does not read its response");
                stream.send_reset(Reason::CANCEL);
            }
            Err(Interruption::Body(error)) => {
                debug!(%error, "a response failed");
                stream.send_reset(Reason::INTERNAL_ERROR);
            }
        }
    }

    async fn send_body(
        &self,
        mut body: Body,
        deliveries: &PendingDeliveries,
        stream: &mut SendStream<Outgoing>,
    ) -> Result<(), Interruption> {
        let is_event_stream = body.size_hint().exact().is_none();
        let _event_stream = is_event_stream.then(|| self.connection.begin_event_stream());
        loop {
            let frame = tokio::select! {
                biased;
                _ = poll_fn(|context| stream.poll_reset(context)) => return Err(Interruption::Reset),
                frame = body.frame() => frame,
            };
            let Some(frame) = frame else {
                return stream.send_data(Outgoing::new(Bytes::new()), true).map_err(|_| Interruption::Reset);
            };
            let Ok(bytes) = frame.map_err(Interruption::Body)?.into_data() else { continue };
            let is_last = body.is_end_stream();
            if bytes.is_empty() && !is_last {
                continue;
            }
            self.send(bytes, is_last, deliveries, stream).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Sends bytes of the body as the client accepts them, and returns when they have been passed to
    /// the stream of the connection.
    async fn send(
        &self,
        mut bytes: Bytes,
        is_last: bool,
        deliveries: &PendingDeliveries,
        stream: &mut SendStream<Outgoing>,
    ) -> Result<(), Interruption> {
        loop {
            let accepted = self.accepted(bytes.len(), stream).await?;
            let part = bytes.split_to(accepted);
            if !bytes.is_empty() {
                stream.send_data(Outgoing::new(part), false).map_err(|_| Interruption::Reset)?;
                continue;
            }
            let (outgoing, written) = Outgoing::last(part, deliveries.take(), &self.connection);
            stream.send_data(outgoing, is_last).map_err(|_| Interruption::Reset)?;
            return match timeout(self.stall_timeout, written).await {
                // The sender is dropped when the bytes are written or will not be written.
                Ok(_dropped) => Ok(()),
                Err(_) => Err(Interruption::Stalled),
            };
        }
    }

    /// Waits until the client accepts bytes, and returns how many of this number it accepts.
    async fn accepted(&self, wanted: usize, stream: &mut SendStream<Outgoing>) -> Result<usize, Interruption> {
        if wanted == 0 {
            return Ok(0);
        }
        let wanted = wanted.min(BUFFERED_BYTES_MAX);
        stream.reserve_capacity(wanted);
        while stream.capacity() == 0 {
            let capacity = timeout(self.stall_timeout, poll_fn(|context| stream.poll_capacity(context)));
            match capacity.await {
                Ok(Some(Ok(_bytes))) => {}
                Ok(Some(Err(_)) | None) => return Err(Interruption::Reset),
                Err(_) => return Err(Interruption::Stalled),
            }
        }
        Ok(stream.capacity().min(wanted))
    }
}

fn with_date(mut response: Response<Body>) -> Response<Body> {
    let is_empty = response.status() == StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let date = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now()));
    headers.insert(DATE, date.expect("a date consists of letters, digits, spaces, a comma and colons"));
    if is_empty {
        headers.remove(CONTENT_LENGTH);
    }
    response
}
