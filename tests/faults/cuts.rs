//! The number of power cuts, for every kind of store, and the load between them.

use support::campaign;

pub(super) const PRODUCERS: usize = 4;
pub(super) const WORKERS: usize = 4;
/// Largest number of responses between two cuts.
pub(super) const ANSWERS_PER_CUT: u64 = 150;

/// Returns `SUKKAL_POWER_CUTS`, or the number for everyday runs.
pub(super) fn count(every_day: usize) -> usize {
    campaign::size("SUKKAL_POWER_CUTS", every_day)
}
