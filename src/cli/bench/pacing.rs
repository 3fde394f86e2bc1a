//! When a connection's next request is due.

use std::time::{Duration, Instant};

use super::stats::Window;
use super::timer::PreciseTimer;

/// Decides when a connection sends its next request.
pub(super) enum Pace {
    /// The next request is due as soon as the previous one has been answered.
    Closed { end: Instant },
    /// Requests are due at moments that are fixed in advance.
    Open(Schedule),
}

/// Equidistant moments until the end of the run.
pub(super) struct Schedule {
    first: Instant,
    seconds_apart: f64,
    /// Number of requests that have been due so far.
    sent: u32,
    end: Instant,
}

impl Pace {
    /// The pace of connection number `index`, where all `connections` together send `rate` requests
    /// per second. Without a rate, the loop is closed.
    pub(super) fn new(rate: Option<f64>, connections: usize, index: usize, window: &Window) -> Self {
        match rate {
            None => Self::Closed { end: window.end },
            Some(rate) => Self::Open(Schedule::new(rate, connections, index, window)),
        }
    }

    /// Waits until a request is due, and returns the moment at which it was due. Returns `None`
    /// when the run is over.
    pub(super) async fn wait_until_due(&mut self, timer: &PreciseTimer) -> Option<Instant> {
        let now = Instant::now();
        match self {
            Self::Closed { end } => (now < *end).then_some(now),
            Self::Open(schedule) => {
                let due = schedule.next(now)?;
                timer.sleep_until(due).await;
                Some(due)
            }
        }
    }

    /// Number of requests that were due before the end of the run but were not sent.
    pub(super) fn missed(&self) -> u64 {
        match self {
            Self::Closed { .. } => 0,
            Self::Open(schedule) => schedule.missed(),
        }
    }
}

impl Schedule {
    fn new(rate: f64, connections: usize, index: usize, window: &Window) -> Self {
        let [connections, index] = [connections, index].map(|n| f64::from(u32::try_from(n).unwrap_or(u32::MAX)));
        let first = window.start + Duration::from_secs_f64(index / rate);
        Self { first, seconds_apart: connections / rate, sent: 0, end: window.end }
    }

    /// The moment at which the next request is due, which is in the past if the connection is late.
    /// Returns `None` from the end of the run on.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        let due = self.due(self.sent);
        let goes_on = now < self.end && due < self.end;
        self.sent += u32::from(goes_on);
        goes_on.then_some(due)
    }

    fn missed(&self) -> u64 {
        (self.sent..u32::MAX).take_while(|n| self.due(*n) < self.end).map(|_| 1).sum()
    }

    fn due(&self, n: u32) -> Instant {
        self.first + Duration::from_secs_f64(f64::from(n) * self.seconds_apart)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stats::RequestStats;
    use super::*;

    const SERVICE: Duration = Duration::from_millis(1);
    const STALL: Duration = Duration::from_secs(4);
    const RATE: f64 = 100.0;

    fn window() -> Window {
        Window::new(Instant::now(), Duration::ZERO, Duration::from_secs(10))
    }

    /// Simulates a connection to a service that responds within a millisecond, except that it
    /// stalls from second 2 to second 6.
    fn run_against_a_stall(window: &Window, mut next_due: impl FnMut(Instant) -> Option<Instant>) -> RequestStats {
        let mut stats = RequestStats::new();
        let mut now = window.start;
        let (stall, stall_end) = (window.start + Duration::from_secs(2), window.start + Duration::from_secs(2) + STALL);
        while let Some(due) = next_due(now) {
            now = now.max(due);
            now = if now >= stall && now < stall_end { stall_end } else { now } + SERVICE;
            stats.record_success(window, due, now, 1);
        }
        stats
    }

    fn milliseconds(stats: &RequestStats, quantile: f64) -> u64 {
        stats.latency.value_at_quantile(quantile) / 1_000_000
    }

    #[test]
    fn connections_share_the_requested_rate() {
        let window = window();
        let mut dues: Vec<Duration> = Vec::new();
        for index in 0..8 {
            let mut schedule = Schedule::new(RATE, 8, index, &window);
            dues.extend(std::iter::from_fn(|| schedule.next(window.start)).map(|due| due - window.start));
        }
        dues.sort();

        assert_eq!(dues.len(), 1_000);
        for (n, due) in (0_u32..).zip(dues) {
            let expected = Duration::from_millis(10) * n;
            assert!(due.abs_diff(expected) < Duration::from_micros(1), "{n}: {due:?}");
        }
    }

    #[test]
    fn requests_that_were_due_during_a_stall_count_the_time_until_its_end() {
        let window = window();
        let mut schedule = Schedule::new(RATE, 1, 0, &window);

        let stats = run_against_a_stall(&window, |now| schedule.next(now));

        // 400 of 1,000 requests were due during the stall, and waited 2 s on average. The other 600
        // were not delayed, or only a little.
        assert_eq!(stats.latency.len(), 1_000);
        assert!((1..100).contains(&milliseconds(&stats, 0.55)), "{}", milliseconds(&stats, 0.55));
        assert!((1_800..2_300).contains(&milliseconds(&stats, 0.8)), "{}", milliseconds(&stats, 0.8));
        assert!(milliseconds(&stats, 0.99) >= 3_800);
    }

    #[test]
    fn a_closed_loop_sends_fewer_requests_during_a_stall() {
        let window = window();

        let stats = run_against_a_stall(&window, |now| (now < window.end).then_some(now));

        assert_eq!(milliseconds(&stats, 0.999), 1);
        assert!(milliseconds(&stats, 1.0) >= 4_000);
    }

    #[test]
    fn requests_that_were_not_sent_before_the_end_are_missed() {
        let window = window();
        let mut schedule = Schedule::new(RATE, 1, 0, &window);
        schedule.next(window.start);

        assert_eq!(schedule.next(window.end), None);
        assert_eq!(schedule.missed(), 999);
    }

    #[tokio::test]
    async fn an_overdue_request_is_sent_at_once_and_counts_from_when_it_was_due() {
        let start = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        let window = Window::new(start, Duration::ZERO, Duration::from_secs(3_600));
        let mut pace = Pace::new(Some(RATE), 1, 0, &window);
        let timer = PreciseTimer::new().unwrap();

        assert_eq!(pace.wait_until_due(&timer).await, Some(start));
        assert_eq!(pace.wait_until_due(&timer).await, Some(start + Duration::from_millis(10)));
    }
}
