//! Checks a history. Whatever was deleted or expired meanwhile, every observer must have read the
//! same feed from its beginning to its end, with nothing missing and nothing repeated. Of delayed
//! messages it must have read all that were due and no others. `order.rs` checks the positions,
//! `reading.rs` the pages.
//!
//! The check is a pure function. Where the history leaves the order of events open, every possible
//! order is accepted: requests overlap, a response was lost, or a clock was being moved.

mod feed;
mod order;
mod reading;
mod unknown_posts;
mod violation;

#[cfg(test)]
mod tests;

use super::history::{History, Page};
use feed::Feed;
use order::Order;
use reading::Reading;
pub(super) use violation::{Rule, Violation};

use support::timeline::clock::StoreClock;

/// Counts of the events that could have gone wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) posted: usize,
    pub(super) observed: usize,
    pub(super) pages: usize,
    pub(super) pages_empty: usize,
    /// Lists whose marker was certainly deleted, or expired, when they began.
    pub(super) markers_deleted: usize,
    pub(super) markers_expired: usize,
    /// Number of times that a page rightly left out a message because it had ended.
    pub(super) passed_over: usize,
    /// Messages that an observer did not receive because they were its own.
    pub(super) filtered: usize,
    /// Deliveries of delayed messages, and lists that rightly ended before a message that was not
    /// due.
    pub(super) delayed: usize,
    pub(super) kept_back: usize,
    /// Requests whose messages are not adjacent, because no adjacent positions were free.
    pub(super) spread: usize,
}

/// Returns the first violation, if there is one. Positions of posts are checked first, then pages
/// in the order of their responses.
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
        reading.check_page(page)?;
    }
    reading.check_end()
}
