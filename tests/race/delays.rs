//! Which delays the producers of a race choose.

use std::time::Duration;

use super::actors::PRODUCERS;
use crate::support::chronicle::choices::Choices;

/// The queue delays messages, and they may say by how much themselves.
#[derive(Clone, Copy)]
pub(super) struct Delays {
    pub(super) default_s: u32,
}

/// How the messages of one request are delayed.
#[derive(Clone, Copy)]
pub(super) enum Manner {
    Same(Option<u32>),
    Mixed,
}

impl Delays {
    pub(super) const MOST_S: u32 = 3;
    /// So many messages of one request, now and then.
    pub(super) const AT_ONCE: u64 = 1_000;
    const AT_ONCE_EVERY: usize = 120;
    /// An observer at the end of the feed looks again after this.
    pub(super) const PATIENCE: Duration = Duration::from_millis(30);

    /// Whether a producer's next post is a great many.
    pub(super) fn are_posted_at_once(producer: usize, posts: usize) -> bool {
        producer == PRODUCERS - 1 && posts % Self::AT_ONCE_EVERY == Self::AT_ONCE_EVERY / 4
    }

    /// The delays of a great many messages, by how many posts were before.
    pub(super) fn of_many(posts: usize) -> Manner {
        match posts / Self::AT_ONCE_EVERY % 3 {
            0 => Manner::Same(Some(Self::MOST_S)),
            1 => Manner::Same(Some(0)),
            _ => Manner::Mixed,
        }
    }

    pub(super) fn choose(choices: &mut Choices) -> Manner {
        match choices.within(0..=7) {
            0..=2 => Manner::Same(Some(0)),
            3 => Manner::Same(None),
            4..=5 => Manner::Same(Some(some_delay_s(choices))),
            _ => Manner::Mixed,
        }
    }
}

impl Manner {
    pub(super) fn delay_s(self, choices: &mut Choices) -> Option<u32> {
        match self {
            Self::Same(delay_s) => delay_s,
            Self::Mixed if choices.one_in(4) => None,
            Self::Mixed => Some(some_delay_s(choices)),
        }
    }
}

fn some_delay_s(choices: &mut Choices) -> u32 {
    let delay_s = choices.within(0..=Delays::MOST_S.into());
    u32::try_from(delay_s).expect("it is small")
}
