//! The statistics of a run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::connection::LoadFailure;

/// Significant digits of recorded latencies, which are in nanoseconds.
const DIGITS: u8 = 3;

/// A kind of request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
#[derive(Debug)]
pub(super) struct Stats {
    /// Numbers of successful and failed requests from the start on, for the progress bar.
    pub(super) so_far: (u64, u64),
    /// Latencies of successful requests in nanoseconds, from the end of the warm-up on. Responses
    /// that arrived after the end of the run are included.
    pub(super) latency: Histogram<u64>,
    /// Number of successful requests in each second of the window.
    pub(super) throughput: Vec<u64>,
    /// Number of messages in successful responses within the window.
    pub(super) messages: u64,
    /// Number of successful responses within the window that contained no message.
    pub(super) empty: u64,
    /// Number of failed requests by status or reason, from the end of the warm-up on, including
    /// those after the end of the run.
    pub(super) errors: BTreeMap<String, u64>,
}

impl Stats {
    pub(super) fn new() -> Self {
        let latency = Histogram::new(DIGITS).expect("the number of digits is valid");
        Self { so_far: (0, 0), latency, throughput: Vec::new(), messages: 0, empty: 0, errors: BTreeMap::new() }
    }

    /// Records a request that was due at `due` and ended at `now`: with the number of messages in
    /// its response, or with a failure.
    pub(super) fn record(&mut self, window: &Window, due: Instant, now: Instant, outcome: Result<usize, &LoadFailure>) {
        let so_far = if outcome.is_ok() { &mut self.so_far.0 } else { &mut self.so_far.1 };
        *so_far += 1;
        let Some(since) = now.checked_duration_since(window.counts_from) else { return };
        let messages = match outcome {
            Ok(messages) => messages,
            Err(failure) => return *self.errors.entry(failure.to_string()).or_default() += 1,
        };
        self.latency += u64::try_from(now.saturating_duration_since(due).as_nanos()).unwrap_or(u64::MAX);
        if now >= window.end {
            return;
        }
        let second = usize::try_from(since.as_secs()).unwrap_or(usize::MAX);
        if second >= self.throughput.len() {
            self.throughput.resize(second + 1, 0);
        }
        self.throughput[second] += 1;
        self.messages += messages as u64;
        self.empty += u64::from(messages == 0);
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures have fewer digits than a float")]
pub(super) fn float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        Window::new(Instant::now(), Duration::from_secs(2), Duration::from_secs(3))
    }

    #[test]
    fn responses_during_the_warm_up_are_not_counted() {
        let (mut stats, window) = (Stats::new(), window());
        let early = window.start + Duration::from_millis(1_999);

        stats.record(&window, window.start, early, Ok(1));
        stats.record(&window, window.start, early, Err(&LoadFailure::Timeout));

        assert!(stats.latency.is_empty() && stats.throughput.is_empty() && stats.errors.is_empty());
    }

    #[test]
    fn a_response_after_the_end_counts_in_the_latency_but_not_in_the_rate() {
        let (mut stats, window) = (Stats::new(), window());
        let due = window.start + Duration::from_secs(4);

        stats.record(&window, due, window.end + Duration::from_secs(4), Ok(1));

        assert_eq!(stats.latency.value_at_quantile(1.0) / 10_000_000, 500);
        assert_eq!((stats.throughput.len(), stats.messages), (0, 0));
    }

    #[test]
    fn responses_are_counted_in_the_second_in_which_they_arrive() {
        let (mut stats, window) = (Stats::new(), window());
        for milliseconds in [0, 999, 1_000, 2_999] {
            let now = window.counts_from + Duration::from_millis(milliseconds);
            stats.record(&window, now, now, Ok(usize::from(milliseconds % 2 == 1)));
        }

        assert_eq!(stats.throughput, [2, 1, 1]);
        assert_eq!((stats.messages, stats.empty), (2, 2));
    }
}
