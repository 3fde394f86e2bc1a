//! One keep-alive HTTP connection, which carries one request at a time and is reopened when it was
//! closed.
//!
//! The task that sends the requests also drives the connection. A separate task would cost more
//! switches between tasks.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::StatusCode;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::server::{Server, Stream};
use super::target::Outgoing;

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many times one poll of the task polls the exchange and the connection, which may wake each
/// other.
const POLLS_MAX: usize = 3;

/// Why a request has failed.
#[derive(Clone, Copy, Debug, Eq, Error, Ord, PartialEq, PartialOrd)]
pub(super) enum Failure {
    /// A response with a status other than 2xx.
    #[error("{0}")]
    Status(u16),
    /// No complete response within 30 seconds.
    #[error("timeout")]
    Timeout,
    #[error("no connection: {0}")]
    Connect(io::ErrorKind),
    /// The connection was closed before the response was complete.
    #[error("connection closed")]
    Closed,
    /// The response does not contain the expected document.
    #[error("unreadable response")]
    Unreadable,
    /// Open loop: the request was due, but its connection was still waiting for an earlier response
    /// when the run ended.
    #[error("never sent")]
    NeverSent,
}

/// A connection to the service, with at most one request in progress.
pub(super) struct Connection {
    server: Server,
    open: Option<Open>,
    response_body: Vec<u8>,
    deadline: Pin<Box<Sleep>>,
}

struct Open {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` after the connection was closed.
    driver: Option<Driver>,
}

type Driver = Pin<Box<http1::Connection<TokioIo<Stream>, Full<Bytes>>>>;

enum ExchangeError {
    /// The connection was closed before the request was sent. Contains the request.
    Unsent(Box<Outgoing>),
    Failed(Failure),
}

impl Connection {
    /// Creates a connection that is opened by its first request.
    pub(super) fn to(server: &Server) -> Self {
        let deadline = Box::pin(sleep_until(Instant::now()));
        Self { server: server.clone(), open: None, response_body: Vec::new(), deadline }
    }

    /// Opens the connection now.
    pub(super) async fn open(&mut self) -> Result<(), Failure> {
        let opened = timeout(RESPONSE_TIMEOUT, Open::new(&self.server)).await;
        self.open = Some(opened.unwrap_or(Err(Failure::Timeout))?);
        Ok(())
    }

    /// Sends a request and waits for the complete response. `response_body` returns its body.
    ///
    /// A status other than 2xx is an error.
    pub(super) async fn exchange(&mut self, request: Outgoing) -> Result<StatusCode, Failure> {
        self.deadline.as_mut().reset(Instant::now() + RESPONSE_TIMEOUT);
        let mut request = request;
        loop {
            let was_open = self.open.is_some();
            if !was_open {
                self.open().await?;
            }
            // Taken out, so that an error or a dropped future closes the connection. Otherwise the
            // rest of a response would be left on it.
            let Some(mut open) = self.open.take() else { return Err(Failure::Closed) };
            match open.exchange(request, &mut self.response_body, self.deadline.as_mut()).await {
                Ok(status) => {
                    self.open = open.driver.is_some().then_some(open);
                    return if status.is_success() { Ok(status) } else { Err(Failure::Status(status.as_u16())) };
                }
                // Services close idle and old connections, which is not a failed request.
                Err(ExchangeError::Unsent(unsent)) if was_open => request = *unsent,
                Err(ExchangeError::Unsent(_)) => return Err(Failure::Closed),
                Err(ExchangeError::Failed(failure)) => return Err(failure),
            }
        }
    }

    /// The body of the last response.
    pub(super) fn response_body(&self) -> &[u8] {
        &self.response_body
    }
}

impl Open {
    async fn new(server: &Server) -> Result<Self, Failure> {
        let stream = server.connect().await.map_err(|error| Failure::Connect(error.kind()))?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Closed)?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    async fn exchange(
        &mut self,
        request: Outgoing,
        response_body: &mut Vec<u8>,
        mut deadline: Pin<&mut Sleep>,
    ) -> Result<StatusCode, ExchangeError> {
        let Self { sender, driver } = self;
        let mut exchange = pin!(exchange(sender, request, response_body));
        poll_fn(|context| {
            for _ in 0..POLLS_MAX {
                if let Poll::Ready(outcome) = exchange.as_mut().poll(context) {
                    return Poll::Ready(outcome);
                }
                if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
                    // Dropping the driver ends the exchange that waits for it.
                    *driver = None;
                }
            }
            deadline.as_mut().poll(context).map(|()| Err(ExchangeError::Failed(Failure::Timeout)))
        })
        .await
    }
}

async fn exchange(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    request: Outgoing,
    response_body: &mut Vec<u8>,
) -> Result<StatusCode, ExchangeError> {
    if sender.ready().await.is_err() {
        return Err(ExchangeError::Unsent(Box::new(request)));
    }
    let sent = sender.try_send_request(request).await;
    let response = sent.map_err(|mut error| match error.take_message() {
        Some(request) => ExchangeError::Unsent(Box::new(request)),
        None => ExchangeError::Failed(Failure::Closed),
    })?;
    let status = response.status();
    let mut body = response.into_body();
    response_body.clear();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ExchangeError::Failed(Failure::Closed))?;
        if let Some(data) = frame.data_ref() {
            response_body.extend_from_slice(data);
        }
    }
    Ok(status)
}
