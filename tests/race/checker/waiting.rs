//! Which messages may have had to wait until the store's clock showed their rank: delayed ones, and
//! those that would have taken a place behind which something was still waiting.

use std::collections::HashMap;

use super::feed::{Message, NEVER};
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

/// Clears the mark of all that certainly did not wait. Messages come in the order of the feed.
pub(super) fn mark_who_waits(history: &History, messages: &mut [Message], clock: &StoreClock) {
    let delays = messages.iter().any(|message| message.delay_s > 0)
        || history.posts.iter().flat_map(|post| &post.drafts).any(|draft| history.delay_s(*draft) > 0);
    if !delays {
        for message in messages {
            message.waits = false;
        }
        return;
    }
    let doubts = doubts(history, messages, clock);
    let mut lasts: HashMap<usize, usize> = HashMap::new();
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| message.delay_s == 0) {
        lasts.insert(message.post, index);
    }
    let mut lasts: Vec<(usize, usize)> = lasts.into_iter().map(|(post, last)| (last, post)).collect();
    lasts.sort_unstable();
    for (last, post) in lasts {
        let span = history.posts[post].span;
        let answered = span.answered.unwrap_or(NEVER);
        let low = clock.between(span.invoked, answered).0;
        let before = || messages[..last].iter().rev().take_while(|message| message.rank() > low);
        let is_own = |message: &Message| message.post == post && message.delay_s == 0;
        // What was visible before the post began kept nobody waiting.
        let kept_it = |other: &Message| {
            let begun = history.posts[other.post].span.invoked;
            other.waits && !is_own(other) && begun < answered && other.there_by >= span.invoked
        };
        if before().any(kept_it) || doubts.iter().any(|doubt| doubt.invoked < answered && low < doubt.below) {
            continue;
        }
        for message in messages[..=last].iter_mut().rev() {
            if !(message.post == post && message.delay_s == 0) {
                break;
            }
            message.waits = false;
        }
    }
}
