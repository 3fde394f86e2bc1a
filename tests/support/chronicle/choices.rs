//! Chance that can be had again: `SUKKAL_SEED` gives every actor the choices it had (`SplitMix64`).

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

const VARIABLE: &str = "SUKKAL_SEED";

/// The choices of one actor.
pub(crate) struct Choices(u64);

/// The seed that was asked for, or else a new one.
pub(crate) fn seed() -> u64 {
    if let Ok(text) = std::env::var(VARIABLE) {
        return text.parse().expect("SUKKAL_SEED is a number");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    now.as_secs() ^ u64::from(now.subsec_nanos())
}

impl Choices {
    pub(crate) fn of(seed: u64, role: u64, number: usize) -> Self {
        let mut choices = Self(seed ^ (role << 32) ^ (number as u64));
        // Neighbours begin far from each other.
        let start = choices.draw();
        Self(start)
    }

    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.draw() % (range.end() - range.start() + 1)
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.draw().is_multiple_of(chances)
    }

    /// `None` only if there is nothing to choose from.
    pub(crate) fn among<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let last = all.len().checked_sub(1)?;
        usize::try_from(self.within(0..=last as u64)).ok().and_then(|index| all.get(index))
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
