//! Messages: list, get, delete, pop, purge; and what a queue holds of them. For posts see `posts.rs`.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;

use super::EmbeddedStore;
use super::failure::damaged;
use super::holds::Hold;
use super::keys::{self, Key, Part, Table};
use super::view::{Keys, Room, View};
use super::writer::Step;
use crate::domain::{ClaimId, ClientId, Message, MessageId, QueueId};
use crate::storage::key::{id_of, key_of, rank_of};
use crate::storage::{Deletion, Error, GivenClaim, Listing, MessageStore, Page, Popped, Post, Posting, Stats, record};

/// A list that has found something stops here: what is looked at in vain costs the reader time.
const LOOKED_AT_MAX: usize = 500;

#[async_trait]
impl MessageStore for EmbeddedStore {
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error> {
        self.post(queue, post).await
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
        let (of, listing) = (queue.clone(), listing.clone());
        let page = self.read_settled_with(queue, move |view, row, now_us| {
            // What a queue that delays no more has left undue is no part of its feed.
            let delayed = listing.scope.delayed && row.policy.delays;
            let messages = view.list_messages(&of, row.number, &listing, delayed, now_us)?;
            Ok(Page { messages, delays: row.policy.delays, is_last: false })
        });
        Ok(page.await?.unwrap_or_default())
    }

    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<Vec<Message>, Error> {
        let (of, keys) = (queue.clone(), own_keys(queue, ids));
        let messages = self.read_settled(queue, move |view, number, now_us| view.messages(&of, number, &keys, now_us));
        Ok(messages.await?.unwrap_or_default())
    }

    async fn delete_message(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<GivenClaim>,
    ) -> Result<Deletion, Error> {
        if !id.is_of(queue) {
            return Ok(Deletion::Done);
        }
        let key = key_of(id);
        self.write_settled(queue, Deletion::Done, move |store, number, _now_us| {
            if !store.view.exists(number, &key)? {
                return Ok(Deletion::Done);
            }
            match (claim, store.view.holder(number, &key)?) {
                (Some(GivenClaim::Malformed), _) => Ok(Deletion::UnknownClaim),
                (None, Some(_)) => Ok(Deletion::Held),
                (Some(GivenClaim::Id(_)), None) => Ok(Deletion::Free),
                (Some(GivenClaim::Id(claim)), Some(holder)) if claim != holder => {
                    let is_live = store.view.claim(number, claim)?.is_some();
                    Ok(if is_live { Deletion::HeldByOther } else { Deletion::UnknownClaim })
                }
                (None, None) | (Some(GivenClaim::Id(_)), Some(_)) => {
                    store.remove(number, &key)?;
                    Ok(Deletion::Done)
                }
            }
        })
        .await
    }

    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error> {
        let keys = own_keys(queue, ids);
        self.write_settled(queue, (), move |store, number, _now_us| store.remove_all(number, &keys)).await
    }

    async fn delete_claimed(&self, queue: &QueueId, ids: &[MessageId], claims: &[ClaimId]) -> Result<Deletion, Error> {
        let keys = own_keys(queue, ids);
        let claims: HashSet<ClaimId> = claims.iter().copied().collect();
        self.write_settled(queue, Deletion::Done, move |store, number, _now_us| {
            for key in &keys {
                let is_allowed = |holder: Option<ClaimId>| holder.is_some_and(|holder| claims.contains(&holder));
                if store.view.exists(number, key)? && !is_allowed(store.view.holder(number, key)?) {
                    return Ok(Deletion::Free);
                }
            }
            store.remove_all(number, &keys)?;
            Ok(Deletion::Done)
        })
        .await
    }

    async fn pop_messages(&self, queue: &QueueId, limit: usize) -> Result<Vec<Popped>, Error> {
        let queue = queue.clone();
        self.write(0, move |store| {
            let now_us = store.now_us(&queue);
            let Some(row) = store.row(&queue)? else {
                return Ok(Step::Done(Vec::new()));
            };
            if store.settle(row.number, now_us)? {
                return Ok(Step::Again);
            }
            let free = store.view.free(row.number, limit)?;
            let keys = store.worth_giving_out(&queue, &row, free, now_us)?;
            let mut popped = Vec::with_capacity(keys.len());
            for key in &keys {
                popped.extend(store.view.popped(&queue, row.number, key, now_us)?);
            }
            store.remove_all(row.number, &keys)?;
            Ok(Step::Done(popped))
        })
        .await
    }

    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        let popped = popped.to_vec();
        self.write_settled(queue, (), move |store, number, _now_us| {
            for one in &popped {
                let key = key_of(one.message.id);
                let hold = if one.hold.is_empty() { None } else { Some(Hold::decode(&one.hold)?) };
                let end_s = hold.map_or_else(|| Hold::of_record(&one.record), Ok)?.end_s;
                store.add(number, &key, Part::Ready, &one.record, end_s)?;
                if let Some(hold) = hold {
                    store.put_hold(number, &key, &hold)?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn purge_messages(&self, queue: &QueueId) -> Result<(), Error> {
        let queue = queue.clone();
        self.write(0, move |store| store.purge(&queue).map(Step::Done)).await
    }

    async fn get_stats(&self, queue: &QueueId) -> Result<Stats, Error> {
        let of = queue.clone();
        let stats = self.read_settled(queue, move |view, number, now_us| {
            let state = view.stored_state(number)?;
            let show = |key: Option<Key>| key.map(|key| view.message(&of, number, &key, now_us)).transpose();
            Ok(Stats {
                total: state.total,
                claimed: state.held,
                oldest: show(view.first(number)?)?.flatten(),
                newest: show(view.last(number)?)?.flatten(),
            })
        });
        Ok(stats.await?.unwrap_or_default())
    }
}

impl<T: Table> View<T> {
    /// The message with that key, and what it takes to put it back.
    fn popped(&self, queue: &QueueId, number: u64, key: &Key, now_us: u64) -> Result<Option<Popped>, Error> {
        let Some(record) = self.record(number, key)? else {
            return Ok(None);
        };
        let hold = self.contents.get(&*keys::content(number, Part::Hold, key))?;
        let hold = hold.map(|hold| Bytes::copy_from_slice(hold.value())).unwrap_or_default();
        let message = record::message(id_of(queue, key)?, &record, record::hold(&hold)?, now_us)?;
        Ok(Some(Popped { message, record, hold }))
    }

    fn list_messages(
        &self,
        queue: &QueueId,
        number: u64,
        listing: &Listing,
        delayed: bool,
        now_us: u64,
    ) -> Result<Vec<Message>, Error> {
        let not_from = listing.not_from.as_ref().map(ClientId::poster);
        let from = listing.after.map_or(0, |after| after.micros() + 1);
        let scope = [(Part::Ready, true), (Part::Held, listing.scope.claimed), (Part::Delayed, delayed)];
        let wanted = scope.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(set, _)| set);
        let (mut page, mut room) = (Vec::new(), Room::default());
        let feed = Merged::new(wanted.map(|set| self.keys(number, set, from)).collect::<Result<_, _>>()?)?;
        for (looked_at, key) in feed.enumerate() {
            let key = key?;
            if page.len() == listing.limit || (looked_at >= LOOKED_AT_MAX.max(listing.limit) && !page.is_empty()) {
                break;
            }
            let stored = self.contents.get(&*keys::content(number, Part::Message, &key))?;
            let stored = stored.ok_or_else(|| damaged("a message"))?;
            if not_from.is_some_and(|poster| record::is_from(stored.value(), poster)) {
                continue;
            }
            // What does not fit is the next page's; nothing behind it may come before it.
            if !room.takes(stored.value().len()) {
                break;
            }
            let record = Bytes::copy_from_slice(stored.value());
            page.push(self.message_of(queue, number, &key, &record, now_us)?);
        }
        Ok(page)
    }

    /// The first message of all three sets.
    fn first(&self, number: u64) -> Result<Option<Key>, Error> {
        Merged::new(self.all(number)?)?.next().transpose()
    }

    /// The last message of all three sets.
    fn last(&self, number: u64) -> Result<Option<Key>, Error> {
        let mut last = None;
        for mut keys in self.all(number)? {
            last = last.max(keys.next_back().transpose()?);
        }
        Ok(last)
    }

    pub(super) fn all(&self, number: u64) -> Result<Vec<Keys<'_>>, Error> {
        [Part::Ready, Part::Held, Part::Delayed].into_iter().map(|set| self.keys(number, set, 0)).collect()
    }
}

/// Several sets of messages as one, in the order of their ranks.
pub(super) struct Merged<'a> {
    sets: Vec<Keys<'a>>,
    heads: Vec<Option<Key>>,
}

impl<'a> Merged<'a> {
    pub(super) fn new(mut sets: Vec<Keys<'a>>) -> Result<Self, Error> {
        let heads = sets.iter_mut().map(|keys| keys.next().transpose()).collect::<Result<_, _>>()?;
        Ok(Self { sets, heads })
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<Key, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let heads = self.heads.iter().enumerate();
        let (_, key, first) = heads.filter_map(|(at, head)| head.map(|key| (rank_of(&key), key, at))).min()?;
        match self.sets[first].next().transpose() {
            Ok(next) => self.heads[first] = next,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(key))
    }
}

/// The keys of those ids that can name a message here: a key has no room for the fingerprint.
fn own_keys(queue: &QueueId, ids: &[MessageId]) -> Vec<Key> {
    ids.iter().copied().filter(|id| id.is_of(queue)).map(key_of).collect()
}
