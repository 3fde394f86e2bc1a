//! A subscriber: an HTTP server that records what it receives, and answers as the test says.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use support::http_stub::{self, HttpStub, Request};
use support::lock;

/// Maximum time that a test waits for a notification.
const PATIENCE: Duration = Duration::from_secs(60);

/// A notification.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) text: Bytes,
}

/// An answer to a notification.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Status(u16),
    /// A status with this header.
    With(u16, &'static str, String),
    /// A status after this time.
    After(Duration, u16),
    /// A status as soon as the test sets this to true.
    When(watch::Receiver<bool>, u16),
    /// No answer, and the connection is closed.
    Reset,
    /// No answer, and the connection stays open.
    Hang,
}

/// A running endpoint. It stops when this is dropped.
pub(crate) struct Endpoint {
    received: Arc<Mutex<Vec<Received>>>,
    count: watch::Receiver<usize>,
    server: HttpStub,
}

impl From<Request> for Received {
    fn from(request: Request) -> Self {
        let Request { at, path_and_query, headers, body, .. } = request;
        let path = path_and_query.split('?').next().unwrap_or_default().to_owned();
        Self { at, path, headers, text: body }
    }
}

impl Received {
    /// Returns the notification as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap()
    }

    /// Returns the body of the message.
    pub(crate) fn body(&self) -> Value {
        self.json()["body"].clone()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

impl Endpoint {
    /// Starts an endpoint that answers every notification with 204.
    pub(crate) fn start() -> Self {
        Self::answering(|_| Answer::Status(204))
    }

    /// Starts an endpoint that answers as `answer` decides for each notification.
    pub(crate) fn answering(answer: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let (counter, count) = watch::channel(0);
        let (answer, counter, record) = (Arc::new(answer), Arc::new(counter), received.clone());
        let server = HttpStub::start(move |request| {
            let (answer, counter, record) = (answer.clone(), counter.clone(), record.clone());
            async move {
                let notification = Received::from(request);
                let answer = answer(&notification);
                {
                    let mut record = lock(&record);
                    record.push(notification);
                    // Under the lock, so that the number of an earlier one is not sent later.
                    counter.send_replace(record.len());
                }
                respond(answer).await
            }
        });
        Self { received, count, server }
    }

    /// Returns the URL of a path of the endpoint.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url)
    }

    /// Returns what the endpoint has received so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        lock(&self.received).clone()
    }

    /// Waits until the endpoint has received at least this many notifications, and returns them.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Received> {
        let mut counter = self.count.clone();
        // The count must not stay borrowed here: the endpoint changes it while it has the lock of
        // the list.
        let has_reached = timeout(PATIENCE, counter.wait_for(|received| *received >= count)).await.is_ok();
        assert!(has_reached, "only {} of {count} notifications came", self.received().len());
        self.received()
    }

    /// Waits for this many notifications, and returns the bodies of their messages.
    pub(crate) async fn bodies(&self, count: usize) -> Vec<Value> {
        self.wait_for(count).await.iter().map(Received::body).collect()
    }
}

/// Returns the response. An error closes the connection.
async fn respond(answer: Answer) -> http_stub::Answer {
    let status = |status| {
        let mut response = Response::new(Full::from("an answer"));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    };
    Ok(match answer {
        Answer::Status(code) => status(code),
        Answer::With(code, name, value) => {
            let mut response = status(code);
            response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(&value).unwrap());
            response
        }
        Answer::After(time, code) => {
            sleep(time).await;
            status(code)
        }
        Answer::When(mut allowed, code) => {
            let _the_test_has_ended = allowed.wait_for(|is_allowed| *is_allowed).await;
            status(code)
        }
        Answer::Reset => return Err(std::io::Error::other("reset")),
        Answer::Hang => std::future::pending::<Result<_, Infallible>>().await.unwrap(),
    })
}
