//! The HTTP client that sends spans to the collector. It logs once when the collector cannot be
//! reached, and once when it can be reached again.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing::{info, warn};

use sukkal_base::outbound;

/// Maximum duration of one attempt to send spans.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an answer of the collector, in bytes.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// The collector. Its requests run in the runtime in which this is created, because the library
/// calls it from a thread of its own.
pub(super) struct Collector {
    endpoint: String,
    client: Client<HttpConnector, Full<Bytes>>,
    runtime: Handle,
    is_failing: AtomicBool,
}

impl Collector {
    pub(super) fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            runtime: Handle::current(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Logs whether the collector works, if that has changed.
    fn note(&self, failure: Option<&dyn fmt::Display>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                warn!(collector = self.endpoint, %error, "cannot send traces; spans are dropped until the collector answers");
            }
            None if was_failing => info!(collector = self.endpoint, "the collector answers again"),
            Some(_) | None => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let send = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, REPLY_BYTES_MAX).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        // The timer must be made in the runtime too.
        let attempt = self.runtime.spawn(async { timeout(TIMEOUT, send).await }).await?;
        let answer = attempt.unwrap_or_else(|_| Err("it does not answer in time".into()));
        match &answer {
            Ok(answer) if answer.status().is_success() => self.note(None),
            Ok(answer) => self.note(Some(&format_args!("it answers {}", answer.status()))),
            Err(error) => self.note(Some(&outbound::root_cause(error.as_ref()))),
        }
        answer
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}
