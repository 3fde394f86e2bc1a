//! Judges a history: whatever was deleted or expired meanwhile, every observer must have read the
//! same feed, from its beginning to its end, with nothing missing and nothing twice.
//!
//! A pure function. Where the history leaves open what happened when (requests overlap, an answer
//! was lost, a clock was being moved), whatever may have happened is right.

mod feed;
mod reading;
mod violation;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::history::{History, Page};
use feed::Feed;
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
}

/// The first violation, if there is one. Orders of posts come first, then pages by their answers.
pub(super) fn check(history: &History) -> Result<Summary, Violation> {
    let mut pages: Vec<&Page> = history.pages.iter().collect();
    pages.sort_by_key(|page| page.answered);
    let clock = StoreClock::new(history.wall_us, &history.moves);
    let feed = Feed::of(history, &pages, &clock)?;
    check_batches(history, &feed)?;
    check_real_time(history, &feed)?;

    let mut reading = Reading::new(history, feed, &clock);
    for page in &pages {
        reading.turn(page)?;
    }
    reading.close()
}

/// The messages of one request are next to each other, in the order given.
fn check_batches(history: &History, feed: &Feed) -> Result<(), Violation> {
    let mut ended = HashSet::new();
    for pair in feed.messages.windows(2) {
        let [earlier, later] = pair else { continue };
        if earlier.post == later.post {
            if earlier.tag > later.tag {
                let what = format!("{} comes before {} in its request, behind it in the feed", later.tag, earlier.tag);
                return Err(Violation::new(history, Rule::BatchUnordered, what, &[earlier.seen(), later.seen()]));
            }
            continue;
        }
        ended.insert(earlier.post);
        if ended.contains(&later.post) {
            let what = format!("between {} and others of its request stands {}", later.tag, earlier.tag);
            return Err(Violation::new(history, Rule::BatchSplit, what, &[earlier.seen(), later.seen()]));
        }
    }
    Ok(())
}

/// What was posted after another post was answered stands behind it.
fn check_real_time(history: &History, feed: &Feed) -> Result<(), Violation> {
    let mut firsts = vec![None; history.posts.len()];
    let mut lasts = firsts.clone();
    for message in &feed.messages {
        firsts[message.post].get_or_insert(message);
        lasts[message.post] = Some(message);
    }
    let posts = || history.posts.iter().enumerate();
    let mut begun: Vec<_> = posts().filter_map(|(index, post)| Some((post.span.invoked, firsts[index]?))).collect();
    let mut answered: Vec<_> = posts().filter_map(|(index, post)| Some((post.span.answered?, lasts[index]?))).collect();
    begun.sort_by_key(|(moment, _)| *moment);
    answered.sort_by_key(|(moment, _)| *moment);

    let mut answered = answered.into_iter().peekable();
    let mut behind = None;
    for (moment, first) in begun {
        while let Some((_, last)) = answered.next_if(|(end, _)| *end < moment) {
            behind = behind.max(Some((last.id, last)));
        }
        if let Some((_, last)) = behind.filter(|(id, _)| *id > first.id) {
            let what = format!("{} was posted after {} was answered, and stands before it", first.tag, last.tag);
            return Err(Violation::new(history, Rule::Overtaken, what, &[last.seen(), first.seen()]));
        }
    }
    Ok(())
}
