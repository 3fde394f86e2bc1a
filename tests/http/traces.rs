//! Traces of requests, as an OpenTelemetry collector receives them.

use std::fs;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;

use super::{answered, send};
use support::collector::Collector;
use support::events::Events;
use support::ports;
use support::redis::RedisServer;
use support::sukkal::Sukkal;
use support::waiting::block_until;

const ENDPOINT: &str = "SUKKAL_TELEMETRY__OTLP_ENDPOINT";
/// The option of OpenTelemetry for the time between two batches, in milliseconds.
const DELAY: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const MESSAGES: &str = "/v2/queues/{queue_name}/messages";

fn start(store: &str, collector: &Collector) -> Sukkal {
    Sukkal::start_with(store, &[(ENDPOINT, &collector.url()), DELAY])
}

fn traceparent(trace: &str, is_sampled: bool) -> String {
    format!("00-{trace}-{PARENT}-0{}", u8::from(is_sampled))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

fn is_child_of(span: &Span, parent: &Span) -> bool {
    span.trace_id == parent.trace_id && span.parent_span_id == parent.span_id
}

#[tokio::test]
async fn a_request_its_operation_and_its_call_of_the_store_are_spans_of_the_callers_trace() {
    let collector = Collector::start();
    let sukkal = start("memory:", &collector);
    let api = sukkal.project("my project");
    let post = api.post("/v2/queues/orders/messages?secret=1", &json!({ "messages": [{ "body": 1 }] }));
    let answer = answered(post.header("traceparent", traceparent(TRACE, true)), 201).await;

    let request = collector.span("of the request", |span| span.name == format!("POST {MESSAGES}")).await;
    let operation = collector.span("of the operation", |span| is_child_of(span, &request.span)).await;
    let store = collector.span("of the store", |span| is_child_of(span, &operation.span)).await;

    assert_eq!((hex(&request.span.trace_id), hex(&request.span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    assert_eq!(request.service, format!("sukkal {}", env!("CARGO_PKG_VERSION")));
    let kinds = [&request, &operation, &store].map(|received| received.span.kind());
    assert_eq!(kinds, [SpanKind::Server, SpanKind::Internal, SpanKind::Client]);
    let expected = [
        ("http.request.method", "POST"),
        ("http.route", MESSAGES),
        ("url.path", "/v2/queues/orders/messages"),
        ("http.response.status_code", "201"),
        ("sukkal.request_id", answer.header("x-openstack-request-id").unwrap()),
    ];
    for (key, value) in expected {
        assert_eq!(request.attribute(key).as_deref(), Some(value), "{key}");
    }
    assert_eq!((operation.span.name.as_str(), store.span.name.as_str()), ("PostMessages", "store"));
    assert_eq!(operation.attribute("messaging.destination.name").as_deref(), Some("orders"));
    assert_eq!(operation.attribute("sukkal.project").as_deref(), Some("my project"));
    for (outer, inner) in [(&request, &operation), (&operation, &store)] {
        assert!(outer.span.start_time_unix_nano <= inner.span.start_time_unix_nano);
        assert!(inner.span.start_time_unix_nano <= inner.span.end_time_unix_nano);
    }
    assert!(!format!("{:?}", collector.spans()).contains("secret"));
}

#[tokio::test]
async fn a_request_that_receives_messages_is_linked_to_the_spans_that_posted_them() {
    let collector = Collector::start();
    let sukkal = start("memory:", &collector);
    let api = sukkal.project("p");
    let post = |body: u8| api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": body }] }));
    answered(post(1).header("traceparent", traceparent(TRACE, true)), 201).await;
    answered(post(2), 201).await;
    answered(api.post("/v2/queues/q/claims", &json!({})), 201).await;

    let claim = collector.span("of the claim", |span| span.name == "POST /v2/queues/{queue_name}/claims").await;

    let links = claim.span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id)));
    assert_eq!(links.collect::<Vec<_>>(), [(TRACE.to_owned(), PARENT.to_owned())]);
    assert_ne!(hex(&claim.span.trace_id), TRACE);
}

#[tokio::test]
async fn a_write_in_a_task_of_its_own_belongs_to_its_request() {
    let collector = Collector::start();
    let sukkal = start("memory:", &collector);
    let api = sukkal.project("p");
    answered(api.post("/v2/queues/q/claims?wait=1", &json!({})), 204).await;

    let request = collector.span("of the request", |span| span.name == "POST /v2/queues/{queue_name}/claims").await;
    let operation = collector.span("of the operation", |span| is_child_of(span, &request.span)).await;
    collector.span("of the store", |span| is_child_of(span, &operation.span)).await;
    assert_eq!(operation.span.name, "CreateClaim");
    assert_eq!(request.span.parent_span_id, [0; 0], "it begins a trace");
}

#[tokio::test]
async fn requests_that_are_not_sampled_and_those_of_monitoring_are_not_sent() {
    let collector = Collector::start();
    let sukkal = start("memory:", &collector);
    let api = sukkal.project("p");
    answered(api.get("/v2/queues/not-sampled").header("traceparent", traceparent(TRACE, false)), 200).await;
    for untraced in ["/healthz", "/metrics"] {
        assert!(support::plain_http::get(sukkal.url(untraced)).await.unwrap().status().is_success());
    }
    for invalid in ["", "00-1-2-3", "x"] {
        answered(api.get("/v2/queues/sampled").header("traceparent", invalid), 200).await;
    }
    let repeated = api.get("/v2/queues/repeated").header("traceparent", traceparent(TRACE, false));
    answered(repeated.header("traceparent", traceparent(TRACE, true)), 200).await;

    let repeated = collector.span("of the last request", |span| format!("{span:?}").contains("/repeated")).await;
    assert_ne!(hex(&repeated.span.trace_id), TRACE);
    let spans = format!("{:?}", collector.spans());
    assert!(!spans.contains("not-sampled"), "{spans}");
    assert!(!spans.contains("healthz") && !spans.contains("metrics"), "{spans}");
}

#[tokio::test]
async fn a_request_that_fails_because_of_the_store_is_marked() {
    let (collector, redis) = (Collector::start(), RedisServer::start());
    let sukkal = start(&redis.url(), &collector);
    let api = sukkal.project("p");
    answered(api.get("/v2/queues/q/messages"), 200).await;
    redis.kill();
    answered(api.get("/v2/queues/q"), 503).await;
    answered(api.delete("/v2/queues/q/messages?limit=x"), 400).await;

    let is_failed = |span: &Span| span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error);
    let failed = collector.span("of the failed request", is_failed).await;
    assert_eq!(failed.attribute("http.response.status_code").as_deref(), Some("503"));
    let refused = collector.span("of the refused request", |span| span.name == format!("DELETE {MESSAGES}")).await;
    assert!(!is_failed(&refused.span), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_traced_only_until_it_begins() {
    let collector = Collector::start();
    let mut sukkal = start("memory:", &collector);
    let api = sukkal.project("p");
    // The store is not asked whether a queue exists that the process knows.
    answered(api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": "first" }] })), 201).await;
    let follow = api.get("/v2/queues/q/messages?echo=true").header("traceparent", traceparent(TRACE, true));
    let mut events = Events::open(follow).await;
    for name in ["FollowMessages", &format!("GET {MESSAGES}")] {
        collector.span(name, |span| span.name == name).await;
    }
    assert_eq!(events.bodies(1).await, [json!("first")]);
    for number in 0..3 {
        answered(api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": number }] })), 201).await;
        assert_eq!(events.bodies(1).await, [json!(number)]);
    }
    sukkal.terminate();
    assert!(sukkal.wait().success());

    let spans = collector.spans();
    let mut names: Vec<_> = spans.iter().filter(|of| hex(&of.span.trace_id) == TRACE).map(|of| &of.span.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["FollowMessages", &format!("GET {MESSAGES}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_sent_when_the_service_stops() {
    let collector = Collector::start();
    let mut sukkal =
        Sukkal::start_with("memory:", &[(ENDPOINT, &collector.url()), ("OTEL_BSP_SCHEDULE_DELAY", "3600000")]);
    answered(sukkal.project("p").get("/v2/queues/q"), 200).await;
    assert_eq!(collector.spans().len(), 0);

    sukkal.terminate();

    assert!(sukkal.wait().success());
    let spans = collector.spans();
    assert_eq!(spans.iter().filter(|received| received.span.name == "GetQueue").count(), 1, "{spans:?}");
}

/// Returns the number of log lines that contain a text.
fn logged(sukkal: &Sukkal, text: &str) -> usize {
    sukkal.log().iter().filter(|line| line.contains(text)).count()
}

#[tokio::test]
async fn a_collector_that_cannot_be_reached_blocks_nothing_and_is_logged_once() {
    let listener = ports::listen();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sukkal = Sukkal::start_with("memory:", &[(ENDPOINT, &format!("http://{address}/")), DELAY]);
    let api = sukkal.project("p");
    let read = async |count: usize| {
        for _ in 0..count {
            let began = Instant::now();
            answered(api.get("/v2/queues/q"), 200).await;
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        }
    };

    // More spans than the queue holds.
    read(1_500).await;
    block_until("the failure is logged", || logged(&sukkal, "cannot send traces") > 0);
    read(100).await;
    assert_eq!(logged(&sukkal, "cannot send traces"), 1);
    let collector = Collector::on(std::net::TcpListener::bind(address).expect("the port is still free"));
    read(10).await;
    collector.span("of a request", |span| span.name == "GetQueue").await;
    block_until("that is logged", || logged(&sukkal, "the collector answers again") == 1);
    assert_eq!(logged(&sukkal, "cannot send traces"), 1);
}

#[tokio::test]
async fn a_collector_that_never_answers_delays_neither_requests_nor_the_end() {
    let silent = ports::listen();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut sukkal = Sukkal::start_with("memory:", &[(ENDPOINT, &url), DELAY]);
    for _ in 0..200 {
        assert_eq!(send(sukkal.project("p").get("/v2/queues/q")).await.status, 200);
    }

    let began = Instant::now();
    sukkal.terminate();
    assert!(sukkal.wait().success());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Returns whether a process has the thread that sends spans.
fn sends_spans(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default());
    names.into_iter().any(|name| name.starts_with("OpenTelemetry"))
}

#[tokio::test]
async fn nothing_is_traced_unless_a_collector_is_named() {
    let collector = Collector::start();
    let (traced, untraced) = (start("memory:", &collector), Sukkal::start("memory:"));
    answered(untraced.project("p").get("/v2/queues/q").header("traceparent", traceparent(TRACE, true)), 200).await;

    assert!(sends_spans(traced.id()) && !sends_spans(untraced.id()));
    assert_eq!(logged(&untraced, "traces"), 0);
}
