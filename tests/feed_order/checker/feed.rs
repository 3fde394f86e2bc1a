//! The feed according to the whole history: every known message, and the times of its life.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Rule, Violation};
use crate::feed_order::history::{History, Page, Seen, rank_of};
use support::timeline::clock::StoreClock;

pub(super) const NEVER: u64 = u64::MAX;

/// All messages with known ids, in the order of their ids.
pub(super) struct Feed {
    pub(super) messages: Vec<Message>,
    /// For each message, the first time at which it or a later one was certainly present.
    present_from_here: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) id: Uuid,
    pub(super) tag: u64,
    /// The index of its post.
    pub(super) post: usize,
    /// The delay of the message, in seconds.
    pub(super) delay_s: u32,
    /// The first time at which the store's logical time may have reached its rank.
    pub(super) due_from: u64,
    /// The time of the response to its post.
    pub(super) stored_by: u64,
    /// The first time at which it was certainly present, whatever the clock shows: its post was
    /// answered and has no delay, or an observer saw it.
    pub(super) present_by: u64,
    /// The first time at which it may have been deleted or expired.
    pub(super) leaves_from: u64,
    /// The first time at which it had certainly been deleted.
    pub(super) deleted_by: u64,
    /// The first time at which it was certainly gone: deleted, or rightly missing for an observer.
    pub(super) gone_by: u64,
    /// The time of the store's clock at which it has certainly expired.
    pub(super) expired_at: i64,
    /// One bit per observer that received it.
    pub(super) seen_by: u64,
}

impl Message {
    /// Returns its position in the feed, which is a time of the store's clock (µs).
    pub(super) fn rank(&self) -> i64 {
        rank_of(self.id)
    }

    /// Returns whether it was certainly present when a list began, if the store's clock never
    /// showed less than `low` during that list.
    pub(super) fn is_present(&self, invoked: u64, low: i64) -> bool {
        self.present_by < invoked || self.stored_by < invoked && self.rank() <= low
    }

    pub(super) fn seen(&self) -> Seen {
        Seen { id: self.id, tag: self.tag }
    }
}

impl Feed {
    pub(super) fn of(history: &History, pages: &[&Page], clock: &StoreClock) -> Result<Self, Violation> {
        let mut messages_by_tag = messages_by_tag(history, clock);
        read_receipts(history, &mut messages_by_tag)?;
        read_pages(history, pages, &mut messages_by_tag)?;

        let mut messages: Vec<Message> = messages_by_tag.into_values().filter(|message| !message.id.is_nil()).collect();
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
                message.present_by = message.present_by.min(message.stored_by);
            }
        }
        let mut present_from_here: Vec<u64> = messages.iter().map(|message| message.present_by).collect();
        for index in (1..messages.len()).rev() {
            present_from_here[index - 1] = present_from_here[index - 1].min(present_from_here[index]);
        }
        let mut feed = Self { messages, present_from_here };
        feed.read_deletes(history);
        feed.check_ranks(history)?;
        Ok(feed)
    }

    pub(super) fn find(&self, id: Uuid) -> Option<usize> {
        self.messages.binary_search_by_key(&id, |message| message.id).ok()
    }

    /// Returns the index of the first message after the marker.
    pub(super) fn after(&self, marker: Option<Uuid>) -> usize {
        marker.map_or(0, |marker| self.messages.partition_point(|message| message.id <= marker))
    }

    /// Returns the index of the first message with a rank above this one.
    pub(super) fn index_above(&self, rank: i64) -> usize {
        self.messages.partition_point(|message| message.rank() <= rank)
    }

    /// Returns whether any message from this index on was certainly present at this time.
    pub(super) fn is_any_present(&self, index: usize, moment: u64) -> bool {
        self.present_from_here.get(index).is_some_and(|present_by| *present_by < moment)
    }

    /// A rank becomes free again only when its message is gone.
    fn check_ranks(&self, history: &History) -> Result<(), Violation> {
        let ended = |message: &Message| history.posts[message.post].span.answered.unwrap_or(NEVER);
        for pair in self.messages.windows(2) {
            let [one, other] = pair else { continue };
            let gone = one.leaves_from <= ended(other) || other.leaves_from <= ended(one);
            if one.rank() == other.rank() && !gone {
                let what = format!("{} and {} have the same position", one.tag, other.tag);
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

/// Returns each draft as a message without an id, by its tag.
fn messages_by_tag(history: &History, clock: &StoreClock) -> HashMap<u64, Message> {
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
                present_by: NEVER,
                leaves_from: clock.may_reach(earliest + ttl_us),
                deleted_by: NEVER,
                gone_by: NEVER,
                // The message expires on a whole second.
                expired_at: latest.saturating_add(ttl_us + 1_000_000),
                seen_by: 0,
            };
            (draft.tag, message)
        })
    });
    drafts.collect()
}

fn read_receipts(history: &History, messages_by_tag: &mut HashMap<u64, Message>) -> Result<(), Violation> {
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
            if let Some(message) = messages_by_tag.get_mut(&seen.tag) {
                message.id = seen.id;
                message.stored_by = answered;
            }
        }
    }
    Ok(())
}

fn read_pages(
    history: &History,
    pages: &[&Page],
    messages_by_tag: &mut HashMap<u64, Message>,
) -> Result<(), Violation> {
    for page in pages {
        for seen in &page.messages {
            let refuse = |rule, what| Err(Violation::new(history, rule, what, &[*seen]).with_page(page));
            let Some(message) = messages_by_tag.get_mut(&seen.tag) else {
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
            message.present_by = message.present_by.min(page.answered);
        }
    }
    Ok(())
}
