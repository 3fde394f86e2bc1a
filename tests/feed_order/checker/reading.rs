//! Checks the pages that observers read.

use std::collections::HashSet;

use uuid::Uuid;

use super::feed::{Feed, Message};
use super::{Rule, Summary, Violation};
use crate::feed_order::history::{History, Page};
use support::timeline::Moment;
use support::timeline::clock::StoreClock;

/// The progress of every observer.
pub(super) struct Reading<'a> {
    history: &'a History,
    feed: Feed,
    clock: &'a StoreClock,
    /// The last message that each observer received.
    reached: Vec<Option<Uuid>>,
    summary: Summary,
}

impl<'a> Reading<'a> {
    pub(super) fn new(history: &'a History, feed: Feed, clock: &'a StoreClock, summary: Summary) -> Self {
        Self { history, feed, clock, reached: vec![None; history.observers.len()], summary }
    }

    /// Checks one page. Pages come in the order of their responses.
    pub(super) fn check_page(&mut self, page: &Page) -> Result<(), Violation> {
        let reached = self.reached[page.observer];
        if page.marker != reached {
            let what = format!("observer {} has come to {reached:?}", page.observer);
            return Err(self.violation(Rule::Marker, what, &[]).with_page(page));
        }
        if page.messages.len() > page.limit {
            let what = format!("{} messages on a page of {}", page.messages.len(), page.limit);
            return Err(self.violation(Rule::Limit, what, &[]).with_page(page));
        }
        self.note_marker(page);
        for seen in &page.messages {
            let index = self.feed.find(seen.id).expect("the feed contains all delivered messages");
            self.deliver(page, index)?;
        }
        self.check_completeness(page)?;
        self.summary.pages += 1;
        self.summary.pages_empty += usize::from(page.messages.is_empty());
        Ok(())
    }

    /// Checks the end: every observer has read everything.
    pub(super) fn check_end(self) -> Result<Summary, Violation> {
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
            if !message.is_present(self.history.quiet + 1, low) || message.leaves_from <= end {
                continue;
            }
            let producer = self.history.posts[message.post].producer;
            let mut observers = self.history.observers.iter().enumerate();
            let deprived =
                observers.find(|(index, it)| it.receives_from(producer) && message.seen_by & 1 << index == 0);
            if let Some((index, _)) = deprived {
                let what = format!("observer {index} never got {}", message.tag);
                return Err(self.violation(Rule::Missed, what, &[message]));
            }
        }
        self.check_atomicity(end)?;
        Ok(self.summary)
    }

    fn deliver(&mut self, page: &Page, index: usize) -> Result<(), Violation> {
        let message = self.feed.messages[index];
        let (observer, bit) = (page.observer, 1 << page.observer);
        let refuse = |rule, what| Err(self.violation(rule, what, &[&message]).with_page(page));
        if message.seen_by & bit != 0 {
            return refuse(Rule::Repeated, format!("observer {observer} got {} again", message.tag));
        }
        if self.reached[observer] >= Some(message.id) {
            return refuse(Rule::Unordered, format!("observer {observer} was already beyond {}", message.tag));
        }
        if !self.history.observers[observer].receives_from(self.history.posts[message.post].producer) {
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

    /// Up to its last message, a page has all messages. An empty page means that no more exist; a
    /// short page does not, because messages may have ended while it was assembled. A delayed
    /// message may be absent, unless it precedes a message of the page.
    fn check_completeness(&mut self, page: &Page) -> Result<(), Violation> {
        let observer = self.history.observers[page.observer];
        let is_the_end = page.messages.is_empty();
        let last = page.messages.last().map(|seen| seen.id);
        let low = self.clock.between(page.invoked, page.answered).0;
        let due = self.feed.index_above(low);
        for index in self.feed.after(page.marker)..self.feed.messages.len() {
            let message = self.feed.messages[index];
            let is_beyond = Some(message.id) > last;
            if is_beyond && !(is_the_end && (index < due || self.feed.is_any_present(index, page.invoked))) {
                self.note_kept_back(&message, is_the_end, page);
                break;
            }
            if message.seen_by & 1 << page.observer != 0 {
                continue;
            }
            if is_beyond && !message.is_present(page.invoked, low) {
                self.note_kept_back(&message, is_the_end, page);
                continue;
            }
            if !observer.receives_from(self.history.posts[message.post].producer) {
                self.summary.filtered += usize::from(!is_beyond);
            } else if message.leaves_from <= page.answered {
                // Lists that begin from now on must not return it either.
                self.feed.messages[index].gone_by = message.gone_by.min(page.answered);
                self.summary.passed_over += 1;
            } else {
                let what = format!("observer {} did not get {}", page.observer, message.tag);
                return Err(self.violation(Rule::Missed, what, &[&message]).with_page(page));
            }
        }
        Ok(())
    }

    /// A request whose response was lost was executed completely or not at all.
    fn check_atomicity(&self, end: u64) -> Result<(), Violation> {
        let mut first_known = vec![None; self.history.posts.len()];
        for message in self.feed.messages.iter().filter(|message| message.present_by <= self.history.quiet) {
            first_known[message.post].get_or_insert(message);
        }
        // Workers took these before anybody read them, so it is not known which request had them.
        let deleted: HashSet<Uuid> = self.history.deletes.iter().flat_map(|delete| &delete.ids).copied().collect();
        let taken_unread = deleted.iter().filter(|id| self.feed.find(**id).is_none()).count();
        for (post, known) in self.history.posts.iter().zip(first_known) {
            let (Some(known), None) = (known, post.span.answered) else { continue };
            let earliest = self.clock.between(post.span.invoked, u64::MAX).0;
            let stays = |ttl_s| self.clock.may_reach(earliest + i64::from(ttl_s) * 1_000_000) > end;
            let is_known = |tag| self.feed.messages.iter().any(|message| message.tag == tag);
            let mut lost = post.drafts.iter().filter(|draft| stays(draft.ttl_s) && !is_known(draft.tag));
            if let Some(lost) = lost.nth(taken_unread) {
                let what = format!("{} was stored, {} of the same request was not", known.tag, lost.tag);
                return Err(self.violation(Rule::NotAtomic, what, &[known]));
            }
        }
        Ok(())
    }

    fn note_kept_back(&mut self, message: &Message, is_the_end: bool, page: &Page) {
        let is_heard = self.history.observers[page.observer].receives_from(self.history.posts[message.post].producer);
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
