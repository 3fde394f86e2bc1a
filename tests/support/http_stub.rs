//! An HTTP server on a free port that answers as a test says.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::task::{JoinHandle, JoinSet};

use super::ports;

/// A request with its complete body.
#[derive(Clone, Debug)]
pub struct Request {
    pub at: Instant,
    pub method: Method,
    pub path_and_query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Request {
    /// Returns the value of a header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("the headers are ASCII"))
    }
}

/// An answer; an error resets the connection.
pub type Answer = io::Result<Response<Full<Bytes>>>;

/// A running server. It stops when this is dropped.
pub struct HttpStub {
    pub url: String,
    server: JoinHandle<()>,
}

impl HttpStub {
    /// Starts a server that answers each request by this function.
    pub fn start<F>(answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Self::with_linger(None, answer)
    }

    /// The same, but connections are closed as this option of sockets says: at once, with a reset,
    /// if it is zero.
    pub fn with_linger<F>(linger: Option<Duration>, answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let listener = ports::listen();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let answer = Arc::new(answer);
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                while connections.try_join_next().is_some() {}
                SockRef::from(&stream).set_linger(linger).unwrap();
                let answer = answer.clone();
                let service = service_fn(move |request| {
                    let answer = answer.clone();
                    async move { answer(read(request).await?).await }
                });
                connections.spawn(async move {
                    let _reset = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url, server }
    }
}

impl Drop for HttpStub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn read(request: axum::http::Request<Incoming>) -> io::Result<Request> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let path_and_query = head.uri.to_string();
    Ok(Request { at: Instant::now(), method: head.method, path_and_query, headers: head.headers, body })
}
