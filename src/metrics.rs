//! The metrics of a process, for Prometheus. No label takes values that clients choose, so the
//! number of time series is bounded.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

/// The media type of [`Metrics::exposition`]
/// (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets for pick-up delays, in seconds.
const PICKUP_DELAYS_S: [f64; 18] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];
/// Upper bounds of the buckets for the durations of requests, in seconds.
const DURATIONS_S: [f64; 15] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// The metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pickup_delay: Histogram,
    requests: Family<RequestLabels, Total>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    operations_in_flight: Gauge,
    requests_waiting: Gauge,
    disk_full: Gauge,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// A counter that has the same name in all its lines, as Prometheus' format requires. The library
/// writes `OpenMetrics`, in which only samples have the suffix `_total`. The two formats do not
/// differ otherwise here.
#[derive(Clone, Debug, Default)]
struct Total(Counter);

impl EncodeMetric for Total {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Total {
    const TYPE: MetricType = MetricType::Counter;
}

impl Metrics {
    /// Creates the metrics, all at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let pickup_delay = Histogram::new(PICKUP_DELAYS_S);
        let requests = Family::default();
        let durations: Family<RouteLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(DURATIONS_S));
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);

        registry.register(
            "sukkal_pickup_delay_seconds",
            "Seconds from when a message became available to its first claim or pop",
            pickup_delay.clone(),
        );
        registry.register(
            "sukkal_http_requests_total",
            "Requests answered, by method, path template and status",
            requests.clone(),
        );
        registry.register(
            "sukkal_http_request_duration_seconds",
            "Seconds from the request to the start of its answer, by path template, without requests that use wait",
            durations.clone(),
        );
        let (operations_in_flight, requests_waiting) = (Gauge::default(), Gauge::default());
        registry.register(
            "sukkal_store_operations_in_flight",
            "Operations of requests that are in flight in the store",
            operations_in_flight.clone(),
        );
        registry.register(
            "sukkal_store_requests_waiting",
            "Requests that wait until the store can serve them",
            requests_waiting.clone(),
        );
        let disk_full = Gauge::default();
        registry.register(
            "sukkal_store_disk_full",
            "1 if the disk of the store is full, otherwise 0",
            disk_full.clone(),
        );
        registry.register("sukkal_build_info", "1, with the version", build);
        Self { registry, pickup_delay, requests, durations, operations_in_flight, requests_waiting, disk_full }
    }

    /// Records the number of operations in flight and of requests that wait for the store.
    pub fn set_store_load(&self, in_flight: usize, waiting: usize) {
        self.operations_in_flight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
        self.requests_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Records whether the store's disk is full.
    pub fn set_store_disk_full(&self, is_full: bool) {
        self.disk_full.set(is_full.into());
    }

    /// Records the pick-up delay of messages delivered for the first time.
    pub fn record_pickup_delays(&self, delays: impl Iterator<Item = Duration>) {
        for delay in delays {
            self.pickup_delay.observe(delay.as_secs_f64());
        }
    }

    /// Returns the metrics of a route.
    #[must_use]
    pub fn route(&self, route: &'static str) -> RouteMeter {
        let duration = self.durations.get_or_create_owned(&RouteLabels { route });
        RouteMeter { route, requests: self.requests.clone(), duration }
    }

    /// Returns the current values of all metrics in Prometheus' text format.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut exposition = String::new();
        text::encode_registry(&mut exposition, &self.registry).expect("a string can be written to");
        exposition
    }
}

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
