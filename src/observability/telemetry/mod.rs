//! Traces in the form of OpenTelemetry: spans of requests, and of what the service does for them.
//!
//! Spans exist only if the operator has named a collector. Otherwise there is no [`Tracer`], a
//! request has no [`Span`], and so nothing below it has one. Nothing here blocks: finished spans
//! wait in a bounded queue, which a thread of its own empties. When it is full, spans are dropped.

mod collector;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;
use std::{env, fmt, sync::Arc};

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::{debug, info};

use self::collector::Collector;

const SERVICE: &str = env!("CARGO_PKG_NAME");
/// The path of a collector to which traces are sent.
const TRACES_PATH: &str = "/v1/traces";
/// The header that names the span which a request belongs to
/// (<https://www.w3.org/TR/trace-context/>).
pub const TRACEPARENT: &str = "traceparent";
/// The header with data that tracing systems pass along.
pub const TRACESTATE: &str = "tracestate";
/// Maximum time for which the end of the process waits until the last spans are sent.
const LAST_SPANS_WAIT_MAX: Duration = Duration::from_secs(2);

/// Starts the spans of requests, and sends finished spans to a collector. Clones are the same.
#[derive(Clone)]
pub struct Tracer {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// A span, which ends when its last clone is dropped.
#[derive(Clone)]
pub struct Span(Arc<Inner>);

struct Inner {
    context: Context,
    tracer: SdkTracer,
}

/// The part of the system that a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An operation of the service.
    Operation,
    /// A call of the store.
    Store,
}

impl Tracer {
    /// Starts to send spans to the collector at this URL, such as `http://127.0.0.1:4318`.
    ///
    /// # Errors
    ///
    /// If the URL is not valid.
    pub fn start(endpoint: &str) -> Result<Self, ExporterBuildError> {
        let url = format!("{}{TRACES_PATH}", endpoint.trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(endpoint))
            .with_endpoint(url)
            .with_protocol(Protocol::HttpBinary)
            .build()?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let name = env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| SERVICE.to_owned());
        let resource = Resource::builder().with_service_name(name).with_attribute(version).build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        info!(collector = endpoint, "sending traces");
        Ok(Self { tracer: provider.tracer(SERVICE), provider })
    }

    /// Starts the span of a request. `header` returns the value of a header of the request; the
    /// headers name the parent of the span if there is one.
    #[must_use]
    pub fn request(&self, name: String, header: impl Fn(&str) -> Option<String>) -> Span {
        Span::new(&self.tracer, name.into(), SpanKind::Server, &remote_context(header))
    }

    /// Sends the spans that are left. No span is sent afterwards.
    pub async fn stop(self) {
        let stopping = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(LAST_SPANS_WAIT_MAX));
        if let Ok(Err(error)) = stopping.await {
            debug!(%error, "the last spans were not sent");
        }
    }
}

impl Span {
    fn new(tracer: &SdkTracer, name: Cow<'static, str>, kind: SpanKind, parent: &Context) -> Self {
        let span = tracer.build_with_context(SpanBuilder::from_name(name).with_kind(kind), parent);
        Self(Arc::new(Inner { context: parent.with_span(span), tracer: tracer.clone() }))
    }

    /// Starts a span of something that happens for this one.
    #[must_use]
    pub fn child(&self, name: impl Into<Cow<'static, str>>, part: Part) -> Self {
        let kind = match part {
            Part::Operation => SpanKind::Internal,
            Part::Store => SpanKind::Client,
        };
        Self::new(&self.0.tracer, name.into(), kind, &self.0.context)
    }

    /// Sets an attribute.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.0.context.span().set_attribute(KeyValue::new(key, value));
    }

    /// Marks the span as failed.
    pub fn fail(&self) {
        self.0.context.span().set_status(Status::error(""));
    }

    /// Links the span to the one that a `traceparent` names. A text that is not one has no effect.
    pub fn link(&self, traceparent: &str) {
        let linked = remote_context(|name| (name == TRACEPARENT).then(|| traceparent.to_owned()));
        let linked = linked.span().span_context().clone();
        if linked.is_valid() {
            self.0.context.span().add_link(linked, Vec::new());
        }
    }

    /// Ends the span now, although clones may exist.
    pub fn end(&self) {
        self.0.context.span().end();
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.0.context.span();
        let context: &SpanContext = span.span_context();
        write!(f, "Span({}/{})", context.trace_id(), context.span_id())
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tracer")
    }
}

/// Returns the context that headers describe; an empty one if they are missing or invalid.
fn remote_context(header: impl Fn(&str) -> Option<String>) -> Context {
    let headers = [TRACEPARENT, TRACESTATE].into_iter().filter_map(|name| Some((name.to_owned(), header(name)?)));
    TraceContextPropagator::new().extract_with_context(&Context::new(), &headers.collect::<HashMap<_, _>>())
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SpanData, SpanExporter};
    use parking_lot::Mutex;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    /// Collects spans in memory.
    #[derive(Clone, Debug, Default)]
    struct Spans(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Spans {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().extend(batch);
            Ok(())
        }
    }

    #[test]
    fn a_span_links_to_the_traces_of_messages() {
        let spans = Spans::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let tracer = Tracer { tracer: provider.tracer(SERVICE), provider };

        let request = tracer.request("GET".to_owned(), |_| None);
        request.link(&format!("00-{TRACE}-{PARENT}-01"));
        for invalid in ["", "00-0-0-01", "a text", &format!("00-{}-{PARENT}-01", "0".repeat(32))] {
            request.link(invalid);
        }
        let (child, clone) = (request.child("child", Part::Operation), request.clone());
        drop(request);
        assert_eq!(spans.0.lock().len(), 0);
        drop((clone, child));

        let spans = spans.0.lock();
        let linked: Vec<_> =
            spans.iter().map(|span| span.links.iter().map(|link| &link.span_context).collect()).collect();
        let [ref of_request, ref of_child]: [Vec<_>; 2] = linked.try_into().unwrap();
        assert_eq!(spans[0].name, "GET");
        assert_eq!(of_request.iter().map(|context| context.trace_id().to_string()).collect::<Vec<_>>(), [TRACE]);
        assert_eq!(of_request[0].span_id().to_string(), PARENT);
        assert_eq!(of_child.len(), 0);
    }
}
