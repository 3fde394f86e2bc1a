//! The metrics of a process, for Prometheus. No label takes values that clients choose, so the
//! number of time series is bounded. Only the operator can add series, by listing queues.
//!
//! [`Metrics`] has what requests count as they run. [`scrape::Figures`] has what is read when the
//! metrics are requested.

mod counts;
mod process;
pub mod push;
pub mod scrape;

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use self::counts::{Closed, ConnectionCounts, LiveCount, Share};
use self::counts::{Label, PICKUP_DELAYS_S, RESULT, Total, Totals, zeros};
use self::push::PushMetrics;
use self::scrape::Figures;

/// The media type of [`Metrics::exposition`]
/// (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets for the durations of requests and operations, in seconds.
const DURATIONS_S: [f64; 15] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// The codes with which the service closes WebSockets.
const CLOSE_CODES: [u16; 9] = [1000, 1001, 1002, 1007, 1008, 1009, 1011, 1013, 4003];

/// The metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pickup_delay: Histogram,
    requests: Family<RequestLabels, Total>,
    durations: Family<Label<&'static str>, Histogram, fn() -> Histogram>,
    store_operations: Histogram,
    refused_requests: Total,
    paused_claims: Total,
    lost_audit_records: Total,
    connections: ConnectionCounts,
    closed_sockets: Totals<u16>,
    janitor_rounds: Totals<&'static str>,
    janitor_visits: Total,
    push: PushMetrics,
}

/// The metrics of one route, looked up once and then used by each of its requests.
#[derive(Clone, Debug)]
pub struct RouteMeter {
    route: &'static str,
    requests: Family<RequestLabels, Total>,
    duration: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

impl Metrics {
    /// Creates the metrics, all at zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self {
            registry: Registry::default(),
            pickup_delay: Histogram::new(PICKUP_DELAYS_S),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS_S)),
            store_operations: Histogram::new(DURATIONS_S),
            refused_requests: Total::default(),
            paused_claims: Total::default(),
            lost_audit_records: Total::default(),
            connections: ConnectionCounts::default(),
            closed_sockets: zeros(CODE, CLOSE_CODES),
            janitor_rounds: zeros(RESULT, [ROUND_DONE, ROUND_FAILED]),
            janitor_visits: Total::default(),
            push: PushMetrics::default(),
        };
        Self { registry: metrics.registry(), ..metrics }
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "sukkal_pickup_delay_seconds",
            "Seconds from when a message became available to its first claim or pop",
            self.pickup_delay.clone(),
        );
        registry.register(
            "sukkal_http_requests_total",
            "Requests answered, by method, path template and status",
            self.requests.clone(),
        );
        registry.register(
            "sukkal_http_request_duration_seconds",
            "Seconds from the request to the start of its answer, by path template, without requests that use wait",
            self.durations.clone(),
        );
        registry.register(
            "sukkal_store_operation_duration_seconds",
            "Seconds that an operation of a request was in flight in the store",
            self.store_operations.clone(),
        );
        registry.register(
            "sukkal_store_requests_refused_total",
            "Requests refused because the store could not serve them in time",
            self.refused_requests.clone(),
        );
        registry.register(
            "sukkal_paused_queue_claims_total",
            "Attempts of claims and pops to take messages from a paused queue",
            self.paused_claims.clone(),
        );
        registry.register(
            "sukkal_audit_records_lost_total",
            "Records of the audit log that could not be written",
            self.lost_audit_records.clone(),
        );
        registry.register("sukkal_http_connections", "Open connections of the API", self.connections.open.0.clone());
        registry.register(
            "sukkal_http_connections_closed_total",
            "Connections closed because of a limit, by reason",
            self.connections.closed.clone(),
        );
        registry.register(
            "sukkal_websockets_closed_total",
            "WebSockets closed by the service, by close code",
            self.closed_sockets.clone(),
        );
        registry.register(
            "sukkal_janitor_rounds_total",
            "Rounds of maintenance by this process, by result",
            self.janitor_rounds.clone(),
        );
        registry.register(
            "sukkal_janitor_queues_visited_total",
            "Queues visited by the maintenance of this process",
            self.janitor_visits.clone(),
        );
        self.push.register(&mut registry);
        let build = Family::<[(&str, &str); 1], Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("sukkal_build_info", "1, with the version", build);
        registry
    }

    /// Records the pick-up delay of messages delivered for the first time.
    pub fn record_pickup_delays(&self, delays: impl Iterator<Item = Duration>) {
        for delay in delays {
            self.pickup_delay.observe(delay.as_secs_f64());
        }
    }

    /// Records how long an operation was in flight in the store.
    pub fn record_store_operation(&self, duration: Duration) {
        self.store_operations.observe(duration.as_secs_f64());
    }

    /// Counts a request that was refused because the store is busy.
    pub fn count_refused_request(&self) {
        self.refused_requests.0.inc();
    }

    /// Counts an attempt to take messages from a paused queue.
    pub fn count_paused_claim(&self) {
        self.paused_claims.0.inc();
    }

    /// Counts a record of the audit log that could not be written.
    pub fn count_lost_audit_record(&self) {
        self.lost_audit_records.0.inc();
    }

    /// Counts a finished round of maintenance, with the number of queues visited.
    pub fn count_janitor_round(&self, visited: u64) {
        self.janitor_rounds.get_or_create(&[(RESULT, ROUND_DONE)]).0.inc();
        self.janitor_visits.0.inc_by(visited);
    }

    /// Counts a round of maintenance that could not be finished.
    pub fn count_failed_janitor_round(&self) {
        self.janitor_rounds.get_or_create(&[(RESULT, ROUND_FAILED)]).0.inc();
    }

    /// Counts a WebSocket that the service closes with this code.
    pub fn count_closed_socket(&self, code: u16) {
        self.closed_sockets.get_or_create(&[(CODE, code)]).0.inc();
    }

    /// Returns the counts of connections of the API.
    #[must_use]
    pub fn connections(&self) -> ConnectionCounts {
        self.connections.clone()
    }

    /// Returns the metrics of deliveries to subscribers.
    #[must_use]
    pub fn push(&self) -> &PushMetrics {
        &self.push
    }

    /// Returns the metrics of a route.
    #[must_use]
    pub fn route(&self, route: &'static str) -> RouteMeter {
        let duration = self.durations.get_or_create_owned(&[("route", route)]);
        RouteMeter { route, requests: self.requests.clone(), duration }
    }

    /// Returns the current values of all metrics in Prometheus' text format.
    #[must_use]
    pub fn exposition(&self, figures: Figures) -> String {
        let mut exposition = String::new();
        for registry in [&self.registry, &figures.into_registry()] {
            text::encode_registry(&mut exposition, registry).expect("a string can be written to");
        }
        exposition
    }
}

/// The label with the code with which a WebSocket was closed.
const CODE: &str = "code";
const ROUND_DONE: &str = "done";
const ROUND_FAILED: &str = "failed";

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl RouteMeter {
    /// Counts a response.
    pub fn answered(&self, method: &'static str, status: u16) {
        self.requests.get_or_create(&RequestLabels { method, route: self.route, status }).0.inc();
    }

    /// Records the duration of a request.
    pub fn took(&self, duration: Duration) {
        self.duration.observe(duration.as_secs_f64());
    }
}
