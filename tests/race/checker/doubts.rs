//! Posts without an answer, whose messages may have been anywhere in the feed.

use std::collections::HashMap;

use super::feed::Message;
use crate::race::history::History;
use crate::support::chronicle::clock::StoreClock;

/// What a server sent before it was killed is carried out by then, or never.
const LATE_US: u64 = 5_000_000;
/// What ranks may be ahead of the clock because others were there first.
const CROWD_US: i64 = 1_000_000;

/// A post without an answer, some of whose messages nobody ever saw: they may have been anywhere.
pub(super) struct Doubt {
    pub(super) invoked: u64,
    /// They stand before this.
    pub(super) below: i64,
    pub(super) count: usize,
}

pub(super) fn doubts(history: &History, messages: &[Message], clock: &StoreClock) -> Vec<Doubt> {
    let mut known: HashMap<usize, usize> = HashMap::new();
    for message in messages {
        *known.entry(message.post).or_default() += 1;
    }
    let posts = history.posts.iter().enumerate();
    let lost = posts.filter(|(index, post)| known.get(index).is_none_or(|count| *count < post.drafts.len()));
    let doubts = lost.map(|(_, post)| {
        let longest_s = post.drafts.iter().map(|draft| history.delay_s(*draft)).max().unwrap_or(0);
        let latest = clock.between(0, post.span.invoked + LATE_US).1;
        let below = latest + i64::from(longest_s) * 1_000_000 + CROWD_US;
        Doubt { invoked: post.span.invoked, below, count: post.drafts.len() }
    });
    doubts.collect()
}
