//! Chance that can be replayed: every test that rolls dice prints its seed, and `SUKKAL_SEED` sets it.

use uuid::Uuid;

/// The seed that is asked for, or else a new one; said aloud, which is seen when the test fails.
pub(super) fn seed() -> u64 {
    let asked = std::env::var("SUKKAL_SEED").ok();
    let seed = match asked {
        Some(text) => text.parse().expect("SUKKAL_SEED is a number"),
        None => Uuid::new_v4().as_u64_pair().0,
    };
    println!("SUKKAL_SEED={seed}");
    seed
}

/// `SplitMix64`: small, and the same everywhere.
pub(super) struct Dice(u64);

impl Dice {
    /// The dice of one of several players, who share a seed.
    pub(super) fn new(seed: u64, player: u64) -> Self {
        Self(seed ^ player.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// A number below `sides`.
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let sides = u64::try_from(sides).expect("a usize fits");
        usize::try_from((mixed ^ (mixed >> 31)) % sides).expect("it is below a usize")
    }
}
