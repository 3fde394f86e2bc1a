//! Posts without a response, whose messages may have been anywhere in the feed.

use std::collections::HashMap;

use super::feed::Message;
use crate::feed_order::history::History;
use support::timeline::clock::StoreClock;

/// Time after which a request sent to a killed server has been executed or never will be, in
/// microseconds.
const LATE_US: u64 = 5_000_000;
/// Largest lead of ranks over the clock because earlier messages took the ranks, in microseconds.
const RANK_LEAD_MAX_US: i64 = 1_000_000;

/// A post without a response, some of whose messages no observer ever saw. They may have been
/// anywhere.
pub(super) struct UnknownPost {
    pub(super) invoked: u64,
    /// Upper bound of the ranks of its messages.
    pub(super) below: i64,
    pub(super) count: usize,
}

pub(super) fn unknown_posts(history: &History, messages: &[Message], clock: &StoreClock) -> Vec<UnknownPost> {
    let mut known: HashMap<usize, usize> = HashMap::new();
    for message in messages {
        *known.entry(message.post).or_default() += 1;
    }
    let posts = history.posts.iter().enumerate();
    let lost = posts.filter(|(index, post)| known.get(index).is_none_or(|count| *count < post.drafts.len()));
    let unknown_posts = lost.map(|(_, post)| {
        let longest_s = post.drafts.iter().map(|draft| history.delay_s(*draft)).max().unwrap_or(0);
        let latest = clock.between(0, post.span.invoked + LATE_US).1;
        let below = latest + i64::from(longest_s) * 1_000_000 + RANK_LEAD_MAX_US;
        UnknownPost { invoked: post.span.invoked, below, count: post.drafts.len() }
    });
    unknown_posts.collect()
}
