//! The rate at which a store serves requests, from which admission predicts how long a request
//! waits.

use std::time::Duration;

use tokio::time::Instant;

/// Number of windows into which the longest wait is divided. The highest rate of these windows is
/// used, so that a short pause of the store does not cause refusals.
const WINDOWS: u32 = 10;
/// Number of windows after which the rate is known.
const WINDOWS_MIN: usize = 3;

/// The rate at which requests were served while others waited.
#[derive(Debug, Default)]
pub(super) struct ServiceRate {
    wait_max: Duration,
    began: Option<Instant>,
    served: u32,
    /// For each of the last windows, the number of requests that its rate would serve within the
    /// longest wait.
    windows: [Option<usize>; WINDOWS as usize],
}

impl ServiceRate {
    /// Starts a measurement for requests that wait at most for `wait_max`.
    pub(super) fn new(wait_max: Duration) -> Self {
        Self { wait_max, began: Some(Instant::now()), ..Self::default() }
    }

    /// Counts a served request.
    pub(super) fn count(&mut self) {
        self.served += 1;
        let elapsed = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        if elapsed > self.wait_max / WINDOWS {
            let within_wait = u128::from(self.served) * self.wait_max.as_micros() / elapsed.as_micros().max(1);
            self.windows.rotate_right(1);
            self.windows[0] = Some(usize::try_from(within_wait).unwrap_or(usize::MAX));
            self.began = Some(Instant::now());
            self.served = 0;
        }
    }

    /// Returns the number of requests that can be served within the longest wait, at the highest
    /// rate of the last windows. The number is unlimited as long as the rate is not known.
    pub(super) fn within_wait(&self) -> usize {
        let known = self.windows.iter().flatten();
        if known.clone().count() < WINDOWS_MIN { usize::MAX } else { known.copied().max().unwrap_or_default() }
    }
}
