//! What deliveries to subscribers count.

use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::counts::{LiveCount, PICKUP_DELAYS_S, RESULT, Share, Totals, zeros};

const DELIVERED: &str = "delivered";
const FAILED: &str = "failed";

/// The metrics of deliveries to subscribers.
#[derive(Debug)]
pub struct PushMetrics {
    attempts: Totals<&'static str>,
    delay: Histogram,
    in_flight: LiveCount,
    pending: Gauge,
}

impl Default for PushMetrics {
    fn default() -> Self {
        Self {
            attempts: zeros(RESULT, [DELIVERED, FAILED]),
            delay: Histogram::new(PICKUP_DELAYS_S),
            in_flight: LiveCount::default(),
            pending: Gauge::default(),
        }
    }
}

impl PushMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "sukkal_push_attempts_total",
            "Attempts to notify subscribers, by result",
            self.attempts.clone(),
        );
        registry.register(
            "sukkal_push_delay_seconds",
            "Seconds from when a message became visible to its delivery to a subscriber",
            self.delay.clone(),
        );
        registry.register("sukkal_push_in_flight", "Requests to subscribers in flight", self.in_flight.0.clone());
        registry.register(
            "sukkal_push_pending",
            "Deliveries not done yet in the queues on which this process works, those that wait for a retry included",
            self.pending.clone(),
        );
    }

    /// Counts an attempt as in flight until the result is dropped.
    #[must_use]
    pub fn begin_attempt(&self) -> Share {
        self.in_flight.count()
    }

    /// Returns a number of deliveries that are pending, at first 0.
    #[must_use]
    pub fn pending(&self) -> Share {
        Share::of(&self.pending)
    }

    /// Counts a successful attempt for a message that became visible this long ago.
    pub fn count_delivered(&self, delay: Duration) {
        self.attempts.get_or_create(&[(RESULT, DELIVERED)]).0.inc();
        self.delay.observe(delay.as_secs_f64());
    }

    /// Counts a failed attempt.
    pub fn count_failed(&self) {
        self.attempts.get_or_create(&[(RESULT, FAILED)]).0.inc();
    }
}
