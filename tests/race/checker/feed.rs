//! The feed as the whole history knows it: every message that anybody got to know, and its life.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Rule, Violation};
use crate::race::history::{History, Page, Seen, rank_of};
use crate::support::chronicle::clock::StoreClock;

pub(super) const NEVER: u64 = u64::MAX;

/// All messages whose ids are known, by id.
pub(super) struct Feed {
    pub(super) messages: Vec<Message>,
    /// For each message, when the first of those from here on was certainly there.
    there_from_here: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) id: Uuid,
    pub(super) tag: u64,
    /// The index of its post.
    pub(super) post: usize,
    /// How long it is kept from everybody.
    pub(super) delay_s: u32,
    /// From this moment on the store's logical time may have reached its rank.
    pub(super) due_from: u64,
    /// When its post was answered.
    pub(super) stored_by: u64,
    /// From this moment on it was there for certain, whatever the clock shows: its post was answered, and
    /// it is not delayed, or somebody saw it.
    pub(super) there_by: u64,
    /// From this moment on it may have been deleted or expired.
    pub(super) leaves_from: u64,
    /// From this moment on it had certainly been deleted.
    pub(super) deleted_by: u64,
    /// From this moment on it was certainly gone: deleted, or rightly missing for somebody.
    pub(super) gone_by: u64,
    /// When the store's clock shows this, it has certainly expired.
    pub(super) expired_at: i64,
    /// A bit per observer.
    pub(super) seen_by: u64,
}

impl Message {
    /// Its place in the feed, a time of the store's clock (µs).
    pub(super) fn rank(&self) -> i64 {
        rank_of(self.id)
    }

    /// Whether it was there for certain when a list began during which the store's clock never showed less
    /// than `low`.
    pub(super) fn is_there(&self, invoked: u64, low: i64) -> bool {
        self.there_by < invoked || self.stored_by < invoked && self.rank() <= low
    }

    pub(super) fn seen(&self) -> Seen {
        Seen { id: self.id, tag: self.tag }
    }
}

impl Feed {
    pub(super) fn of(history: &History, pages: &[&Page], clock: &StoreClock) -> Result<Self, Violation> {
        let mut lives = lives(history, clock);
        read_receipts(history, &mut lives)?;
        read_pages(history, pages, &mut lives)?;

        let mut messages: Vec<Message> = lives.into_values().filter(|message| !message.id.is_nil()).collect();
        messages.sort_unstable();
        if let Some(pair) = messages.windows(2).find(|pair| pair[0].id == pair[1].id) {
            let what = format!("{} and {} have the same id", pair[0].tag, pair[1].tag);
            return Err(Violation::new(history, Rule::IdTwice, what, &[pair[0].seen(), pair[1].seen()]));
        }
        for message in &mut messages {
            if message.delay_s > 0 {
                let delay_us = i64::from(message.delay_s) * 1_000_000;
                message.due_from = clock.may_advance(history.posts[message.post].span.invoked, delay_us);
            } else {
                message.there_by = message.there_by.min(message.stored_by);
            }
        }
        let mut there_from_here: Vec<u64> = messages.iter().map(|message| message.there_by).collect();
        for index in (1..messages.len()).rev() {
            there_from_here[index - 1] = there_from_here[index - 1].min(there_from_here[index]);
        }
        let mut feed = Self { messages, there_from_here };
        feed.read_deletes(history);
        feed.check_ranks(history)?;
        Ok(feed)
    }

    pub(super) fn find(&self, id: Uuid) -> Option<usize> {
        self.messages.binary_search_by_key(&id, |message| message.id).ok()
    }

    /// The index of the first message behind the marker.
    pub(super) fn behind(&self, marker: Option<Uuid>) -> usize {
        marker.map_or(0, |marker| self.messages.partition_point(|message| message.id <= marker))
    }

    /// The index of the first message with a rank above this one.
    pub(super) fn above(&self, rank: i64) -> usize {
        self.messages.partition_point(|message| message.rank() <= rank)
    }

    /// Whether any of the messages from this index on was certainly there at the moment.
    pub(super) fn reaches_on(&self, index: usize, moment: u64) -> bool {
        self.there_from_here.get(index).is_some_and(|there_by| *there_by < moment)
    }

    /// A place is free again only when the message that had it is gone.
    fn check_ranks(&self, history: &History) -> Result<(), Violation> {
        let ended = |message: &Message| history.posts[message.post].span.answered.unwrap_or(NEVER);
        for pair in self.messages.windows(2) {
            let [one, other] = pair else { continue };
            let gone = one.leaves_from <= ended(other) || other.leaves_from <= ended(one);
            if one.rank() == other.rank() && !gone {
                let what = format!("{} and {} have the same place", one.tag, other.tag);
                return Err(Violation::new(history, Rule::RankTwice, what, &[one.seen(), other.seen()]));
            }
        }
        Ok(())
    }

    fn read_deletes(&mut self, history: &History) {
        for delete in &history.deletes {
            for index in delete.ids.iter().filter_map(|id| self.find(*id)).collect::<Vec<_>>() {
                let message = &mut self.messages[index];
                message.leaves_from = message.leaves_from.min(delete.span.invoked);
                message.deleted_by = message.deleted_by.min(delete.span.answered.unwrap_or(NEVER));
                message.gone_by = message.deleted_by;
            }
        }
    }
}

/// Each draft as a message without an id, by its tag.
fn lives(history: &History, clock: &StoreClock) -> HashMap<u64, Message> {
    let drafts = history.posts.iter().enumerate().flat_map(|(index, post)| {
        let (earliest, latest) = clock.between(post.span.invoked, post.span.answered.unwrap_or(NEVER));
        post.drafts.iter().map(move |draft| {
            let ttl_us = i64::from(draft.ttl_s) * 1_000_000;
            let message = Message {
                id: Uuid::nil(),
                tag: draft.tag,
                post: index,
                delay_s: history.delay_s(*draft),
                due_from: 0,
                stored_by: NEVER,
                there_by: NEVER,
                leaves_from: clock.may_reach(earliest + ttl_us),
                deleted_by: NEVER,
                gone_by: NEVER,
                // It ends on a whole second.
                expired_at: latest.saturating_add(ttl_us + 1_000_000),
                seen_by: 0,
            };
            (draft.tag, message)
        })
    });
    drafts.collect()
}

fn read_receipts(history: &History, lives: &mut HashMap<u64, Message>) -> Result<(), Violation> {
    for post in &history.posts {
        let Some(answered) = post.span.answered else { continue };
        let receipt: Vec<Seen> =
            post.drafts.iter().zip(&post.ids).map(|(draft, id)| Seen { id: *id, tag: draft.tag }).collect();
        let refuse = |rule, what| Err(Violation::new(history, rule, what, receipt.get(..1).unwrap_or_default()));
        if post.ids.len() != post.drafts.len() {
            return refuse(Rule::Receipt, format!("{} posted, {} ids answered", post.drafts.len(), post.ids.len()));
        }
        let mut before = HashMap::new();
        for (draft, id) in post.drafts.iter().zip(&post.ids) {
            if before.insert(history.delay_s(*draft), id).is_some_and(|earlier| earlier >= id) {
                return refuse(Rule::BatchUnordered, "the ids of a receipt do not ascend".to_owned());
            }
        }
        for seen in receipt {
            if let Some(message) = lives.get_mut(&seen.tag) {
                message.id = seen.id;
                message.stored_by = answered;
            }
        }
    }
    Ok(())
}

fn read_pages(history: &History, pages: &[&Page], lives: &mut HashMap<u64, Message>) -> Result<(), Violation> {
    for page in pages {
        for seen in &page.messages {
            let refuse = |rule, what| Err(Violation::new(history, rule, what, &[*seen]).at(page));
            let Some(message) = lives.get_mut(&seen.tag) else {
                return refuse(Rule::Invented, format!("{} was never posted", seen.tag));
            };
            if page.answered < history.posts[message.post].span.invoked {
                return refuse(Rule::Invented, format!("{} was delivered before it was posted", seen.tag));
            }
            if message.id.is_nil() {
                message.id = seen.id;
            } else if message.id != seen.id {
                return refuse(Rule::TwoIds, format!("{} is known as {}", seen.tag, message.id));
            }
            message.there_by = message.there_by.min(page.answered);
        }
    }
    Ok(())
}
