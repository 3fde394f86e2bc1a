//! What tests have in common that record what happened and judge it afterwards. Times are microseconds
//! of the test's own clock, taken before a request is sent and after its answer is read.

pub(crate) mod choices;
pub(crate) mod clock;

use std::fmt;

/// The store's clock was set to run this much ahead of its own time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockMove {
    pub(crate) invoked: u64,
    pub(crate) answered: u64,
    pub(crate) offset_us: i64,
}

/// Seconds with six places.
pub(crate) struct Moment(pub(crate) u64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
