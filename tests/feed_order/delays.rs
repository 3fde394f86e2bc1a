//! The delays that the producers of a race choose.

use std::time::Duration;

use super::actors::PRODUCERS;
use support::random::Random;

/// Delays of a queue with a default delay, whose messages can also set their own.
#[derive(Clone, Copy)]
pub(super) struct Delays {
    pub(super) default_s: u32,
}

/// The delays of the messages of one request.
#[derive(Clone, Copy)]
pub(super) enum DelayChoice {
    Same(Option<u32>),
    Mixed,
}

impl Delays {
    pub(super) const MOST_S: u32 = 3;
    /// Number of messages of an occasional large post.
    pub(super) const LARGE_POST: u64 = 1_000;
    const LARGE_POST_EVERY: usize = 120;
    /// Time after which an observer at the end of the feed lists again.
    pub(super) const REREAD_AFTER: Duration = Duration::from_millis(30);

    /// Returns whether a producer's next post is a large one.
    pub(super) fn is_large_post(producer: usize, posts: usize) -> bool {
        producer == PRODUCERS - 1 && posts % Self::LARGE_POST_EVERY == Self::LARGE_POST_EVERY / 4
    }

    /// Returns the delays of a large post, depending on the number of earlier posts.
    pub(super) fn for_large_post(posts: usize) -> DelayChoice {
        match posts / Self::LARGE_POST_EVERY % 3 {
            0 => DelayChoice::Same(Some(Self::MOST_S)),
            1 => DelayChoice::Same(Some(0)),
            _ => DelayChoice::Mixed,
        }
    }

    pub(super) fn choose(random: &mut Random) -> DelayChoice {
        match random.within(0..=7) {
            0..=2 => DelayChoice::Same(Some(0)),
            3 => DelayChoice::Same(None),
            4..=5 => DelayChoice::Same(Some(some_delay_s(random))),
            _ => DelayChoice::Mixed,
        }
    }
}

impl DelayChoice {
    pub(super) fn delay_s(self, random: &mut Random) -> Option<u32> {
        match self {
            Self::Same(delay_s) => delay_s,
            Self::Mixed if random.one_in(4) => None,
            Self::Mixed => Some(some_delay_s(random)),
        }
    }
}

fn some_delay_s(random: &mut Random) -> u32 {
    let delay_s = random.within(0..=Delays::MOST_S.into());
    u32::try_from(delay_s).expect("it is small")
}
