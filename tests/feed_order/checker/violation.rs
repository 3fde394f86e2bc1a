//! A violation of a rule, shown with the events that prove it.

use std::fmt;

use crate::feed_order::history::{History, Page, Seen};

/// Enough characters to recognize an event; the history has all of it.
const EVENT_CHARS_MAX: usize = 600;
const DELIVERIES_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::feed_order) enum Rule {
    /// A receipt has one id for each message.
    Receipt,
    /// Messages of a request with the same delay are in the order of the request.
    BatchUnordered,
    /// These messages are adjacent if the positions are free.
    BatchSplit,
    /// A request is executed completely or not at all.
    NotAtomic,
    /// Later posts follow earlier ones.
    Overtaken,
    /// The position of a message is not before the end of its delay.
    DueEarly,
    /// The position of a message is not after the end of its delay without a reason.
    DueLate,
    /// An id is assigned once.
    IdTwice,
    /// No two messages have the same position in the feed.
    RankTwice,
    /// A message has one id.
    TwoIds,
    /// A delivered message was posted.
    Invented,
    /// An observer continues from its marker.
    Marker,
    /// A page is not longer than its limit.
    Limit,
    /// No observer receives a message twice.
    Repeated,
    /// Every observer receives messages in the order of the feed.
    Unordered,
    /// `echo=false` leaves out the caller's own messages.
    Echoed,
    /// A message that has ended is not delivered.
    Ended,
    /// No observer receives a message before it is due.
    Early,
    /// No observer misses a message.
    Missed,
    /// Every observer reads to the end.
    Unfinished,
}

#[derive(Debug)]
pub(in crate::feed_order) struct Violation {
    pub(in crate::feed_order) rule: Rule,
    seed: u64,
    what: String,
    events: Vec<String>,
}

impl Violation {
    /// Creates a violation that shows the lives of these messages.
    pub(super) fn new(history: &History, rule: Rule, what: String, about: &[Seen]) -> Self {
        let mut events = Vec::new();
        for seen in about {
            let posts = history.posts.iter().filter(|post| post.drafts.iter().any(|draft| draft.tag == seen.tag));
            let deletes = history.deletes.iter().filter(|delete| delete.ids.contains(&seen.id));
            let mut pages: Vec<&Page> = history.pages.iter().filter(|page| page.messages.contains(seen)).collect();
            pages.sort_by_key(|page| page.answered);
            pages.truncate(DELIVERIES_MAX);
            events.extend(posts.map(ToString::to_string));
            events.extend(deletes.map(ToString::to_string));
            events.extend(pages.iter().map(ToString::to_string));
        }
        Self { rule, seed: history.seed, what, events }
    }

    /// Adds the page that shows the violation.
    pub(super) fn with_page(mut self, page: &Page) -> Self {
        self.events.insert(0, page.to_string());
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} (seed {})", self.rule, self.what, self.seed)?;
        for event in &self.events {
            let short: String = event.chars().take(EVENT_CHARS_MAX).collect();
            let more = if short.len() < event.len() { "…" } else { "" };
            write!(f, "\n  {short}{more}")?;
        }
        Ok(())
    }
}
