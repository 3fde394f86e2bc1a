//! Reproducible random choices: a test prints its seed, and `SUKKAL_SEED` sets it.

use std::ops::RangeInclusive;

const VARIABLE: &str = "SUKKAL_SEED";

/// The random choices of one actor of a test.
pub struct Random(fastrand::Rng);

/// Returns the seed that `SUKKAL_SEED` sets, or a new one, and prints it. A test calls this once,
/// because a test that passes prints at most one line.
pub fn seed() -> u64 {
    let seed = match std::env::var(VARIABLE) {
        Ok(text) => text.parse().expect("SUKKAL_SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("{VARIABLE}={seed}");
    seed
}

impl Random {
    /// Creates the choices of one of several actors that share a seed, by its role and its number.
    pub fn new(seed: u64, role: u64, number: usize) -> Self {
        // Actors with neighboring numbers start at distant states.
        let start = fastrand::Rng::with_seed(seed ^ (role << 32) ^ number as u64).u64(..);
        Self(fastrand::Rng::with_seed(start))
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// Returns a number in the range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.u64(range)
    }

    /// Returns `true` once in `calls` calls on average.
    pub fn one_in(&mut self, calls: u64) -> bool {
        self.0.u64(..calls) == 0
    }

    /// Returns one of the items, or `None` if there is none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        self.0.choice(items)
    }
}
