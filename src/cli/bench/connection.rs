//! One connection, kept alive: a request goes out, its answer comes in; opened anew when it has been closed.
//!
//! The connection is driven by the task that uses it, not by one of its own: that spares trips through the scheduler.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::StatusCode;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::target::Outgoing;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// As often the exchange and the connection may wake each other in one visit of the scheduler.
const TURNS: usize = 3;

/// Why a request has no good answer.
#[derive(Clone, Copy, Debug, Eq, Error, Ord, PartialEq, PartialOrd)]
pub(super) enum Failure {
    /// Anything but 2xx.
    #[error("{0}")]
    Status(u16),
    /// No answer in 30 s.
    #[error("timeout")]
    Timeout,
    #[error("no connection: {0}")]
    Connect(io::ErrorKind),
    /// The connection broke before the answer was complete.
    #[error("connection closed")]
    Closed,
    /// It was answered, but not with the document that was asked for.
    #[error("unreadable answer")]
    Unreadable,
    /// Open loop: it was due, but its connection was still waiting for an earlier answer when the run ended.
    #[error("never sent")]
    NeverSent,
}

/// A way to the service; no more than one request is under way on it.
pub(super) struct Connection {
    address: SocketAddr,
    open: Option<Open>,
    answer: Vec<u8>,
    deadline: Pin<Box<Sleep>>,
}

struct Open {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` when it has come to its end.
    driver: Option<Driver>,
}

type Driver = Pin<Box<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>;

enum Broken {
    /// The connection was closed before the request went out; here it is.
    Unsent(Box<Outgoing>),
    Sent(Failure),
}

impl Connection {
    /// A connection that opens itself when it is first needed.
    pub(super) fn to(address: SocketAddr) -> Self {
        let deadline = Box::pin(sleep_until(Instant::now()));
        Self { address, open: None, answer: Vec::new(), deadline }
    }

    /// Opens it now.
    pub(super) async fn open(&mut self) -> Result<(), Failure> {
        let opened = timeout(ANSWER_TIMEOUT, Open::new(self.address)).await;
        self.open = Some(opened.unwrap_or(Err(Failure::Timeout))?);
        Ok(())
    }

    /// Sends the request and waits for all of its answer, whose body is then in `answer`; any status but 2xx fails.
    pub(super) async fn exchange(&mut self, request: Outgoing) -> Result<StatusCode, Failure> {
        self.deadline.as_mut().reset(Instant::now() + ANSWER_TIMEOUT);
        let mut request = request;
        loop {
            let is_used = self.open.is_some();
            if !is_used {
                self.open().await?;
            }
            // Taken out, so that whatever goes wrong or drops this future, no half answer is left on the connection.
            let Some(mut open) = self.open.take() else { return Err(Failure::Closed) };
            match open.exchange(request, &mut self.answer, self.deadline.as_mut()).await {
                Ok(status) => {
                    self.open = open.driver.is_some().then_some(open);
                    return if status.is_success() { Ok(status) } else { Err(Failure::Status(status.as_u16())) };
                }
                // Services close connections that they find idle or old; that is no failure of a request.
                Err(Broken::Unsent(unsent)) if is_used => request = *unsent,
                Err(Broken::Unsent(_)) => return Err(Failure::Closed),
                Err(Broken::Sent(failure)) => return Err(failure),
            }
        }
    }

    /// The body of the last answer.
    pub(super) fn answer(&self) -> &[u8] {
        &self.answer
    }
}

impl Open {
    async fn new(address: SocketAddr) -> Result<Self, Failure> {
        let refused = |error: io::Error| Failure::Connect(error.kind());
        let stream = TcpStream::connect(address).await.map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Closed)?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    async fn exchange(
        &mut self,
        request: Outgoing,
        answer: &mut Vec<u8>,
        mut deadline: Pin<&mut Sleep>,
    ) -> Result<StatusCode, Broken> {
        let Self { sender, driver } = self;
        let mut exchange = pin!(exchange(sender, request, answer));
        poll_fn(|context| {
            for _ in 0..TURNS {
                if let Poll::Ready(outcome) = exchange.as_mut().poll(context) {
                    return Poll::Ready(outcome);
                }
                if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
                    // What is dropped tells those who wait for it.
                    *driver = None;
                }
            }
            deadline.as_mut().poll(context).map(|()| Err(Broken::Sent(Failure::Timeout)))
        })
        .await
    }
}

async fn exchange(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    request: Outgoing,
    answer: &mut Vec<u8>,
) -> Result<StatusCode, Broken> {
    if sender.ready().await.is_err() {
        return Err(Broken::Unsent(Box::new(request)));
    }
    let sent = sender.try_send_request(request).await;
    let response = sent.map_err(|mut error| match error.take_message() {
        Some(request) => Broken::Unsent(Box::new(request)),
        None => Broken::Sent(Failure::Closed),
    })?;
    let status = response.status();
    let mut body = response.into_body();
    answer.clear();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Broken::Sent(Failure::Closed))?;
        if let Some(data) = frame.data_ref() {
            answer.extend_from_slice(data);
        }
    }
    Ok(status)
}
