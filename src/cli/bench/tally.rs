//! What is counted while a run goes on: one tally per thread and kind of request, so that nobody waits for a lock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::connection::Failure;

/// The longest latency told from longer ones.
const LATENCY_MAX: Duration = Duration::from_secs(3_600);
/// Latencies are kept in nanoseconds, to this many digits.
const DIGITS: u8 = 3;

/// A kind of request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Produce,
    Observe,
    Claim,
    /// Of what has been claimed.
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

/// When a run begins, when it begins to count, and when it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: Instant,
    pub(super) counts_from: Instant,
    pub(super) end: Instant,
}

impl Window {
    /// A run that starts at the moment given.
    pub(super) fn new(start: Instant, warmup: Duration, duration: Duration) -> Self {
        let counts_from = start + warmup;
        Self { start, counts_from, end: counts_from + duration }
    }
}

/// What has become of the requests of one kind.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// In nanoseconds; of all good answers since the warm-up, also those that came after the end.
    pub(super) latency: Histogram<u64>,
    /// Good answers in each second of the window.
    pub(super) throughput: Vec<u64>,
    /// In good answers within the window.
    pub(super) messages: u64,
    /// Good answers within the window that brought no message.
    pub(super) empty: u64,
    /// Since the warm-up, also after the end.
    pub(super) errors: BTreeMap<Failure, u64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        let longest = u64::try_from(LATENCY_MAX.as_nanos()).unwrap_or(u64::MAX);
        let latency = Histogram::new_with_max(longest, DIGITS).expect("the bounds are those of a histogram");
        Self { latency, throughput: Vec::new(), messages: 0, empty: 0, errors: BTreeMap::new() }
    }

    /// A good answer that came now, to a request that was due then.
    pub(super) fn answered(&mut self, window: &Window, due: Instant, now: Instant, messages: u64) {
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

    /// Requests that failed now.
    pub(super) fn failed(&mut self, window: &Window, now: Instant, failure: Failure, requests: u64) {
        if now >= window.counts_from && requests > 0 {
            *self.errors.entry(failure).or_default() += requests;
        }
    }

    /// Takes in what another thread has counted.
    pub(super) fn add(&mut self, other: &Self) {
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
    fn what_is_answered_during_the_warm_up_is_not_counted() {
        let (mut tally, window) = (Tally::new(), window());
        let early = window.start + Duration::from_millis(1_999);

        tally.answered(&window, window.start, early, 1);
        tally.failed(&window, early, Failure::Timeout, 1);

        assert!(tally.latency.is_empty() && tally.throughput.is_empty() && tally.errors.is_empty());
    }

    #[test]
    fn an_answer_after_the_end_counts_with_its_latency_but_not_in_the_rate() {
        let (mut tally, window) = (Tally::new(), window());
        let due = window.start + Duration::from_secs(4);

        tally.answered(&window, due, window.end + Duration::from_secs(4), 1);

        assert_eq!(tally.latency.value_at_quantile(1.0) / 10_000_000, 500);
        assert_eq!((tally.throughput.len(), tally.messages), (0, 0));
    }

    #[test]
    fn answers_are_counted_in_the_second_in_which_they_come() {
        let (mut tally, window) = (Tally::new(), window());
        for milliseconds in [0, 999, 1_000, 2_999] {
            let now = window.counts_from + Duration::from_millis(milliseconds);
            tally.answered(&window, now, now, milliseconds % 2);
        }

        assert_eq!(tally.throughput, [2, 1, 1]);
        assert_eq!((tally.messages, tally.empty), (2, 2));
    }

    #[test]
    fn tallies_of_two_threads_add_up() {
        let (mut one, mut other, window) = (Tally::new(), Tally::new(), window());
        let now = window.counts_from + Duration::from_millis(1_500);
        one.answered(&window, window.counts_from, window.counts_from, 3);
        one.failed(&window, now, Failure::Status(503), 1);
        other.answered(&window, window.counts_from, now, 4);
        other.failed(&window, now, Failure::Status(503), 2);

        one.add(&other);

        assert_eq!((one.latency.len(), one.messages, one.throughput), (2, 7, vec![1, 1]));
        assert_eq!(one.errors, BTreeMap::from([(Failure::Status(503), 3)]));
    }
}
