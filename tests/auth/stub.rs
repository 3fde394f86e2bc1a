//! A server that records requests, and answers as the test says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::{HeaderMap, Method, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};

use support::ports;

/// A request that the stub has received.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path_and_query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

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
    server: JoinHandle<()>,
}

impl Request {
    /// Returns the value of a header, or an empty text.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Stub {
    pub(super) fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = ports::listen();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let (requests, reply) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::new(reply));
        let record = requests.clone();
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (record, reply) = (record.clone(), reply.clone());
                let service = service_fn(move |request| answer(request, record.clone(), reply.clone()));
                connections.spawn(async move {
                    let _closed = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url, requests, server }
    }

    /// Returns the requests so far.
    pub(super) fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of requests with this method and with this text in their path and query.
    pub(super) fn count(&self, method: &Method, text: &str) -> usize {
        let is_meant = |request: &&Request| request.method == *method && request.path_and_query.contains(text);
        self.requests().iter().filter(is_meant).count()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    request: axum::http::Request<Incoming>,
    record: Arc<Mutex<Vec<Request>>>,
    reply: Arc<impl Fn(&Request) -> Reply>,
) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let (head, body) = request.into_parts();
    let request = Request {
        method: head.method,
        path_and_query: head.uri.to_string(),
        headers: head.headers,
        body: body.collect().await?.to_bytes(),
    };
    record.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    let (status, header, text) = match reply(&request) {
        Reply::Json(status, document) => (status, None, document.to_string()),
        Reply::Token(status, token, document) => (status, Some(("X-Subject-Token", token)), document.to_string()),
        Reply::Text(status, text) => (status, None, text),
        Reply::Redirect(url) => (302, Some(("Location", url)), String::new()),
        Reply::Reset => return Err("reset".into()),
        Reply::Hang => std::future::pending().await,
    };
    let mut response = Response::builder().status(status);
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    Ok(response.body(Full::from(text)).unwrap())
}
