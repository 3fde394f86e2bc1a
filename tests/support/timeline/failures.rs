//! The requests of a test that got no usable response.

use std::fmt;
use std::sync::{Mutex, MutexGuard};

use super::Moment;

/// The requests that failed so far.
pub struct Failures {
    /// This many failures are an error.
    limit: usize,
    all: Mutex<Vec<Failure>>,
}

/// A request that failed. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct Failure {
    sent: u64,
    failed: u64,
    reason: String,
}

impl Failures {
    pub fn below(limit: usize) -> Self {
        Self { limit, all: Mutex::default() }
    }

    /// Records a request that was sent and failed at these times, in microseconds.
    pub fn record(&self, sent: u64, failed: u64, reason: &str) {
        let mut all = self.all();
        all.push(Failure { sent, failed, reason: reason.to_owned() });
        assert!(all.len() < self.limit, "{} requests failed, the last with {reason}", all.len());
    }

    /// Returns the requests that failed and were sent at this time in microseconds or later.
    pub fn since(&self, time: u64) -> Vec<Failure> {
        self.all().iter().filter(|failure| failure.sent >= time).cloned().collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Failure>> {
        self.all.lock().unwrap()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, failed, reason } = self;
        write!(f, "a request sent at {} failed at {} with {reason}", Moment(*sent), Moment(*failed))
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all();
        let slowest_us = all.iter().map(|failure| failure.failed - failure.sent).max().unwrap_or(0);
        write!(
            f,
            "{} requests without a response, the slowest of which failed after {} s",
            all.len(),
            Moment(slowest_us)
        )
    }
}
