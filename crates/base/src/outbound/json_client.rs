//! A client for JSON documents of servers that the operator has named. Answers are bounded in size
//! and time. The client follows no redirects and uses no proxy.

use std::mem;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio_rustls::rustls::RootCertStore;
use tracing::warn;

use super::{body_of, http_client, root_cause, tls_config, trusted_certificates};
use crate::text::without_mark;

/// Maximum time from the request to the last byte of the answer.
pub const ANSWER_DURATION_MAX: Duration = Duration::from_secs(10);
/// Time for which an unused connection is kept open.
const IDLE_DURATION_MAX: Duration = Duration::from_secs(30);
/// Maximum number of unused connections to one host.
const IDLE_CONNECTIONS_MAX: usize = 16;
/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OWN_NAME: &str = concat!("Sukkal/", env!("CARGO_PKG_VERSION"));

/// Why there is no document. The text has no part of the request or of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FetchFailure {
    /// The server does not answer in time.
    #[error("no answer within {} s", ANSWER_DURATION_MAX.as_secs())]
    Timeout,
    /// The connection cannot be made, or it breaks.
    #[error("{0}")]
    Connection(String),
    /// The answer is too large.
    #[error("the answer has more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    /// The answer has another status than expected.
    #[error("the answer has the status {0}")]
    Status(u16),
    /// The answer is not the document that was expected.
    #[error("the answer is not the expected JSON document (line {line}, column {column})")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
}

/// An answer of a server.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: Vec<u8>,
}

/// A client for JSON documents. Clones share its connections.
#[derive(Clone, Debug)]
pub struct JsonClient {
    http: Client,
}

impl Default for JsonClient {
    fn default() -> Self {
        let trusted = trusted_certificates().unwrap_or_else(|error| {
            warn!(%error, "servers with https cannot be reached");
            RootCertStore::empty()
        });
        let http = http_client(tls_config(trusted))
            .default_headers(HeaderMap::from_iter([(ACCEPT, JSON)]))
            .user_agent(OWN_NAME)
            .timeout(ANSWER_DURATION_MAX)
            .pool_idle_timeout(IDLE_DURATION_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build()
            .expect("these settings are valid");
        Self { http }
    }
}

impl JsonClient {
    /// Prepares a request.
    pub fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.http.request(method, url)
    }

    /// Sends a request, and reads the whole answer.
    pub async fn send(&self, request: RequestBuilder) -> Result<Answer, FetchFailure> {
        let mut answer = request.send().await?;
        let (status, headers) = (answer.status(), mem::take(answer.headers_mut()));
        let body = body_of(answer, ANSWER_BYTES_MAX).await?.ok_or(FetchFailure::TooLarge)?;
        Ok(Answer { status, headers, body })
    }

    /// Returns the document at this URL, whose answer must have the status 200.
    pub async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, FetchFailure> {
        let answer = self.send(self.request(Method::GET, url)).await?;
        if answer.status == StatusCode::OK { answer.json() } else { Err(FetchFailure::Status(answer.status.as_u16())) }
    }
}

impl Answer {
    /// Returns the document in the answer.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FetchFailure> {
        // The error of the parser would show values, which may be personal.
        let not_json = |error: serde_json::Error| FetchFailure::NotJson { line: error.line(), column: error.column() };
        serde_json::from_slice(without_mark(&self.body)).map_err(not_json)
    }
}

impl From<reqwest::Error> for FetchFailure {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() && !error.is_connect() {
            return Self::Timeout;
        }
        // The URL may contain a key.
        Self::Connection(root_cause(&error.without_url()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Returns the document of a server that answers with these bytes, and then only keeps the
    /// connection open.
    async fn document_of(answer: String) -> Result<Value, FetchFailure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
            let _closed_early = stream.write_all(answer.as_bytes()).await;
            let _closed = stream.read(&mut [0; 1]).await;
        });
        let document = JsonClient::default().get(&url).await;
        server.abort();
        document
    }

    fn with_body(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn only_a_document_of_bounded_size_is_accepted() {
        let huge = format!("\"{}\"", "x".repeat(ANSWER_BYTES_MAX));
        let deep = "[".repeat(100_000);
        let chunks = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n200000\r\n{}", "1".repeat(2 << 20));
        for (answer, expected) in [
            (with_body("200 OK", "{\"a\": 1}"), Ok(serde_json::json!({ "a": 1 }))),
            (with_body("200 OK", "secret"), Err(FetchFailure::NotJson { line: 1, column: 1 })),
            (with_body("200 OK", &deep), Err(FetchFailure::NotJson { line: 1, column: 128 })),
            (with_body("200 OK", &huge), Err(FetchFailure::TooLarge)),
            (chunks, Err(FetchFailure::TooLarge)),
            (with_body("302 Found", "{}"), Err(FetchFailure::Status(302))),
            (with_body("500 Internal Server Error", "{}"), Err(FetchFailure::Status(500))),
        ] {
            assert_eq!(document_of(answer.clone()).await, expected, "{}", &answer[..40]);
        }
        assert!(matches!(document_of("nonsense\r\n\r\n".to_owned()).await, Err(FetchFailure::Connection(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_ends_at_the_limit() {
        for start in ["", "HTTP/1.1 200 OK\r\nslow: ", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"] {
            assert_eq!(document_of(start.to_owned()).await, Err(FetchFailure::Timeout), "{start:?}");
        }
    }
}
