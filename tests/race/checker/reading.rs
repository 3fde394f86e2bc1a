//! The observers' reading of the feed, page by page.

use uuid::Uuid;

use super::feed::{Feed, Message};
use super::{Rule, Summary, Violation};
use crate::race::history::{History, Page};
use crate::support::chronicle::Moment;
use crate::support::chronicle::clock::StoreClock;

/// How far every observer has come.
pub(super) struct Reading<'a> {
    history: &'a History,
    feed: Feed,
    clock: &'a StoreClock,
    /// The last message that each observer got.
    reached: Vec<Option<Uuid>>,
    summary: Summary,
}

impl<'a> Reading<'a> {
    pub(super) fn new(history: &'a History, feed: Feed, clock: &'a StoreClock, summary: Summary) -> Self {
        Self { history, feed, clock, reached: vec![None; history.observers.len()], summary }
    }

    /// Judges one page; they come in the order of their answers.
    pub(super) fn turn(&mut self, page: &Page) -> Result<(), Violation> {
        let reached = self.reached[page.observer];
        if page.marker != reached {
            let what = format!("observer {} has come to {reached:?}", page.observer);
            return Err(self.violation(Rule::Marker, what, &[]).at(page));
        }
        if page.messages.len() > page.limit {
            let what = format!("{} messages on a page of {}", page.messages.len(), page.limit);
            return Err(self.violation(Rule::Limit, what, &[]).at(page));
        }
        self.note_marker(page);
        for seen in &page.messages {
            let index = self.feed.find(seen.id).expect("the feed holds all that was delivered");
            self.deliver(page, index)?;
        }
        self.check_nothing_is_missing(page)?;
        self.summary.pages += 1;
        self.summary.pages_empty += usize::from(page.messages.is_empty());
        Ok(())
    }

    /// Judges the end: everybody has read everything.
    pub(super) fn close(self) -> Result<Summary, Violation> {
        let end = self.history.pages.iter().map(|page| page.answered).max().unwrap_or(0);
        for index in 0..self.history.observers.len() {
            let last = self.history.pages.iter().rfind(|page| page.observer == index);
            if !last.is_some_and(|page| page.messages.is_empty() && page.invoked > self.history.quiet) {
                let what = format!("observer {index} stopped before the end of the feed");
                return Err(self.violation(Rule::Unfinished, what, &[]));
            }
        }
        let low = self.clock.between(self.history.quiet, end).0;
        for message in &self.feed.messages {
            if !message.is_there(self.history.quiet + 1, low) || message.leaves_from <= end {
                continue;
            }
            let producer = self.history.posts[message.post].producer;
            let mut observers = self.history.observers.iter().enumerate();
            let deprived = observers.find(|(index, it)| it.hears(producer) && message.seen_by & 1 << index == 0);
            if let Some((index, _)) = deprived {
                let what = format!("observer {index} never got {}", message.tag);
                return Err(self.violation(Rule::Missed, what, &[message]));
            }
        }
        self.check_nothing_is_halved(end)?;
        Ok(self.summary)
    }

    fn deliver(&mut self, page: &Page, index: usize) -> Result<(), Violation> {
        let message = self.feed.messages[index];
        let (observer, bit) = (page.observer, 1 << page.observer);
        let refuse = |rule, what| Err(self.violation(rule, what, &[&message]).at(page));
        if message.seen_by & bit != 0 {
            return refuse(Rule::Repeated, format!("observer {observer} got {} again", message.tag));
        }
        if self.reached[observer] >= Some(message.id) {
            return refuse(Rule::Unordered, format!("observer {observer} was already beyond {}", message.tag));
        }
        if !self.history.observers[observer].hears(self.history.posts[message.post].producer) {
            return refuse(Rule::Echoed, format!("{} is of observer {observer}'s own client", message.tag));
        }
        if message.delay_s > 0 && message.due_from > page.answered {
            let due = Moment(message.due_from);
            return refuse(
                Rule::Early,
                format!("{} was not due before {due}, observer {observer} got it", message.tag),
            );
        }
        if message.gone_by < page.invoked {
            let since = Moment(message.gone_by);
            return refuse(Rule::Ended, format!("{} was gone by {since}, observer {observer} got it", message.tag));
        }
        if self.has_expired(&message, page) {
            let (end, now) =
                (message.expired_at / 1_000_000, self.clock.between(page.invoked, page.answered).0 / 1_000_000);
            let what =
                format!("{} ended by {end} of the store's clock, observer {observer} got it after {now}", message.tag);
            return refuse(Rule::Ended, what);
        }
        self.feed.messages[index].seen_by |= bit;
        self.reached[observer] = Some(message.id);
        self.summary.observed += 1;
        self.summary.delayed += usize::from(message.delay_s > 0);
        Ok(())
    }

    /// Up to a page's last message it has all there is. An empty page says that there are no more; a short one does not, because
    /// messages may have ended while it was made. What waits for the clock need not be there yet, but not be missing
    /// before what is.
    fn check_nothing_is_missing(&mut self, page: &Page) -> Result<(), Violation> {
        let observer = self.history.observers[page.observer];
        let is_the_end = page.messages.is_empty();
        let last = page.messages.last().map(|seen| seen.id);
        let low = self.clock.between(page.invoked, page.answered).0;
        let due = self.feed.above(low);
        for index in self.feed.behind(page.marker)..self.feed.messages.len() {
            let message = self.feed.messages[index];
            let is_beyond = Some(message.id) > last;
            if is_beyond && !(is_the_end && (index < due || self.feed.reaches_on(index, page.invoked))) {
                self.note_kept_back(&message, is_the_end, page);
                break;
            }
            if message.seen_by & 1 << page.observer != 0 {
                continue;
            }
            if is_beyond && !message.is_there(page.invoked, low) {
                self.note_kept_back(&message, is_the_end, page);
                continue;
            }
            if !observer.hears(self.history.posts[message.post].producer) {
                self.summary.filtered += usize::from(!is_beyond);
            } else if message.leaves_from <= page.answered {
                // Whoever asks from now on must not get it either.
                self.feed.messages[index].gone_by = message.gone_by.min(page.answered);
                self.summary.passed_over += 1;
            } else {
                let what = format!("observer {} did not get {}", page.observer, message.tag);
                return Err(self.violation(Rule::Missed, what, &[&message]).at(page));
            }
        }
        Ok(())
    }

    /// A request whose answer was lost has been carried out as a whole or not at all.
    fn check_nothing_is_halved(&self, end: u64) -> Result<(), Violation> {
        let mut first_known = vec![None; self.history.posts.len()];
        for message in self.feed.messages.iter().filter(|message| message.there_by <= self.history.quiet) {
            first_known[message.post].get_or_insert(message);
        }
        for (post, known) in self.history.posts.iter().zip(first_known) {
            let (Some(known), None) = (known, post.span.answered) else { continue };
            let earliest = self.clock.between(post.span.invoked, u64::MAX).0;
            let stays = |ttl_s| self.clock.may_reach(earliest + i64::from(ttl_s) * 1_000_000) > end;
            let is_known = |tag| self.feed.messages.iter().any(|message| message.tag == tag);
            if let Some(lost) = post.drafts.iter().find(|draft| stays(draft.ttl_s) && !is_known(draft.tag)) {
                let what = format!("{} was stored, {} of the same request was not", known.tag, lost.tag);
                return Err(self.violation(Rule::Halved, what, &[known]));
            }
        }
        Ok(())
    }

    fn note_kept_back(&mut self, message: &Message, is_the_end: bool, page: &Page) {
        let is_heard = self.history.observers[page.observer].hears(self.history.posts[message.post].producer);
        let kept = is_heard && is_the_end && message.stored_by < page.invoked && message.leaves_from > page.answered;
        self.summary.kept_back += usize::from(kept);
    }

    fn note_marker(&mut self, page: &Page) {
        let Some(marker) = page.marker.and_then(|marker| self.feed.find(marker)) else { return };
        let message = self.feed.messages[marker];
        if message.deleted_by < page.invoked {
            self.summary.markers_deleted += 1;
        } else if self.has_expired(&message, page) {
            self.summary.markers_expired += 1;
        }
    }

    fn has_expired(&self, message: &Message, page: &Page) -> bool {
        message.leaves_from <= page.invoked && message.expired_at <= self.clock.between(page.invoked, page.answered).0
    }

    fn violation(&self, rule: Rule, what: String, about: &[&Message]) -> Violation {
        let about: Vec<_> = about.iter().map(|message| message.seen()).collect();
        Violation::new(self.history, rule, what, &about)
    }
}
