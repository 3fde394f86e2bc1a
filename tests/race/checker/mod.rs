//! Judges a history: whatever was deleted or expired meanwhile, every observer must have read the
//! same feed, from its beginning to its end, with nothing missing and nothing twice, and of delayed
//! messages all that were due, and none before. `order.rs` says what places they get, `reading.rs` what pages show.
//!
//! A pure function. Where the history leaves open what happened when (requests overlap, an answer
//! was lost, a clock was being moved), whatever may have happened is right.

mod doubts;
mod feed;
mod order;
mod reading;
mod violation;

#[cfg(test)]
mod tests;

use super::history::{History, Page};
use feed::Feed;
use order::Order;
use reading::Reading;
pub(super) use violation::{Rule, Violation};

use crate::support::chronicle::clock::StoreClock;

/// How much there was to get wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) posted: usize,
    pub(super) observed: usize,
    pub(super) pages: usize,
    pub(super) pages_empty: usize,
    /// Lists whose marker was certainly deleted, or expired, when they began.
    pub(super) markers_deleted: usize,
    pub(super) markers_expired: usize,
    /// How often a page was right to leave out a message which had ended.
    pub(super) passed_over: usize,
    /// Messages an observer did not get because they were its own.
    pub(super) filtered: usize,
    /// Deliveries of delayed messages, and lists that rightly ended before a message which was not due.
    pub(super) delayed: usize,
    pub(super) kept_back: usize,
    /// Requests whose messages do not stand next to each other, since there was no room.
    pub(super) spread: usize,
}

/// The first violation, if there is one. Orders of posts come first, then pages by their answers.
pub(super) fn check(history: &History) -> Result<Summary, Violation> {
    let mut pages: Vec<&Page> = history.pages.iter().collect();
    pages.sort_by_key(|page| page.answered);
    let clock = StoreClock::new(history.wall_us, &history.moves).within(history.slack_us);
    let feed = Feed::of(history, &pages, &clock)?;
    let order = Order::new(history, &feed, &clock);
    order.check()?;
    let posted = history.posts.iter().map(|post| post.drafts.len()).sum();
    let summary = Summary { posted, spread: order.spread(), ..Summary::default() };

    let mut reading = Reading::new(history, feed, &clock, summary);
    for page in &pages {
        reading.turn(page)?;
    }
    reading.close()
}
