//! The requests of a test that got no usable response.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::Moment;

/// Counts requests that failed.
pub(crate) struct Failures {
    /// This many failures are an error.
    limit: usize,
    count: AtomicUsize,
    last_sent: AtomicU64,
    slowest_us: AtomicU64,
}

impl Failures {
    pub(crate) fn below(limit: usize) -> Self {
        Self { limit, count: AtomicUsize::new(0), last_sent: AtomicU64::new(0), slowest_us: AtomicU64::new(0) }
    }

    /// Records a request that was sent and failed at these times, in microseconds.
    pub(crate) fn record(&self, sent: u64, failed: u64, reason: &str) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(count < self.limit, "{count} requests failed, the last with {reason}");
        self.slowest_us.fetch_max(failed - sent, Ordering::Relaxed);
        self.last_sent.fetch_max(sent, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns when the last of the failed requests was sent, in microseconds.
    pub(crate) fn last_sent(&self) -> u64 {
        self.last_sent.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, slowest_us) = (self.count(), self.slowest_us.load(Ordering::Relaxed));
        write!(f, "{count} requests without a response, the slowest of which failed after {} s", Moment(slowest_us))
    }
}
