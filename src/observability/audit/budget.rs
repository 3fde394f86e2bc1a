//! Bounds how many refused requests are recorded, because any client can cause them.
//!
//! A project may have at most as many records as are left for the other projects. So a project
//! alone gets half of a budget, and its refused requests do not hide those of the others.

use std::mem;
use std::time::Duration;

use ahash::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use sukkal_domain::ProjectId;

/// Maximum number of records in a period.
pub(super) const RECORDS_MAX: u32 = 100;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(5);

/// The number of records that are allowed in the current period, and of those that were left out.
pub(super) struct Budget {
    /// Says in the log which records were left out.
    pub(super) reason: &'static str,
    state: Mutex<BudgetState>,
}

struct BudgetState {
    period_end: Instant,
    recorded: u32,
    /// How many of them are requests of each project.
    by_project: HashMap<ProjectId, u32>,
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
        let state =
            BudgetState { period_end: Instant::now(), recorded: 0, by_project: HashMap::default(), left_out: 0 };
        Self { reason, state: Mutex::new(state) }
    }

    /// Decides about the record of a request of this project, if the project is known. `has_room`
    /// says whether the log has room for it.
    pub(super) fn decide(&self, project: Option<&ProjectId>, has_room: bool) -> Decision {
        let mut state = self.state.lock();
        let now = Instant::now();
        if now >= state.period_end {
            state.period_end = now + PERIOD;
            state.recorded = 0;
            state.by_project.clear();
        }
        if has_room && state.has_share(project) {
            state.recorded += 1;
            if let Some(project) = project {
                *state.by_project.entry(project.clone()).or_default() += 1;
            }
            return Decision::Record;
        }
        state.left_out += 1;
        if state.left_out == 1 { Decision::LeaveOutAndReport(state.period_end) } else { Decision::LeaveOut }
    }

    /// Returns the number of records that were left out since the last call.
    pub(super) fn take_left_out(&self) -> u64 {
        mem::take(&mut self.state.lock().left_out)
    }
}

impl BudgetState {
    /// Returns whether a request of this project may be recorded.
    fn has_share(&self, project: Option<&ProjectId>) -> bool {
        let of_project = project.and_then(|project| self.by_project.get(project)).copied().unwrap_or_default();
        match project {
            Some(_) => of_project + self.recorded + 2 <= RECORDS_MAX,
            None => self.recorded < RECORDS_MAX,
        }
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
                assert_eq!(budget.decide(None, true), Decision::Record);
            }
            assert_eq!(budget.decide(None, true), Decision::LeaveOutAndReport(start + PERIOD));
            assert_eq!(budget.decide(None, true), Decision::LeaveOut);
            advance(PERIOD).await;
            assert_eq!((budget.take_left_out(), budget.take_left_out()), (2, 0));
        }
        assert!(matches!(budget.decide(None, false), Decision::LeaveOutAndReport(_)));
        assert_eq!(budget.decide(None, true), Decision::Record);
    }

    #[tokio::test(start_paused = true)]
    async fn a_project_has_at_most_as_many_records_as_are_left_for_the_others() {
        let budget = Budget::new("");
        let projects = ["flood", "second", "third"].map(|name| ProjectId::new(name).unwrap());
        for _ in 0..2 {
            let recorded = projects.each_ref().map(|project| {
                (0..RECORDS_MAX).filter(|_| budget.decide(Some(project), true) == Decision::Record).count()
            });
            assert_eq!(recorded, [50, 25, 12]);
            advance(PERIOD).await;
        }
    }
}
