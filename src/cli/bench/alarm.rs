//! Wakes tasks at given moments, to some microseconds; the runtime's own timers go by the millisecond, which would let
//! requests out in bursts and count as latency.

use std::cell::RefCell;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};
use std::time::Instant;

/// One for all tasks of a thread. It rings as long as `keep` is polled.
pub(super) struct Alarm {
    clock: clock::Clock,
    sleepers: RefCell<BinaryHeap<Reverse<Sleeper>>>,
}

struct Sleeper {
    until: Instant,
    waker: Waker,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { clock: clock::Clock::new()?, sleepers: RefCell::default() })
    }

    /// Waits until the moment has come.
    pub(super) async fn until(&self, moment: Instant) {
        let mut is_set = false;
        poll_fn(|context| {
            if moment <= Instant::now() {
                return Poll::Ready(());
            }
            if !is_set {
                is_set = true;
                self.set(Sleeper { until: moment, waker: context.waker().clone() });
            }
            Poll::Pending
        })
        .await;
    }

    fn set(&self, sleeper: Sleeper) {
        let mut sleepers = self.sleepers.borrow_mut();
        if sleepers.peek().is_none_or(|Reverse(next)| sleeper.until < next.until) {
            self.clock.set(sleeper.until);
        }
        sleepers.push(Reverse(sleeper));
    }

    /// Wakes who is to be woken, for ever.
    pub(super) async fn keep(&self) -> io::Result<()> {
        loop {
            self.clock.rings().await?;
            let mut sleepers = self.sleepers.borrow_mut();
            let now = Instant::now();
            while sleepers.peek().is_some_and(|Reverse(next)| next.until <= now) {
                if let Some(Reverse(sleeper)) = sleepers.pop() {
                    sleeper.waker.wake();
                }
            }
            if let Some(Reverse(next)) = sleepers.peek() {
                self.clock.set(next.until);
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
mod clock {
    //! A timer of the kernel.

    use std::fs::File;
    use std::io;
    use std::time::{Duration, Instant};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    const AT_ONCE: Duration = Duration::from_nanos(1);

    /// A timer is read as a pipe is.
    pub(super) struct Clock(Receiver);

    impl Clock {
        pub(super) fn new() -> io::Result<Self> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            Ok(Self(Receiver::from_file_unchecked(File::from(timer))?))
        }

        /// Rings at that moment, and no other.
        pub(super) fn set(&self, moment: Instant) {
            // Zero would turn it off.
            let left = moment.saturating_duration_since(Instant::now()).max(AT_ONCE);
            let it_value = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            let once = Itimerspec { it_interval: Timespec::default(), it_value };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once).expect("the timer and time are valid");
        }

        pub(super) async fn rings(&self) -> io::Result<()> {
            loop {
                self.0.readable().await?;
                match self.0.try_read(&mut [0; 8]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    rung => return rung.map(drop),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod clock {
    //! The runtime's timer, for want of a better one.

    use std::cell::Cell;
    use std::io;
    use std::time::Instant;

    use tokio::sync::Notify;
    use tokio::time::sleep_until;

    #[derive(Default)]
    pub(super) struct Clock {
        moment: Cell<Option<Instant>>,
        is_set: Notify,
    }

    impl Clock {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        pub(super) fn set(&self, moment: Instant) {
            self.moment.set(Some(moment));
            self.is_set.notify_one();
        }

        pub(super) async fn rings(&self) -> io::Result<()> {
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

    use super::*;

    #[tokio::test]
    async fn sleepers_are_woken_in_the_order_of_their_moments_and_none_too_early() {
        let alarm = Alarm::new().unwrap();
        let start = Instant::now();
        let woken = RefCell::new(Vec::new());
        let sleeper = async |milliseconds| {
            let moment = start + Duration::from_millis(milliseconds);
            alarm.until(moment).await;
            assert!(Instant::now() >= moment);
            woken.borrow_mut().push(milliseconds);
        };

        tokio::select! {
            _ = alarm.keep() => unreachable!("it rings for ever"),
            _ = futures::future::join_all([30, 10, 0, 20].map(sleeper)) => {}
        }

        assert_eq!(*woken.borrow(), [0, 10, 20, 30]);
    }
}
