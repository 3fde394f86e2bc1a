//! When a connection's next request is due.

use std::io;
use std::time::{Duration, Instant};

use super::stats::{Window, float};

/// Decides when a connection sends its next request.
pub(super) enum Pace {
    /// The next request is due as soon as the previous one has been answered.
    Closed,
    /// Requests are due at moments that are fixed in advance.
    Open { dues: Box<dyn Iterator<Item = Instant>>, timer: PreciseTimer },
}

impl Pace {
    /// The pace of connection number `index`, where all `connections` together send `rate` requests
    /// per second. Without a rate, the loop is closed.
    pub(super) fn new(rate: Option<f64>, connections: usize, index: usize, window: &Window) -> io::Result<Self> {
        let Some(rate) = rate else { return Ok(Self::Closed) };
        Ok(Self::Open { dues: Box::new(dues(rate, connections, index, window)), timer: PreciseTimer::new()? })
    }

    /// Waits until a request is due, and returns the moment at which it was due. Returns `None` if
    /// no other one is due before the end of the run.
    pub(super) async fn wait_until_due(&mut self) -> Option<Instant> {
        match self {
            Self::Closed => Some(Instant::now()),
            Self::Open { dues, timer } => {
                let due = dues.next()?;
                timer.sleep_until(due).await;
                Some(due)
            }
        }
    }

    /// Number of requests that were due before now but were not sent.
    pub(super) fn missed(self) -> usize {
        let now = Instant::now();
        match self {
            Self::Closed => 0,
            Self::Open { dues, .. } => dues.take_while(|due| *due < now).count(),
        }
    }
}

/// Equidistant moments until the end of the run.
fn dues(rate: f64, connections: usize, index: usize, window: &Window) -> impl Iterator<Item = Instant> + use<> {
    let Window { start, end, .. } = *window;
    let due = move |n: usize| start.checked_add(Duration::try_from_secs_f64(float(n as u64) / rate).ok()?);
    (index..).step_by(connections).map_while(due).take_while(move |due| *due < end)
}

/// A timer with a precision of some microseconds. The timers of the runtime have a resolution of
/// one millisecond: requests would be sent in bursts, and the delay would count as latency.
///
/// It is a `timerfd` of Linux, which is read like a pipe, so the runtime's type for pipes can wait
/// for it.
pub(super) struct PreciseTimer(#[cfg(target_os = "linux")] tokio::net::unix::pipe::Receiver);

#[cfg(target_os = "linux")]
impl PreciseTimer {
    fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        use tokio::net::unix::pipe::Receiver;

        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self(Receiver::from_file_unchecked(timer.into())?))
    }

    async fn sleep_until(&self, moment: Instant) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let it_value = Timespec::try_from(left).expect("a run does not last that long");
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once).expect("the timer and the time are valid");
        while Instant::now() < moment {
            self.0.readable().await.expect("the runtime is running");
            // There are 8 bytes, or none if this was the previous moment.
            let _read = self.0.try_read(&mut [0; 16]);
        }
    }
}

/// Other systems have only the timers of the runtime.
#[cfg(not(target_os = "linux"))]
impl PreciseTimer {
    fn new() -> io::Result<Self> {
        Ok(Self())
    }

    async fn sleep_until(&self, moment: Instant) {
        tokio::time::sleep_until(moment.into()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_the_requested_rate() {
        let window = Window::new(Instant::now(), Duration::ZERO, Duration::from_secs(10));
        let mut all: Vec<_> = (0..8).flat_map(|index| dues(100.0, 8, index, &window)).collect();
        all.sort();

        assert_eq!(all.len(), 1_000);
        for (n, due) in (0_u32..).zip(all) {
            let expected = window.start + Duration::from_millis(10) * n;
            assert!(due.max(expected) - due.min(expected) < Duration::from_micros(1), "{n}: {due:?}");
        }
    }

    #[tokio::test]
    async fn the_timer_is_late_by_less_than_the_resolution_of_the_runtime_and_never_early() {
        let timer = PreciseTimer::new().unwrap();
        let mut delays = Vec::new();
        for _ in 0..20 {
            let moment = Instant::now() + Duration::from_micros(300);
            timer.sleep_until(moment).await;
            delays.push(Instant::now().checked_duration_since(moment).expect("it is not early"));
        }

        // Most are late on a busy machine, but the runtime's timer would always be.
        let shortest = delays.iter().min().unwrap();
        assert!(!cfg!(target_os = "linux") || *shortest < Duration::from_micros(500), "{delays:?}");
    }

    #[tokio::test]
    async fn an_overdue_request_is_sent_at_once_and_counts_from_when_it_was_due() {
        let start = Instant::now().checked_sub(Duration::from_secs(15)).unwrap();
        let window = Window::new(start, Duration::ZERO, Duration::from_secs(3_600));
        let dues = Box::new(dues(0.1, 1, 0, &window));
        let mut pace = Pace::Open { dues, timer: PreciseTimer::new().unwrap() };

        assert_eq!(pace.wait_until_due().await, Some(start));
        assert_eq!(pace.missed(), 1, "one was due 10 s after the start");
    }
}
