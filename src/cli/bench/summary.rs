//! The results of a run as figures.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::options::Options;
use super::run::Measured;
use super::stats::{Kind, RequestStats};

const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;
/// Points of a latency curve for each additional nine of its percentiles (90 %, 99 %, …).
const POINTS_PER_NINE: u32 = 40;

/// The figures of a run. `--json` prints them as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    url: String,
    /// The time measured.
    pub(super) seconds: f64,
    pub(super) kinds: Vec<KindSummary>,
    /// Processor time of this process for each request, in microseconds.
    pub(super) client_cpu_us_per_request: Option<f64>,
    /// Number of successful requests of all kinds.
    #[serde(skip)]
    pub(super) succeeded: u64,
}

/// The figures of one kind of request.
#[derive(Debug, Serialize)]
pub(super) struct KindSummary {
    pub(super) kind: Kind,
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
    #[serde(skip)]
    pub(super) curve: Vec<Point>,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) stdev: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    #[serde(rename = "p99.9")]
    pub(super) p999: f64,
    pub(super) max: f64,
}

/// A point of a latency curve: one in 10 to the power of `nines` requests took longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) nines: f64,
    pub(super) latency_ms: f64,
}

impl Summary {
    pub(super) fn new(options: &Options, measured: &Measured) -> Self {
        let mut kinds = Vec::new();
        for (kind, connections) in options.connections() {
            let mut add = |kind| kinds.push(KindSummary::new(kind, connections, measured));
            add(kind);
            if kind == Kind::Claim {
                add(Kind::Delete);
            }
        }
        let requests: u64 = kinds.iter().map(|kind| kind.requests + kind.errors.values().sum::<u64>()).sum();
        let microseconds = measured.processor_time.as_secs_f64() * 1e6;
        Self {
            url: options.url().to_string(),
            seconds: rounded(measured.time.as_secs_f64()),
            kinds,
            client_cpu_us_per_request: (requests > 0).then(|| rounded(microseconds / float(requests))),
            succeeded: measured.stats.iter().map(|stats| stats.latency.len()).sum(),
        }
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
        Self {
            kind,
            connections,
            requests,
            messages: stats.messages,
            empty: stats.empty,
            errors: stats.errors.iter().map(|(failure, requests)| (failure.to_string(), *requests)).collect(),
            requests_per_second: per_second(requests, measured.time),
            messages_per_second: per_second(stats.messages, measured.time),
            latency_ms: Latency::new(&stats.latency),
            throughput: throughput(stats, measured.time),
            curve: curve(&stats.latency),
        }
    }

    /// The share of responses without a message, from 0 to 1.
    pub(super) fn empty_share(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { float(self.empty) / float(self.requests) }
    }
}

impl Latency {
    fn new(latency: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| milliseconds(float(latency.value_at_quantile(quantile)));
        (!latency.is_empty()).then(|| Self {
            mean: milliseconds(latency.mean()),
            stdev: milliseconds(latency.stdev()),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        })
    }
}

/// The number of requests in each second, including seconds without a response.
fn throughput(stats: &RequestStats, time: Duration) -> Vec<u64> {
    let seconds = usize::try_from(time.as_secs() + u64::from(time.subsec_nanos() > 0)).unwrap_or_default();
    let counts = stats.throughput.iter().copied().chain(std::iter::repeat(0));
    counts.take(seconds.max(stats.throughput.len())).collect()
}

/// The latency curve from the fastest request to the slowest, whose percentile is that of one
/// request among all.
fn curve(latency: &Histogram<u64>) -> Vec<Point> {
    let nines_max = float(latency.len()).log10();
    let steps = (0..).map(|n| f64::from(n) / f64::from(POINTS_PER_NINE)).take_while(|nines| *nines < nines_max);
    let quantiles = steps.map(|nines| (nines, 1.0 - 10_f64.powf(-nines)));
    let all = quantiles.chain((!latency.is_empty()).then_some((nines_max, 1.0)));
    let point = |(nines, quantile)| {
        let latency_ms = milliseconds(float(latency.value_at_quantile(quantile)));
        Point { nines, latency_ms }
    };
    all.map(point).collect()
}

fn per_second(n: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { rounded(float(n) / time.as_secs_f64()) }
}

fn milliseconds(nanoseconds: f64) -> f64 {
    rounded(nanoseconds / NANOSECONDS_PER_MILLISECOND)
}

/// Rounds to a thousandth.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "figures have fewer digits than a float")]
pub(super) fn float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use clap::Parser;
    use serde_json::json;

    use super::super::connection::Failure;
    use super::super::stats::Window;
    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    /// The summary of two seconds in which 1,000 posts of 2 messages took 1 ms to 1,000 ms, and 3
    /// failed.
    fn summary(flags: &[&str]) -> Summary {
        let options = Command::parse_from([&["bench", "http://h:1"], flags].concat()).options;
        let window = Window::new(Instant::now(), Duration::ZERO, Duration::from_secs(2));
        let mut stats = Kind::ALL.map(|_| RequestStats::new());
        let produce = &mut stats[Kind::Produce as usize];
        for milliseconds in 1..=1_000 {
            let due = window.start + Duration::from_millis(1_000 - milliseconds / 2);
            produce.record_success(&window, due, due + Duration::from_millis(milliseconds), 2);
        }
        produce.record_failures(&window, window.end, Failure::Status(503), 2);
        produce.record_failures(&window, window.end, Failure::Timeout, 1);
        let (time, processor_time) = (Duration::from_secs(2), Duration::from_micros(10_030));
        Summary::new(&options, &Measured { time, stats, processor_time, queues_left: Vec::new() })
    }

    #[test]
    fn figures_count_successful_requests() {
        let summary = summary(&[]);
        let produce = &summary.kinds[0];
        let latency = produce.latency_ms.unwrap();

        assert_eq!((produce.requests, produce.messages, summary.succeeded), (1_000, 2_000, 1_000));
        assert_eq!(produce.throughput, [0, 1_000]);
        assert!((produce.requests_per_second - 500.0).abs() < 1e-9 && (produce.messages_per_second - 1e3).abs() < 1e-9);
        let exact = [(latency.mean, 500.5), (latency.stdev, 288.675), (latency.p50, 500.0), (latency.p99, 990.0)];
        for (figure, expected) in exact.into_iter().chain([(latency.p999, 999.0), (latency.max, 1_000.0)]) {
            assert!((figure / expected - 1.0).abs() < 0.002, "{figure}, not {expected}");
        }
        assert_eq!(summary.client_cpu_us_per_request, Some(10.0));
    }

    #[test]
    fn a_curve_begins_with_the_fastest_request_and_ends_with_the_slowest() {
        let curve = &summary(&[]).kinds[0].curve;
        let (first, last) = (curve.first().unwrap(), curve.last().unwrap());

        assert!(first.nines.abs() < 1e-9 && (first.latency_ms - 1.0).abs() < 0.01);
        assert!((last.nines - 3.0).abs() < 1e-9 && (last.latency_ms - 1_000.0).abs() < 1.0);
        assert!(curve.is_sorted_by(|a, b| a.nines < b.nines && a.latency_ms <= b.latency_ms));
    }

    #[test]
    fn claims_come_with_figures_of_their_deletes_and_without_responses_there_is_no_latency() {
        let summary: serde_json::Value =
            serde_json::from_str(&summary(&["--claim", "2", "--produce", "3"]).json().unwrap()).unwrap();

        let kinds: Vec<_> = summary["kinds"].as_array().unwrap().iter().map(|kind| &kind["kind"]).collect();
        assert_eq!(kinds, ["produce", "claim", "delete"]);
        assert_eq!(summary["kinds"][0]["errors"], json!({"503": 2, "timeout": 1}));
        assert_eq!(summary["kinds"][0]["latency_ms"].as_object().unwrap().len(), 6);
        assert_eq!(
            summary["kinds"][2],
            json!({
                "kind": "delete", "connections": 2, "requests": 0, "messages": 0, "empty": 0, "errors": {},
                "requests_per_second": 0.0, "messages_per_second": 0.0, "latency_ms": null, "throughput": [0, 0],
            })
        );
    }
}
