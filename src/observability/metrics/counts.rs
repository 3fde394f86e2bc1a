//! Counters and gauges in the form that Prometheus' text format needs.

use std::fmt;
use std::hash::Hash;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Upper bounds of the buckets for pick-up delays, in seconds.
pub(super) const PICKUP_DELAYS_S: [f64; 18] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

/// The label with the result of a round or an attempt.
pub(super) const RESULT: &str = "result";
/// The label with the reason why a connection was closed.
const REASON: &str = "reason";

/// The number of things that exist now. Clones count the same things.
#[derive(Clone, Debug, Default)]
pub struct LiveCount(pub(super) Gauge);

/// The numbers of open connections, and of those that the server has closed because of a limit.
/// Clones count the same connections.
#[derive(Clone, Debug)]
pub struct ConnectionCounts {
    pub(super) open: LiveCount,
    pub(super) closed: Totals<&'static str>,
}

/// Why the server closes a connection.
#[derive(Clone, Copy, Debug)]
pub enum Closed {
    /// A new connection takes its place.
    Replaced,
    /// The client is too slow: it does not send the head of a request, or does not accept a
    /// response.
    Slow,
    /// The client resets too many requests over HTTP/2.
    Flood,
}

/// A counter that has the same name in all its lines, as Prometheus' format requires. The library
/// writes `OpenMetrics`, in which only samples have the suffix `_total`. The two formats do not
/// differ otherwise here.
#[derive(Clone, Debug, Default)]
pub(super) struct Total(pub(super) Counter);

/// A label with its name and its value.
pub(super) type Label<V> = [(&'static str, V); 1];

/// Counters that differ in the value of one label.
pub(super) type Totals<V> = Family<Label<V>, Total>;

/// Returns counters with these values of the label, all at zero.
pub(super) fn zeros<V: Clone + Eq + Hash>(label: &'static str, values: impl IntoIterator<Item = V>) -> Totals<V> {
    let totals = Totals::default();
    for value in values {
        drop(totals.get_or_create(&[(label, value)]));
    }
    totals
}

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

impl LiveCount {
    /// Counts one more thing, until the result is dropped.
    #[must_use]
    pub fn count(&self) -> Share {
        let mut one = Share::of(&self.0);
        one.set(1);
        one
    }
}

impl ConnectionCounts {
    /// Counts one more connection as open, until the result is dropped.
    #[must_use]
    pub fn count(&self) -> Share {
        self.open.count()
    }

    /// Counts a connection that the server closes.
    pub fn closed(&self, reason: Closed) {
        self.closed.get_or_create(&[(REASON, reason.label())]).0.inc();
    }
}

impl Default for ConnectionCounts {
    fn default() -> Self {
        let reasons = [Closed::Replaced, Closed::Slow, Closed::Flood];
        Self { open: LiveCount::default(), closed: zeros(REASON, reasons.map(Closed::label)) }
    }
}

impl Closed {
    fn label(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Slow => "slow",
            Self::Flood => "flood",
        }
    }
}

/// A number that is added to a gauge, until it is dropped.
#[derive(Debug)]
pub struct Share {
    gauge: Gauge,
    value: i64,
}

impl Share {
    pub(super) fn of(gauge: &Gauge) -> Self {
        Self { gauge: gauge.clone(), value: 0 }
    }

    /// Replaces the number.
    pub fn set(&mut self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.gauge.inc_by(value - self.value);
        self.value = value;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
