//! Bounds how many refused requests are recorded, because any client can cause them.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of records in a period.
pub(super) const RECORDS_MAX: u32 = 100;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(5);

/// The number of records that are allowed in the current period, and of those that were left out.
pub(super) struct Budget {
    /// Says in the log which records were left out.
    pub(super) reason: &'static str,
    state: Mutex<State>,
}

struct State {
    period_end: Instant,
    recorded: u32,
    left_out: u64,
}

/// What is to be done with a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Record,
    LeaveOut,
    /// Leave it out, and report at this time how many were left out.
    LeaveOutAndReport(Instant),
}

impl Budget {
    pub(super) fn new(reason: &'static str) -> Self {
        Self { reason, state: Mutex::new(State { period_end: Instant::now(), recorded: 0, left_out: 0 }) }
    }

    /// Decides about a record. `has_room` says whether the log has room for it.
    pub(super) fn decide(&self, has_room: bool) -> Decision {
        let mut state = self.lock();
        let now = Instant::now();
        if now >= state.period_end {
            state.period_end = now + PERIOD;
            state.recorded = 0;
        }
        if has_room && state.recorded < RECORDS_MAX {
            state.recorded += 1;
            return Decision::Record;
        }
        state.left_out += 1;
        if state.left_out == 1 { Decision::LeaveOutAndReport(state.period_end) } else { Decision::LeaveOut }
    }

    /// Returns the number of records that were left out since the last call.
    pub(super) fn take_left_out(&self) -> u64 {
        mem::take(&mut self.lock().left_out)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_period_has_a_maximum_number_of_records_and_one_report_of_the_others() {
        let budget = Budget::new("");
        for _ in 0..3 {
            let start = Instant::now();
            for _ in 0..RECORDS_MAX {
                assert_eq!(budget.decide(true), Decision::Record);
            }
            assert_eq!(budget.decide(true), Decision::LeaveOutAndReport(start + PERIOD));
            assert_eq!(budget.decide(true), Decision::LeaveOut);
            advance(PERIOD).await;
            assert_eq!((budget.take_left_out(), budget.take_left_out()), (2, 0));
        }
        assert!(matches!(budget.decide(false), Decision::LeaveOutAndReport(_)));
        assert_eq!(budget.decide(true), Decision::Record);
    }
}
