//! A broken promise, told with the events that show it.

use std::fmt;

use crate::race::history::{History, Page, Seen};

/// Enough of an event to recognise it; the history has all.
const EVENT_CHARS_MAX: usize = 600;
const DELIVERIES_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::race) enum Rule {
    /// A receipt names one id for each message.
    Receipt,
    /// A request's messages of one delay stand in the order given.
    BatchUnordered,
    /// They stand next to each other, if there is room.
    BatchSplit,
    /// A request is carried out as a whole or not at all.
    Halved,
    /// What is posted later stands behind.
    Overtaken,
    /// The place of a message is not before the end of its delay.
    DueEarly,
    /// The place of a message is not behind that without a reason.
    DueLate,
    /// An id is given once.
    IdTwice,
    /// No two messages have the same place in the feed.
    RankTwice,
    /// A message has one id.
    TwoIds,
    /// What is delivered was posted.
    Invented,
    /// An observer goes on where it was.
    Marker,
    /// A page is not longer than asked for.
    Limit,
    /// Nobody gets a message twice.
    Repeated,
    /// Everybody gets messages in the order of the feed.
    Unordered,
    /// `echo=false` leaves out one's own messages.
    Echoed,
    /// What has ended is not delivered.
    Ended,
    /// Nobody gets a message before it is due.
    Early,
    /// Nobody misses a message.
    Missed,
    /// Every observer reads to the end.
    Unfinished,
}

#[derive(Debug)]
pub(in crate::race) struct Violation {
    pub(in crate::race) rule: Rule,
    seed: u64,
    what: String,
    events: Vec<String>,
}

impl Violation {
    /// Tells the lives of the messages that it is about.
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

    /// Names the page that shows it.
    pub(super) fn at(mut self, page: &Page) -> Self {
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
