//! What deliveries to subscribers count.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::counts::{Counted, LiveCount, PICKUP_DELAYS_S, Share, Total};

const DELIVERED: &str = "delivered";
const FAILED: &str = "failed";

/// The metrics of deliveries to subscribers.
#[derive(Debug)]
pub struct PushMetrics {
    attempts: Family<AttemptLabels, Total>,
    delay: Histogram,
    in_flight: LiveCount,
    pending: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    result: &'static str,
}

impl Default for PushMetrics {
    fn default() -> Self {
        let attempts = Family::<AttemptLabels, Total>::default();
        for result in [DELIVERED, FAILED] {
            drop(attempts.get_or_create(&AttemptLabels { result }));
        }
        Self {
            attempts,
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
    pub fn begin_attempt(&self) -> Counted {
        self.in_flight.count()
    }

    /// Returns a number of deliveries that are pending, at first 0.
    #[must_use]
    pub fn pending(&self) -> Share {
        Share::of(&self.pending)
    }

    /// Counts a successful attempt for a message that became visible this long ago.
    pub fn count_delivered(&self, delay: Duration) {
        self.attempts.get_or_create(&AttemptLabels { result: DELIVERED }).0.inc();
        self.delay.observe(delay.as_secs_f64());
    }

    /// Counts a failed attempt.
    pub fn count_failed(&self) {
        self.attempts.get_or_create(&AttemptLabels { result: FAILED }).0.inc();
    }
}
