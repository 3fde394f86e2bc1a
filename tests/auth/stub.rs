//! A server that records requests, and answers as the test says.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::{Method, Response};
use http_body_util::Full;
use serde_json::Value;

pub(super) use support::http_stub::Request;
use support::http_stub::{Answer, HttpStub};
use support::lock;

/// An answer of the stub.
pub(super) enum Reply {
    Json(u16, Value),
    /// A document with the header `X-Subject-Token`.
    Token(u16, String, Value),
    Text(u16, String),
    /// A redirect to this URL.
    Redirect(String),
    /// No answer, and the connection is closed.
    Reset,
    /// No answer, and the connection stays open.
    Hang,
}

/// A running stub. It stops when this is dropped.
pub(crate) struct Stub {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    _server: HttpStub,
}

impl Stub {
    pub(super) fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let (requests, reply) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::new(reply));
        let record = requests.clone();
        let server = HttpStub::start(move |request| answer(request, record.clone(), reply.clone()));
        Self { url: server.url.clone(), requests, _server: server }
    }

    /// Returns the requests so far.
    pub(super) fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        lock(&self.requests)
    }

    /// Returns the number of requests with this method and with this text in their path and query.
    pub(super) fn count(&self, method: &Method, text: &str) -> usize {
        let is_meant = |request: &&Request| request.method == *method && request.path_and_query.contains(text);
        self.requests().iter().filter(is_meant).count()
    }
}

async fn answer(request: Request, record: Arc<Mutex<Vec<Request>>>, reply: Arc<impl Fn(&Request) -> Reply>) -> Answer {
    lock(&record).push(request.clone());
    let (status, header, text) = match reply(&request) {
        Reply::Json(status, document) => (status, None, document.to_string()),
        Reply::Token(status, token, document) => (status, Some(("X-Subject-Token", token)), document.to_string()),
        Reply::Text(status, text) => (status, None, text),
        Reply::Redirect(url) => (302, Some(("Location", url)), String::new()),
        Reply::Reset => return Err(io::Error::other("reset")),
        Reply::Hang => std::future::pending().await,
    };
    let mut response = Response::builder().status(status);
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    Ok(response.body(Full::from(text)).unwrap())
}
