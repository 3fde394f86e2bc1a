//! An OpenTelemetry collector, which receives traces by OTLP over HTTP with protobuf.

use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use sukkal::api::{self, ServerLimits};
use sukkal::observability::metrics::ConnectionCounts;
use tokio::task::JoinHandle;

use super::{lock, ports};

const PATIENCE: Duration = Duration::from_secs(30);
const CONNECTIONS_MAX: usize = 100;

/// A collector, which stops when it is dropped.
pub struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    server: JoinHandle<()>,
}

/// A span, with the name and the version of the service that has sent it.
#[derive(Clone, Debug)]
pub struct Received {
    pub service: String,
    pub span: Span,
}

impl Collector {
    pub fn start() -> Self {
        Self::on(ports::listen())
    }

    /// Starts a collector on a socket.
    pub fn on(listener: TcpListener) -> Self {
        listener.set_nonblocking(true).expect("a socket has this option");
        let address = listener.local_addr().expect("a bound socket has an address");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a bound socket can be used");
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let spans = received.clone();
        let receive = async move |headers: HeaderMap, body: Bytes| {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            let request = ExportTraceServiceRequest::decode(body).expect("it is OTLP");
            lock(&spans).extend(read(request));
            StatusCode::OK
        };
        let router = Router::new().route("/v1/traces", post(receive));
        let limits = ServerLimits { head_timeout: PATIENCE, idle_timeout: PATIENCE, connections_max: CONNECTIONS_MAX };
        let serve = api::serve(listener, router, limits, ConnectionCounts::default(), pending());
        let server = tokio::spawn(async move { serve.await.await });
        Self { address, received, server }
    }

    /// Returns the URL that the service sends traces to.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all spans so far.
    pub fn spans(&self) -> Vec<Received> {
        lock(&self.received).clone()
    }

    /// Waits for a span that meets the condition.
    pub async fn span(&self, what: &str, condition: impl Fn(&Span) -> bool) -> Received {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.spans().into_iter().find(|received| condition(&received.span)) {
                return found;
            }
            assert!(Instant::now() < deadline, "there is no span {what} in {:#?}", self.spans());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Received {
    /// Returns an attribute of the span as text.
    pub fn attribute(&self, key: &str) -> Option<String> {
        text_of(&self.span.attributes, key)
    }
}

fn read(request: ExportTraceServiceRequest) -> Vec<Received> {
    let mut received = Vec::new();
    for of_resource in request.resource_spans {
        let resource = of_resource.resource.unwrap_or_default();
        let service =
            ["service.name", "service.version"].map(|key| text_of(&resource.attributes, key).unwrap_or_default());
        for span in of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans) {
            received.push(Received { service: service.join(" "), span });
        }
    }
    received
}

fn text_of(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{key} is {other:?}"),
    }
}
