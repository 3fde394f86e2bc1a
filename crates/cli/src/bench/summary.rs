//! The results of a run as figures.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use super::options::Options;
use super::run::Measured;
use super::stats::{Kind, float};

/// Points of a latency curve for each halving of the share of slower requests.
const POINTS_PER_HALF: u32 = 12;

/// The figures of a run. `--json` prints them as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) url: String,
    /// The time measured.
    pub(super) seconds: f64,
    pub(super) kinds: Vec<KindSummary>,
    /// Processor time of this process for each request, in microseconds.
    pub(super) client_cpu_us_per_request: Option<f64>,
}

/// The figures of one kind of request.
#[derive(Debug, Serialize)]
pub(super) struct KindSummary {
    pub(super) kind: &'static str,
    pub(super) connections: usize,
    /// Number of requests answered with 2xx in the time measured. Messages, rates and throughput
    /// count only these.
    pub(super) requests: u64,
    pub(super) messages: u64,
    /// Number of responses without a message.
    pub(super) empty: u64,
    /// Number of failed requests by status or reason.
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) requests_per_second: f64,
    pub(super) messages_per_second: f64,
    /// `None` if no request was answered.
    pub(super) latency_ms: Option<Latency>,
    /// Number of requests in each second.
    pub(super) throughput: Vec<u64>,
    /// Points of the latency curve: one in 10 to the power of the first number of requests took
    /// longer than the second number of milliseconds.
    #[serde(skip)]
    pub(super) curve: Vec<(f64, f64)>,
}

/// Names and values of the figures about latency, in milliseconds.
#[derive(Debug)]
pub(super) struct Latency(pub(super) [(&'static str, f64); 6]);

impl Summary {
    pub(super) fn new(options: &Options, measured: &Measured) -> Self {
        let mut kinds = Vec::new();
        for (kind, connections) in options.connections() {
            kinds.push(KindSummary::new(kind, connections, measured));
            if kind == Kind::Claim {
                kinds.push(KindSummary::new(Kind::Delete, connections, measured));
            }
        }
        let requests: u64 = kinds.iter().map(|kind| kind.requests + kind.errors.values().sum::<u64>()).sum();
        let microseconds = measured.processor_time.as_secs_f64() * 1e6;
        Self {
            url: options.url_text(),
            seconds: rounded(measured.time.as_secs_f64()),
            kinds,
            client_cpu_us_per_request: (requests > 0).then(|| rounded(microseconds / float(requests))),
        }
    }

    /// Whether any request was answered with 2xx, also after the end of the run.
    pub(super) fn has_successes(&self) -> bool {
        self.kinds.iter().any(|kind| kind.latency_ms.is_some())
    }

    /// Returns the summary as one line of JSON.
    pub(super) fn json(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}

impl KindSummary {
    fn new(kind: Kind, connections: usize, measured: &Measured) -> Self {
        let stats = &measured.stats[kind as usize];
        let requests = stats.throughput.iter().sum();
        // Seconds without a response count, too.
        let mut throughput = stats.throughput.clone();
        let seconds = usize::try_from(measured.time.as_nanos().div_ceil(1_000_000_000)).unwrap_or_default();
        throughput.resize(seconds.max(throughput.len()), 0);
        Self {
            kind: kind.name(),
            connections,
            requests,
            messages: stats.messages,
            empty: stats.empty,
            errors: stats.errors.clone(),
            requests_per_second: per_second(requests, measured.time),
            messages_per_second: per_second(stats.messages, measured.time),
            latency_ms: Latency::new(&stats.latency),
            throughput,
            curve: curve(&stats.latency),
        }
    }

    /// The share of responses without a message, from 0 to 1.
    pub(super) fn empty_share(&self) -> f64 {
        float(self.empty) / float(self.requests.max(1))
    }
}

impl Latency {
    fn new(latency: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| float(latency.value_at_quantile(quantile));
        let figures = [
            ("mean", latency.mean()),
            ("stdev", latency.stdev()),
            ("p50", at(0.5)),
            ("p99", at(0.99)),
            ("p99.9", at(0.999)),
            ("max", at(1.0)),
        ];
        (!latency.is_empty()).then(|| Self(figures.map(|(name, value)| (name, milliseconds(value)))))
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0)
    }
}

/// The latency curve from the fastest request to the slowest, whose percentile is that of one
/// request among all.
fn curve(latency: &Histogram<u64>) -> Vec<(f64, f64)> {
    let nines_max = float(latency.len()).log10();
    let nines = |quantile: f64| (-(1.0 - quantile).log10()).clamp(0.0, nines_max);
    let points = latency.iter_quantiles(POINTS_PER_HALF);
    points.map(|point| (nines(point.quantile_iterated_to()), milliseconds(float(point.value_iterated_to())))).collect()
}

fn per_second(n: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { rounded(float(n) / time.as_secs_f64()) }
}

fn milliseconds(nanoseconds: f64) -> f64 {
    rounded(nanoseconds / 1e6)
}

/// Rounds to a thousandth.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use clap::Parser;
    use serde_json::{Value, json};

    use super::super::connection::LoadFailure;
    use super::super::stats::{Stats, Window};
    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    /// The summary of two seconds in which 1,000 posts of 2 messages took 1 ms to 1,000 ms, and 3
    /// failed.
    fn summary() -> Summary {
        let options = Command::parse_from(["bench", "http://h:1/", "--produce", "3", "--claim", "2"]).options;
        let window = Window::new(Instant::now(), Duration::ZERO, Duration::from_secs(2));
        let mut stats = Kind::ALL.map(|_| Stats::new());
        let produce = &mut stats[Kind::Produce as usize];
        for milliseconds in 1..=1_000 {
            let due = window.start + Duration::from_millis(1_000 - milliseconds / 2);
            produce.record(&window, due, due + Duration::from_millis(milliseconds), Ok(2));
        }
        for failure in [LoadFailure::Status(503), LoadFailure::Timeout, LoadFailure::Status(503)] {
            produce.record(&window, window.start, window.end, Err(&failure));
        }
        let (time, processor_time) = (Duration::from_secs(2), Duration::from_micros(10_030));
        Summary::new(&options, &Measured { time, stats, processor_time, queues_left: Vec::new() })
    }

    #[test]
    fn figures_count_successful_requests_and_claims_come_with_deletes() {
        let summary: Value = serde_json::from_str(&summary().json().unwrap()).unwrap();
        let kinds = summary["kinds"].as_array().unwrap();

        let mut produce = kinds[0].clone();
        let latency = produce["latency_ms"].take();
        assert_eq!(
            produce,
            json!({
                "kind": "produce", "connections": 3, "requests": 1_000, "messages": 2_000, "empty": 0,
                "errors": {"503": 2, "timeout": 1}, "requests_per_second": 500.0, "messages_per_second": 1_000.0,
                "latency_ms": null, "throughput": [0, 1_000],
            })
        );
        let expected =
            [("mean", 500.5), ("stdev", 288.675), ("p50", 500.0), ("p99", 990.0), ("p99.9", 999.0), ("max", 1_000.0)];
        for ((name, figure), (expected_name, expected)) in latency.as_object().unwrap().iter().zip(expected) {
            let is_near = (figure.as_f64().unwrap() / expected - 1.0).abs() < 0.002;
            assert!(name == expected_name && is_near, "{name} is {figure}, not {expected}");
        }
        assert_eq!(summary["client_cpu_us_per_request"], 10.0);
        assert_eq!(summary["url"], "http://h:1");
        assert_eq!(kinds[1]["kind"], "claim");
        assert_eq!(
            kinds[2],
            json!({
                "kind": "delete", "connections": 2, "requests": 0, "messages": 0, "empty": 0, "errors": {},
                "requests_per_second": 0.0, "messages_per_second": 0.0, "latency_ms": null, "throughput": [0, 0],
            })
        );
    }

    #[test]
    fn a_curve_begins_with_the_fastest_request_and_ends_with_the_slowest() {
        let curve = &summary().kinds[0].curve;
        let (first, last) = (curve[0], curve[curve.len() - 1]);

        assert!(first.0.abs() < 0.01 && (first.1 - 1.0).abs() < 0.01, "{first:?}");
        assert!((last.0 - 3.0).abs() < 1e-9 && (last.1 - 1_000.0).abs() < 1.0, "{last:?}");
        assert!(curve.is_sorted());
    }
}
