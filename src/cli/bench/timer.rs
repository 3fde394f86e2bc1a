//! A timer that wakes tasks at given moments with a precision of some microseconds.
//!
//! The timers of the runtime have a resolution of one millisecond. Requests would be sent in
//! bursts, and the delay would count as latency.

use std::cell::RefCell;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};
use std::time::Instant;

/// The timer of all tasks of one thread. It wakes tasks only while `run` is polled.
pub(super) struct PreciseTimer {
    system: system::SystemTimer,
    sleepers: RefCell<BinaryHeap<Reverse<Sleeper>>>,
}

struct Sleeper {
    until: Instant,
    waker: Waker,
}

impl PreciseTimer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { system: system::SystemTimer::new()?, sleepers: RefCell::default() })
    }

    /// Waits until the given moment.
    pub(super) async fn sleep_until(&self, moment: Instant) {
        let mut is_set = false;
        poll_fn(|context| {
            if moment <= Instant::now() {
                return Poll::Ready(());
            }
            if !is_set {
                is_set = true;
                self.add(Sleeper { until: moment, waker: context.waker().clone() });
            }
            Poll::Pending
        })
        .await;
    }

    fn add(&self, sleeper: Sleeper) {
        let mut sleepers = self.sleepers.borrow_mut();
        if sleepers.peek().is_none_or(|Reverse(next)| sleeper.until < next.until) {
            self.system.set(sleeper.until);
        }
        sleepers.push(Reverse(sleeper));
    }

    /// Wakes the tasks whose moment has come. Returns only on an error.
    pub(super) async fn run(&self) -> io::Result<()> {
        loop {
            self.system.expired().await?;
            let mut sleepers = self.sleepers.borrow_mut();
            let now = Instant::now();
            while sleepers.peek().is_some_and(|Reverse(next)| next.until <= now) {
                if let Some(Reverse(sleeper)) = sleepers.pop() {
                    sleeper.waker.wake();
                }
            }
            if let Some(Reverse(next)) = sleepers.peek() {
                self.system.set(next.until);
            }
        }
    }
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> Ordering {
        self.until.cmp(&other.until)
    }
}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.until == other.until
    }
}

impl Eq for Sleeper {}

#[cfg(target_os = "linux")]
mod system {
    //! A timer of the Linux kernel.

    use std::fs::File;
    use std::io;
    use std::time::{Duration, Instant};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    const SHORTEST: Duration = Duration::from_nanos(1);

    /// A `timerfd`. It is read like a pipe, so the runtime's type for pipes can wait for it.
    pub(super) struct SystemTimer(Receiver);

    impl SystemTimer {
        pub(super) fn new() -> io::Result<Self> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            Ok(Self(Receiver::from_file_unchecked(File::from(timer))?))
        }

        /// Sets the moment at which the timer expires. It replaces the previous moment.
        pub(super) fn set(&self, moment: Instant) {
            // A duration of zero would turn the timer off.
            let left = moment.saturating_duration_since(Instant::now()).max(SHORTEST);
            let it_value = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            let once = Itimerspec { it_interval: Timespec::default(), it_value };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once).expect("the timer and time are valid");
        }

        pub(super) async fn expired(&self) -> io::Result<()> {
            loop {
                self.0.readable().await?;
                match self.0.try_read(&mut [0; 8]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    expirations => return expirations.map(drop),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! The timer of the runtime, because other systems have no `timerfd`.

    use std::cell::Cell;
    use std::io;
    use std::time::Instant;

    use tokio::sync::Notify;
    use tokio::time::sleep_until;

    #[derive(Default)]
    pub(super) struct SystemTimer {
        moment: Cell<Option<Instant>>,
        is_set: Notify,
    }

    impl SystemTimer {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        pub(super) fn set(&self, moment: Instant) {
            self.moment.set(Some(moment));
            self.is_set.notify_one();
        }

        pub(super) async fn expired(&self) -> io::Result<()> {
            loop {
                let Some(moment) = self.moment.get() else {
                    self.is_set.notified().await;
                    continue;
                };
                tokio::select! {
                    () = sleep_until(moment.into()) => {
                        self.moment.set(None);
                        return Ok(());
                    }
                    () = self.is_set.notified() => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt;
    use futures::stream::FuturesUnordered;

    use super::*;

    #[tokio::test]
    async fn tasks_are_woken_in_the_order_of_their_moments_and_not_too_early() {
        let timer = PreciseTimer::new().unwrap();
        let start = Instant::now();
        let woken = RefCell::new(Vec::new());
        let sleeper = async |milliseconds| {
            let moment = start + Duration::from_millis(milliseconds);
            timer.sleep_until(moment).await;
            assert!(Instant::now() >= moment);
            woken.borrow_mut().push(milliseconds);
        };

        let sleepers: FuturesUnordered<_> = [30, 10, 0, 20].into_iter().map(sleeper).collect();
        tokio::select! {
            _ = timer.run() => unreachable!("it runs forever"),
            // Polls them in the order in which they are woken.
            _ = sleepers.count() => {}
        }

        assert_eq!(*woken.borrow(), [0, 10, 20, 30]);
    }
}
