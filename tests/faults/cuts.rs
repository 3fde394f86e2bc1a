//! How often the power goes, whoever loses it, and who works meanwhile.

pub(super) const PRODUCERS: usize = 4;
pub(super) const WORKERS: usize = 4;
/// How many answers come between two cuts at most.
pub(super) const ANSWERS_PER_CUT: u64 = 150;

/// `SUKKAL_POWER_CUTS`, or as often as is enough for every day.
pub(super) fn count(every_day: u64) -> u64 {
    std::env::var("SUKKAL_POWER_CUTS").map_or(every_day, |cuts| cuts.parse().expect("it is a number"))
}
