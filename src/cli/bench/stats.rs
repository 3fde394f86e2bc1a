//! The statistics of a run. Each thread has its own for each kind of request, so no thread waits
//! for a lock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::connection::Failure;

/// The longest latency that is recorded; longer ones count as this one.
const LATENCY_MAX: Duration = Duration::from_secs(3_600);
/// Significant digits of recorded latencies, which are in nanoseconds.
const DIGITS: u8 = 3;

/// A kind of request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Produce,
    Observe,
    Claim,
    /// Deletes claimed messages.
    Delete,
}

impl Kind {
    /// All kinds, in the order in which they are shown.
    pub(super) const ALL: [Self; 4] = [Self::Produce, Self::Observe, Self::Claim, Self::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Observe => "observe",
            Self::Claim => "claim",
            Self::Delete => "delete",
        }
    }
}

/// The moments at which a run begins, begins to be measured, and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: Instant,
    pub(super) counts_from: Instant,
    pub(super) end: Instant,
}

impl Window {
    /// The window of a run that starts at the given moment.
    pub(super) fn new(start: Instant, warmup: Duration, duration: Duration) -> Self {
        let counts_from = start + warmup;
        Self { start, counts_from, end: counts_from + duration }
    }
}

/// The outcomes of the requests of one kind.
#[derive(Clone, Debug)]
pub(super) struct RequestStats {
    /// Latencies of successful requests in nanoseconds, from the end of the warm-up on. Responses
    /// that arrived after the end of the run are included.
    pub(super) latency: Histogram<u64>,
    /// Number of successful requests in each second of the window.
    pub(super) throughput: Vec<u64>,
    /// Number of messages in successful responses within the window.
    pub(super) messages: u64,
    /// Number of successful responses within the window that contained no message.
    pub(super) empty: u64,
    /// Failed requests from the end of the warm-up on, including those after the end of the run.
    pub(super) errors: BTreeMap<Failure, u64>,
}

impl RequestStats {
    pub(super) fn new() -> Self {
        let longest = u64::try_from(LATENCY_MAX.as_nanos()).unwrap_or(u64::MAX);
        let latency = Histogram::new_with_max(longest, DIGITS).expect("the bounds are valid");
        Self { latency, throughput: Vec::new(), messages: 0, empty: 0, errors: BTreeMap::new() }
    }

    /// Records a successful response that arrived at `now` to a request that was due at `due`.
    pub(super) fn record_success(&mut self, window: &Window, due: Instant, now: Instant, messages: u64) {
        let Some(since) = now.checked_duration_since(window.counts_from) else { return };
        let latency = now.saturating_duration_since(due);
        self.latency.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        if now >= window.end {
            return;
        }
        let second = usize::try_from(since.as_secs()).unwrap_or(usize::MAX);
        if second >= self.throughput.len() {
            self.throughput.resize(second + 1, 0);
        }
        self.throughput[second] += 1;
        self.messages += messages;
        self.empty += u64::from(messages == 0);
    }

    /// Records requests that failed at `now`.
    pub(super) fn record_failures(&mut self, window: &Window, now: Instant, failure: Failure, requests: u64) {
        if now >= window.counts_from && requests > 0 {
            *self.errors.entry(failure).or_default() += requests;
        }
    }

    /// Adds the statistics of another thread.
    pub(super) fn merge(&mut self, other: &Self) {
        self.latency.add(&other.latency).expect("all histograms have the same bounds");
        if self.throughput.len() < other.throughput.len() {
            self.throughput.resize(other.throughput.len(), 0);
        }
        for (sum, requests) in self.throughput.iter_mut().zip(&other.throughput) {
            *sum += requests;
        }
        self.messages += other.messages;
        self.empty += other.empty;
        for (failure, requests) in &other.errors {
            *self.errors.entry(*failure).or_default() += requests;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        Window::new(Instant::now(), Duration::from_secs(2), Duration::from_secs(3))
    }

    #[test]
    fn responses_during_the_warm_up_are_not_counted() {
        let (mut stats, window) = (RequestStats::new(), window());
        let early = window.start + Duration::from_millis(1_999);

        stats.record_success(&window, window.start, early, 1);
        stats.record_failures(&window, early, Failure::Timeout, 1);

        assert!(stats.latency.is_empty() && stats.throughput.is_empty() && stats.errors.is_empty());
    }

    #[test]
    fn a_response_after_the_end_counts_in_the_latency_but_not_in_the_rate() {
        let (mut stats, window) = (RequestStats::new(), window());
        let due = window.start + Duration::from_secs(4);

        stats.record_success(&window, due, window.end + Duration::from_secs(4), 1);

        assert_eq!(stats.latency.value_at_quantile(1.0) / 10_000_000, 500);
        assert_eq!((stats.throughput.len(), stats.messages), (0, 0));
    }

    #[test]
    fn responses_are_counted_in_the_second_in_which_they_arrive() {
        let (mut stats, window) = (RequestStats::new(), window());
        for milliseconds in [0, 999, 1_000, 2_999] {
            let now = window.counts_from + Duration::from_millis(milliseconds);
            stats.record_success(&window, now, now, milliseconds % 2);
        }

        assert_eq!(stats.throughput, [2, 1, 1]);
        assert_eq!((stats.messages, stats.empty), (2, 2));
    }

    #[test]
    fn the_statistics_of_two_threads_are_added() {
        let (mut one, mut other, window) = (RequestStats::new(), RequestStats::new(), window());
        let now = window.counts_from + Duration::from_millis(1_500);
        one.record_success(&window, window.counts_from, window.counts_from, 3);
        one.record_failures(&window, now, Failure::Status(503), 1);
        other.record_success(&window, window.counts_from, now, 4);
        other.record_failures(&window, now, Failure::Status(503), 2);

        one.merge(&other);

        assert_eq!((one.latency.len(), one.messages, one.throughput), (2, 7, vec![1, 1]));
        assert_eq!(one.errors, BTreeMap::from([(Failure::Status(503), 3)]));
    }
}
