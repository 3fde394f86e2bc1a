//! The possible times of the store's clock while tests move it during requests.

use std::time::{SystemTime, UNIX_EPOCH};

use super::ClockMove;

/// Bound on the difference between the store's clock and the test's: they are read at different
/// times, and either may be slewed.
const SLACK_US: i64 = 1_000_000;
const READINGS: usize = 9;

/// The store's clock, as far as the history determines it.
pub struct StoreClock {
    wall_us: i64,
    slack_us: i64,
    /// Each setting of the clock, with the first and the last time of the test at which it may have
    /// been in effect.
    settings: Vec<(u64, u64, i64)>,
}

impl StoreClock {
    /// Creates the clock of a store that showed `wall_us` (since 1970) when the test's own clock
    /// was at 0.
    pub fn new(wall_us: i64, moves: &[ClockMove]) -> Self {
        let ends = moves.iter().map(|next| next.answered).chain([u64::MAX]);
        let offsets = [ClockMove { invoked: 0, answered: 0, offset_us: 0 }];
        let moves = offsets.iter().chain(moves);
        let settings = moves.zip(ends).map(|(step, end)| (step.invoked, end, step.offset_us)).collect();
        Self { wall_us, slack_us: SLACK_US, settings }
    }

    /// Returns the same clock with a known bound on the difference between the two clocks.
    pub fn within(self, slack_us: i64) -> Self {
        Self { slack_us, ..self }
    }

    /// Returns the earliest and the latest possible time of the store between two times of the
    /// test.
    pub fn between(&self, from: u64, to: u64) -> (i64, i64) {
        let held = self.settings.iter().filter(|(begin, end, _)| *begin <= to && from <= *end);
        let times = held.map(|(begin, end, offset)| {
            (self.time(from.max(*begin), offset - self.slack_us), self.time(to.min(*end), offset + self.slack_us))
        });
        times
            .reduce(|(earliest, latest), (early, late)| (earliest.min(early), latest.max(late)))
            .expect("the clock always has a setting")
    }

    /// Returns the first time of the test at which the store's clock may have reached `time`.
    pub fn may_reach(&self, time: i64) -> u64 {
        self.may_show(time, 0)
    }

    /// Returns the first time of the test, from `since` on, at which the store's clock may have
    /// shown `time` or later.
    pub fn may_show(&self, time: i64, since: u64) -> u64 {
        let reached = self.settings.iter().filter_map(|(begin, end, offset)| {
            let moment = u64::try_from(time - self.slack_us - self.wall_us - offset).unwrap_or(0);
            let moment = moment.max(*begin).max(since);
            (moment <= *end).then_some(moment)
        });
        reached.min().unwrap_or(u64::MAX)
    }

    /// Returns the first time of the test, from `since` on, by which the store's clock may have
    /// advanced by this much in total. Steps back are not subtracted.
    pub fn may_advance(&self, since: u64, by_us: i64) -> u64 {
        let reach = |gained: i64| since + u64::try_from(by_us - self.slack_us - gained).unwrap_or(0);
        let (mut gained, mut earliest) = (0, reach(0));
        for (before, after) in self.settings.iter().zip(self.settings.iter().skip(1)) {
            let (step_us, from) = (after.2 - before.2, after.0.max(since));
            if step_us > 0 && before.1 >= since && from < earliest {
                gained += step_us;
                earliest = reach(gained).max(from);
            }
        }
        earliest
    }

    /// Returns the latest possible time, at `at`, of a clock that follows the store's clock but
    /// never goes back.
    pub fn latest_logical(&self, at: u64) -> i64 {
        let steps = self.settings.iter().zip(self.settings.iter().skip(1)).filter(|(_, after)| after.0 <= at);
        let forward_us: i64 = steps.map(|(before, after)| (after.2 - before.2).max(0)).sum();
        self.time(at, self.settings[0].2 + self.slack_us) + forward_us
    }

    /// Returns the first time of the test at which the store's clock has certainly reached `time`.
    pub fn must_reach(&self, time: i64) -> u64 {
        let next = self.settings.iter().skip(1).map(|(begin, ..)| *begin).chain([u64::MAX]);
        let ends_before = [0].into_iter().chain(self.settings.iter().map(|(_, end, _)| *end));
        let reached = self.settings.iter().zip(ends_before).zip(next).filter_map(|(((.., offset), begin), end)| {
            let moment = time.saturating_add(self.slack_us).saturating_sub(self.wall_us).saturating_sub(*offset);
            let moment = u64::try_from(moment).unwrap_or(0).max(begin);
            (moment <= end).then_some(moment)
        });
        reached.min().unwrap_or(u64::MAX)
    }

    fn time(&self, moment: u64, offset_us: i64) -> i64 {
        let moment = i64::try_from(moment).unwrap_or(i64::MAX);
        moment.saturating_add(self.wall_us).saturating_add(offset_us)
    }
}

/// Returns the time of the machine's clock (µs since 1970) when the test's own clock was at 0. Of
/// several readings it takes the fastest one.
pub fn wall_us(now: impl Fn() -> u64) -> i64 {
    let read = || {
        let before = now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock shows a time after 1970");
        let took = now() - before;
        let at = i64::try_from(before + took / 2).expect("no test takes so long");
        (took, i64::try_from(wall.as_micros()).expect("the year is before 290000") - at)
    };
    let (_, wall_us) = (0..READINGS).map(|_| read()).min().expect("there was a reading");
    wall_us
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_set_ahead_by_ten_seconds_between_5_and_6() -> StoreClock {
        let moves = vec![ClockMove { invoked: 5_000_000, answered: 6_000_000, offset_us: 10_000_000 }];
        StoreClock::new(0, &moves)
    }

    #[test]
    fn a_move_may_have_taken_effect_at_any_moment_until_it_is_answered() {
        let clock = clock_set_ahead_by_ten_seconds_between_5_and_6();

        assert_eq!(clock.between(1_000_000, 2_000_000), (0, 3_000_000));
        assert_eq!(clock.between(1_000_000, 5_500_000), (0, 16_500_000));
        assert_eq!(clock.between(5_500_000, 7_000_000), (4_500_000, 18_000_000));
        assert_eq!(clock.between(6_000_001, 7_000_000), (15_000_001, 18_000_000));
    }

    #[test]
    fn a_time_may_be_reached_by_a_move_or_by_waiting() {
        let clock = clock_set_ahead_by_ten_seconds_between_5_and_6();

        assert_eq!(clock.may_reach(4_000_000), 3_000_000);
        assert_eq!(clock.may_reach(12_000_000), 5_000_000);
        assert_eq!(clock.may_reach(20_000_000), 9_000_000);
    }

    #[test]
    fn a_time_may_be_shown_again_after_a_step_back() {
        let moves = vec![
            ClockMove { invoked: 1_000_000, answered: 1_000_000, offset_us: 10_000_000 },
            ClockMove { invoked: 2_000_000, answered: 2_000_000, offset_us: 0 },
        ];
        let clock = StoreClock::new(0, &moves).within(500_000);

        assert_eq!(clock.may_show(11_000_000, 0), 1_000_000);
        assert_eq!(clock.may_show(11_000_000, 1_500_000), 1_500_000);
        assert_eq!(clock.may_show(11_000_000, 2_000_001), 10_500_000);
    }

    #[test]
    fn a_time_is_reached_for_certain_when_the_move_is_answered() {
        let clock = clock_set_ahead_by_ten_seconds_between_5_and_6();

        assert_eq!(clock.must_reach(3_000_000), 4_000_000);
        assert_eq!(clock.must_reach(12_000_000), 6_000_000);
        assert_eq!(clock.must_reach(20_000_000), 11_000_000);
    }
}
