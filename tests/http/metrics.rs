//! `/metrics`: the counters and histograms of a process. Each test has its own process, which no
//! other test sends requests to.

use std::sync::Arc;

use reqwest::Method;
use serde_json::json;

use super::{Project, Server, answered, send};
use support::events::Events;
use support::exposition::Exposition;

const REQUESTS: &str = "sukkal_http_requests_total";
const DURATIONS: &str = "sukkal_http_request_duration_seconds";
const PICKUPS: &str = "sukkal_pickup_delay_seconds";

const QUEUE: &str = "/v2/queues/{queue_name}";
const MESSAGES: &str = "/v2/queues/{queue_name}/messages";
const CLAIMS: &str = "/v2/queues/{queue_name}/claims";

/// Returns a new project on a server that only one test uses.
fn project_on_own_server() -> Project {
    Project::of(&Arc::new(Server::start_movable(&[])), &format!("project-{}", uuid::Uuid::new_v4()))
}

impl Project {
    async fn metrics(&self) -> Exposition {
        Exposition::of(&self.server.sukkal.url("")).await
    }

    /// Returns the number of recorded pick-ups.
    async fn pickup_count(&self) -> Option<f64> {
        self.metrics().await.value(&format!("{PICKUPS}_count"))
    }
}

/// Returns the number of requests that the histogram of a route has recorded.
fn timed_count(metrics: &Exposition, route: &str) -> Option<f64> {
    metrics.value(&format!("{DURATIONS}_count{{route=\"{route}\"}}"))
}

#[tokio::test]
async fn metrics_need_no_headers_and_have_the_prometheus_format() {
    let api = project_on_own_server();
    api.create("q", &json!({})).await;
    // Prometheus sends this header, which does not accept JSON.
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

    let answer = answered(api.bare(Method::GET, "/metrics").header("Accept", accept), 200).await;
    answered(api.bare(Method::GET, "/metrics").header("Accept", "text/plain"), 200).await;

    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let metrics = Exposition::read(&answer.text);
    let kinds = [
        ("process_cpu_seconds_total", "counter"),
        ("process_max_fds", "gauge"),
        ("process_open_fds", "gauge"),
        ("process_resident_memory_bytes", "gauge"),
        ("process_start_time_seconds", "gauge"),
        ("process_virtual_memory_bytes", "gauge"),
        ("sukkal_audit_records_lost_total", "counter"),
        ("sukkal_build_info", "gauge"),
        ("sukkal_event_streams", "gauge"),
        ("sukkal_http_connections", "gauge"),
        ("sukkal_http_connections_closed_total", "counter"),
        (DURATIONS, "histogram"),
        (REQUESTS, "counter"),
        ("sukkal_janitor_queues_visited_total", "counter"),
        ("sukkal_janitor_rounds_total", "counter"),
        ("sukkal_messages_claimed_total", "counter"),
        ("sukkal_messages_dead_lettered_total", "counter"),
        ("sukkal_messages_deleted_total", "counter"),
        ("sukkal_messages_expired_total", "counter"),
        ("sukkal_messages_posted_total", "counter"),
        ("sukkal_paused_queue_claims_total", "counter"),
        (PICKUPS, "histogram"),
        ("sukkal_push_attempts_total", "counter"),
        ("sukkal_push_delay_seconds", "histogram"),
        ("sukkal_push_in_flight", "gauge"),
        ("sukkal_push_pending", "gauge"),
        ("sukkal_queue_figures_missing", "gauge"),
        ("sukkal_store_disk_full", "gauge"),
        ("sukkal_store_operation_duration_seconds", "histogram"),
        ("sukkal_store_operations_in_flight", "gauge"),
        ("sukkal_store_requests_refused_total", "counter"),
        ("sukkal_store_requests_waiting", "gauge"),
        ("sukkal_store_up", "gauge"),
        ("sukkal_waiting_requests", "gauge"),
        ("sukkal_websockets_closed_total", "counter"),
    ];
    let kinds = kinds.map(|(metric, kind)| (metric.to_owned(), kind.to_owned()));
    assert_eq!(Vec::from_iter(metrics.kinds.clone()), kinds);
    let build = format!("sukkal_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(metrics.value(&build), Some(1.0));
}

#[tokio::test]
async fn responses_are_counted_by_method_route_and_status() {
    let api = project_on_own_server();
    let name = "a-name-that-no-route-has";
    let path = format!("/v2/queues/{name}");
    for status in [201, 204, 204] {
        answered(api.put(&path).json(&json!({})), status).await;
    }
    answered(api.request("BREW".parse().unwrap(), &path), 405).await;
    answered(api.get(&format!("{path}/messages?limit=99")), 400).await;
    answered(api.request(Method::HEAD, "/v2/ping"), 204).await;
    answered(api.bare(Method::GET, "/v2/ping"), 400).await;
    answered(api.get("/v2/queues/"), 400).await;
    for nowhere in ["/nowhere", "/v2/nowhere/at/all"] {
        answered(api.get(nowhere), 404).await;
    }
    answered(api.bare(Method::GET, "/metrics"), 200).await;

    let answer = answered(api.bare(Method::GET, "/metrics"), 200).await;

    let expected = [
        ("GET", "/metrics", "200", 1.0),
        ("GET", "/v2/ping", "400", 1.0),
        ("GET", "/v2/queues/", "400", 1.0),
        ("GET", MESSAGES, "400", 1.0),
        ("GET", "none", "404", 2.0),
        ("HEAD", "/v2/ping", "204", 1.0),
        ("PUT", QUEUE, "201", 1.0),
        ("PUT", QUEUE, "204", 2.0),
        ("other", QUEUE, "405", 1.0),
    ];
    let expected = expected.map(|(method, route, status, count)| {
        let labels = [("method", method), ("route", route), ("status", status)];
        (labels.map(|(label, value)| (label.to_owned(), value.to_owned())).to_vec(), count)
    });
    assert_eq!(Vec::from_iter(Exposition::read(&answer.text).all(REQUESTS)), expected);
    for word in [name, "nowhere", &api.id, "BREW"] {
        assert!(!answer.text.contains(word), "{word} is in {}", answer.text);
    }
}

#[tokio::test]
async fn requests_are_timed_by_route() {
    let api = project_on_own_server();
    api.post_bodies("q", &[json!(1)]).await;
    for _ in 0..3 {
        answered(api.get("/v2/queues/q/messages"), 200).await;
    }
    send(api.get("/nowhere")).await;

    let metrics = api.metrics().await;

    assert_eq!(timed_count(&metrics, MESSAGES), Some(4.0));
    assert_eq!(timed_count(&metrics, "none"), Some(1.0));
    assert_eq!(timed_count(&metrics, CLAIMS), Some(0.0));
    let seconds = metrics.value(&format!("{DURATIONS}_sum{{route=\"{MESSAGES}\"}}")).unwrap();
    assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
}

#[tokio::test]
async fn requests_with_wait_are_counted_and_not_timed() {
    let api = project_on_own_server();
    answered(api.post("/v2/queues/q/claims?wait=0", &json!({})), 204).await;
    answered(api.post("/v2/queues/q/claims?wait=1", &json!({})), 204).await;
    answered(api.post("/v2/queues/q/claims?wait=x", &json!({})), 400).await;

    let metrics = api.metrics().await;

    assert_eq!(metrics.all(REQUESTS).into_values().collect::<Vec<_>>(), [2.0, 1.0], "204 twice, and 400 once");
    assert_eq!(timed_count(&metrics, CLAIMS), Some(2.0));
}

#[tokio::test]
async fn an_event_stream_is_counted_when_it_begins() {
    let api = project_on_own_server();
    let _open = Events::open(api.get("/v2/queues/q/messages")).await;

    let metrics = api.metrics().await;

    let requests = format!("{REQUESTS}{{method=\"GET\",route=\"{MESSAGES}\",status=\"200\"}}");
    assert_eq!(metrics.value(&requests), Some(1.0));
    assert_eq!(timed_count(&metrics, MESSAGES), Some(1.0));
}

#[tokio::test]
async fn claims_and_pops_of_a_paused_queue_are_counted() {
    let api = project_on_own_server();
    api.post_bodies("q", &[json!(1)]).await;
    answered(api.request(Method::POST, "/v2/queues/q/pause"), 204).await;

    answered(api.post("/v2/queues/q/claims", &json!({})), 204).await;
    answered(api.delete("/v2/queues/q/messages?pop=1"), 200).await;
    answered(api.post("/v2/queues/empty/claims", &json!({})), 204).await;

    assert_eq!(api.metrics().await.value("sukkal_paused_queue_claims_total"), Some(2.0));
}

#[tokio::test]
async fn a_pick_up_is_recorded_only_at_the_first_delivery() {
    let api = project_on_own_server();
    api.post_bodies("q", &[json!(1), json!(2), json!(3)]).await;
    assert_eq!(api.pickup_count().await, Some(0.0));

    let claim = api.claim(2).await;
    assert_eq!(api.pickup_count().await, Some(2.0));
    answered(api.get(&claim.path), 200).await;
    answered(api.delete(&claim.path), 204).await;
    api.claim(1).await;
    assert_eq!(api.pickup_count().await, Some(2.0), "claimed before");
    answered(api.delete("/v2/queues/q/messages?pop=2"), 200).await;
    assert_eq!(api.pickup_count().await, Some(3.0), "one of the two was claimed before");
}

#[tokio::test]
async fn the_pick_up_delay_runs_from_the_time_a_message_became_available() {
    let api = project_on_own_server();
    api.create("q", &json!({ "_default_message_delay": 100 })).await;
    api.set_clock_ahead(0).await;
    api.post_messages("q", &json!([{ "body": "delayed", "ttl": 3600 }])).await;
    api.post_messages("q", &json!([{ "body": "there", "ttl": 3600, "delay": 0 }])).await;

    // The clock is 300 s after the delayed message became due, and 400 s after both posts.
    api.set_clock_ahead(400).await;
    api.claim(1).await;
    let seconds = api.metrics().await.value(&format!("{PICKUPS}_sum")).unwrap();
    assert!((400.0..410.0).contains(&seconds), "{seconds}");
    answered(api.delete("/v2/queues/q/messages?pop=1"), 200).await;

    let metrics = api.metrics().await;

    let seconds = metrics.value(&format!("{PICKUPS}_sum")).unwrap();
    assert!((700.0..720.0).contains(&seconds), "{seconds}");
    let up_to = |bound: &str| metrics.value(&format!("{PICKUPS}_bucket{{le=\"{bound}\"}}"));
    assert_eq!((up_to("60.0"), up_to("900.0")), (Some(0.0), Some(2.0)));
}

#[tokio::test]
async fn pick_up_delays_have_buckets_from_a_millisecond_to_an_hour() {
    let metrics = project_on_own_server().metrics().await;

    let buckets = metrics.all(&format!("{PICKUPS}_bucket"));
    let mut bounds: Vec<f64> = buckets.keys().map(|labels| labels[0].1.parse().unwrap()).collect();

    bounds.sort_unstable_by(f64::total_cmp);
    assert_eq!((bounds[0], bounds[bounds.len() - 2]), (0.001, 3600.0));
    assert!(bounds.is_sorted_by(|one, next| next / one > 1.5), "{bounds:?}");
}
