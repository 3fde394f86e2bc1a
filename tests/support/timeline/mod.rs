//! Times for tests that record a history and check it afterwards. They are microseconds of the
//! test's own clock, taken before a request is sent and after its response is read.

pub(crate) mod clock;

use std::fmt;

/// A request that set the store's clock ahead of its own time by this offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockMove {
    pub(crate) invoked: u64,
    pub(crate) answered: u64,
    pub(crate) offset_us: i64,
}

/// A time in microseconds, which is displayed as seconds with six decimal places.
pub(crate) struct Moment(pub(crate) u64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
