//! When a connection's next request is due.

use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::tally::Window;

/// One connection's pace.
pub(super) enum Pace {
    /// The next request is due when the last one is answered.
    Closed { end: Instant },
    /// Requests are due at moments fixed beforehand.
    Open(Schedule),
}

/// Moments at the same distance, until the end of the run.
pub(super) struct Schedule {
    first: Instant,
    seconds_apart: f64,
    turns: u32,
    end: Instant,
}

impl Pace {
    /// The pace of connection `index` of so many that make `rate` requests a second together.
    pub(super) fn new(rate: Option<f64>, connections: usize, index: usize, window: &Window) -> Self {
        match rate {
            None => Self::Closed { end: window.end },
            Some(rate) => Self::Open(Schedule::new(rate, connections, index, window)),
        }
    }

    /// Waits until a request is due, and says since when it is; `None` when the run is over.
    pub(super) async fn turn(&mut self, alarm: &Alarm) -> Option<Instant> {
        let now = Instant::now();
        match self {
            Self::Closed { end } => (now < *end).then_some(now),
            Self::Open(schedule) => {
                let due = schedule.next(now)?;
                alarm.until(due).await;
                Some(due)
            }
        }
    }

    /// Requests that were due before the end and have not had their turn.
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
        Self { first, seconds_apart: connections / rate, turns: 0, end: window.end }
    }

    /// The next moment that is due, in the past if the connection is behind; `None` from the end on.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        let due = self.due(self.turns);
        let goes_on = now < self.end && due < self.end;
        self.turns += u32::from(goes_on);
        goes_on.then_some(due)
    }

    fn missed(&self) -> u64 {
        (self.turns..u32::MAX).take_while(|turn| self.due(*turn) < self.end).map(|_| 1).sum()
    }

    fn due(&self, turn: u32) -> Instant {
        self.first + Duration::from_secs_f64(f64::from(turn) * self.seconds_apart)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::Tally;
    use super::*;

    const SERVICE: Duration = Duration::from_millis(1);
    const STALL: Duration = Duration::from_secs(4);
    const RATE: f64 = 100.0;

    fn window() -> Window {
        Window::new(Instant::now(), Duration::ZERO, Duration::from_secs(10))
    }

    /// One connection to a service that answers in a millisecond, but stands still once, from second 2 to 6.
    fn run_against_a_stall(window: &Window, mut turn: impl FnMut(Instant) -> Option<Instant>) -> Tally {
        let mut tally = Tally::new();
        let mut now = window.start;
        let (stall, over) = (window.start + Duration::from_secs(2), window.start + Duration::from_secs(2) + STALL);
        while let Some(due) = turn(now) {
            now = now.max(due);
            now = if now >= stall && now < over { over } else { now } + SERVICE;
            tally.answered(window, due, now, 1);
        }
        tally
    }

    fn milliseconds(tally: &Tally, quantile: f64) -> u64 {
        tally.latency.value_at_quantile(quantile) / 1_000_000
    }

    #[test]
    fn connections_take_turns_at_the_rate_asked_for() {
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
    fn what_was_due_during_a_stall_has_waited_for_its_end() {
        let window = window();
        let mut schedule = Schedule::new(RATE, 1, 0, &window);

        let tally = run_against_a_stall(&window, |now| schedule.next(now));

        // 400 of 1,000 requests were due in the stall, and waited 2 s on average; 600 were not, or caught up soon.
        assert_eq!(tally.latency.len(), 1_000);
        assert!((1..100).contains(&milliseconds(&tally, 0.55)), "{}", milliseconds(&tally, 0.55));
        assert!((1_800..2_300).contains(&milliseconds(&tally, 0.8)), "{}", milliseconds(&tally, 0.8));
        assert!(milliseconds(&tally, 0.99) >= 3_800);
    }

    #[test]
    fn a_closed_loop_asks_less_often_instead() {
        let window = window();

        let tally = run_against_a_stall(&window, |now| (now < window.end).then_some(now));

        assert_eq!(milliseconds(&tally, 0.999), 1);
        assert!(milliseconds(&tally, 1.0) >= 4_000);
    }

    #[test]
    fn what_had_no_turn_before_the_end_is_missed() {
        let window = window();
        let mut schedule = Schedule::new(RATE, 1, 0, &window);
        schedule.next(window.start);

        assert_eq!(schedule.next(window.end), None);
        assert_eq!(schedule.missed(), 999);
    }

    #[tokio::test]
    async fn a_turn_that_is_overdue_comes_at_once_and_counts_from_when_it_was_due() {
        let start = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        let window = Window::new(start, Duration::ZERO, Duration::from_secs(3_600));
        let mut pace = Pace::new(Some(RATE), 1, 0, &window);
        let alarm = Alarm::new().unwrap();

        assert_eq!(pace.turn(&alarm).await, Some(start));
        assert_eq!(pace.turn(&alarm).await, Some(start + Duration::from_millis(10)));
    }
}
