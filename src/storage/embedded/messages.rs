//! Messages: list, get, delete, pop, purge; and what a queue holds of them. For posts see `posts.rs`.

use std::collections::HashSet;

use async_trait::async_trait;
use redb::ReadableTable;
use tokio::task::yield_now;
use uuid::Uuid;

use super::EmbeddedStore;
use super::clock;
use super::keys::{self, Key, Part, Table};
use super::located::{Located, Merged};
use super::view::{Room, View, show};
use super::writer::Step;
use crate::domain::{ClaimId, ClientId, Message, MessageId, QueueId, Rank};
use crate::storage::entry::Entry;
use crate::storage::key::{key_of, rank_of};
use crate::storage::{Deletion, Details, Error, GivenClaim, Listing, MessageStore, Page, Popped, Post, Posting, Stats};

/// How many entries one step of a list examines. Between steps others have their turn.
const EXAMINED_PER_STEP: usize = 1_000;
/// How long a restoration knows itself again: longer than whoever restores goes on trying after an outcome that is not
/// known.
const RESTORATION_KEPT_US: u64 = 600 * 1_000_000;

#[async_trait]
impl MessageStore for EmbeddedStore {
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error> {
        self.post(queue, post).await
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
        let mut listing = listing.clone();
        loop {
            let (of, step) = (queue.clone(), listing.clone());
            let page = self.read_settled_with(queue, move |view, row, state, now_us| {
                // What a queue that delays no more has left undue is no part of its feed.
                let delayed = step.scope.delayed && row.policy.delays;
                let (page, last) = view.list_messages(&of, row.number, &step, delayed, now_us)?;
                Ok((Page { delays: row.policy.delays, is_fair: state.is_fair(&row.policy), ..page }, last))
            });
            let Some((page, examined_to)) = page.await? else {
                return Ok(Page { reached: listing.after, ..Page::default() });
            };
            if page.is_last || !page.messages.is_empty() {
                let last = page.messages.last().map(|message| message.id.rank());
                return Ok(Page { reached: last.or(examined_to), ..page });
            }
            listing.after = examined_to;
            yield_now().await;
        }
    }

    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<Vec<Message>, Error> {
        let (of, keys) = (queue.clone(), own_keys(queue, ids));
        let messages = self.read_settled(queue, move |view, number, now_us| {
            let state = view.stored_state(number)?;
            let located = keys.iter().map(|key| view.located(number, &state, key)).collect::<Result<Vec<_>, _>>()?;
            view.messages(&of, number, located.into_iter().flatten(), now_us)
        });
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
            let state = store.state(number)?;
            let Some(located) = store.view.located(number, &state, &key)? else {
                return Ok(Deletion::Done);
            };
            match (claim, located.entry.claim) {
                (Some(GivenClaim::Malformed), _) => Ok(Deletion::UnknownClaim),
                (None, Some(_)) => Ok(Deletion::Held),
                (Some(GivenClaim::Id(_)), None) => Ok(Deletion::Free),
                (Some(GivenClaim::Id(claim)), Some(holder)) if claim != holder => {
                    let is_live = store.view.claim(number, claim)?.is_some();
                    Ok(if is_live { Deletion::HeldByOther } else { Deletion::UnknownClaim })
                }
                (None, None) | (Some(GivenClaim::Id(_)), Some(_)) => {
                    store.remove(number, &located)?;
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
            let state = store.state(number)?;
            let located =
                keys.iter().map(|key| store.view.located(number, &state, key)).collect::<Result<Vec<_>, _>>()?;
            let is_allowed = |located: &Located| located.entry.claim.is_some_and(|claim| claims.contains(&claim));
            if !located.iter().flatten().all(is_allowed) {
                return Ok(Deletion::Free);
            }
            store.remove_all(number, &keys)?;
            Ok(Deletion::Done)
        })
        .await
    }

    async fn pop_messages(&self, queue: &QueueId, limit: usize) -> Result<Vec<Popped>, Error> {
        let of = queue.clone();
        self.write_settled_in_steps(queue, Vec::new(), move |store, row, now_us| {
            let given = store.next_to_deliver(&of, row, limit, &[], now_us)?;
            let (mut popped, pop) = (Vec::with_capacity(given.len()), Uuid::new_v4());
            for found in given {
                store.remove(row.number, &found.located)?;
                let message = show(&of, &found.located, &found.record, now_us)?;
                let (waited, entry) = (found.waited(&message, now_us), found.located.entry.encode(false).into());
                let (record, shard) = (found.record, found.located.shard);
                popped.push(Popped { message, waited, record, entry, shard, epoch: row.number, pop });
            }
            Ok(Step::Done(popped))
        })
        .await
    }

    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        let popped = popped.to_vec();
        self.write_settled_with(queue, (), move |store, row, _now_us| {
            // Others are of an earlier queue of that name, or of before a purge.
            for one in popped.iter().filter(|one| one.epoch == row.number) {
                let entry = Entry::decode(&one.entry)?;
                let restored = keys::restored(row.number, *one.pop.as_bytes(), &entry.key);
                if store.view.registry.get(&*restored)?.is_some() {
                    continue;
                }
                let end_us = clock::now_us() + RESTORATION_KEPT_US;
                store.keep_until(end_us, &restored, &end_us.to_be_bytes())?;
                let shard = store.shard_at(row, rank_of(&entry.key), one.shard)?;
                store.add(row.number, &Located { entry, set: Part::Ready, shard }, &one.record)?;
                store.tell_older(row.number, &entry.key);
            }
            Ok(())
        })
        .await
    }

    async fn purge_messages(&self, queue: &QueueId) -> Result<(), Error> {
        let queue = queue.clone();
        self.write(0, move |store| store.purge(&queue).map(Step::Done)).await
    }

    async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        let of = queue.clone();
        let absent = || Stats { details: detailed.then(Details::default), ..Stats::default() };
        let stats = self.read_settled_with(queue, move |view, row, state, now_us| {
            let number = row.number;
            let show = |located: Option<Located>| Ok::<_, Error>(view.messages(&of, number, located, now_us)?.pop());
            Ok(Stats {
                total: state.total,
                claimed: state.in_flight,
                oldest: show(view.first(number)?)?,
                newest: show(view.last(number)?)?,
                details: detailed.then(|| view.details(row, state, now_us)).transpose()?,
            })
        });
        Ok(stats.await?.unwrap_or_else(absent))
    }
}

impl<T: Table> View<T> {
    /// A page that one step finds, and how far the step came.
    fn list_messages(
        &self,
        queue: &QueueId,
        number: u64,
        listing: &Listing,
        delayed: bool,
        now_us: u64,
    ) -> Result<(Page, Option<Rank>), Error> {
        let not_from = listing.not_from.as_ref().map(ClientId::poster);
        let from = listing.after.map_or(0, |after| after.micros() + 1);
        let scope = [(Part::Ready, true), (Part::InFlight, listing.scope.claimed), (Part::Delayed, delayed)];
        let wanted = scope.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(set, _)| set);
        let (mut listed, mut room, mut is_last, mut examined_to) = (Vec::new(), Room::default(), true, listing.after);
        let feed = Merged::new(wanted.map(|set| self.entries(number, set, from)).collect::<Result<_, _>>()?)?;
        for (examined, located) in feed.enumerate() {
            let located = located?;
            if listed.len() == listing.limit || examined >= EXAMINED_PER_STEP.max(listing.limit) {
                is_last = false;
                break;
            }
            if not_from != Some(located.entry.poster) {
                // What does not fit is the next page's; nothing behind it may come before it.
                if !room.takes(&located) {
                    is_last = false;
                    break;
                }
                listed.push(located);
            }
            examined_to = Rank::new(rank_of(located.key()));
        }
        let messages = self.messages(queue, number, listed, now_us)?;
        Ok((Page { messages, delays: delayed, is_fair: false, is_last, reached: None }, examined_to))
    }

    /// The first message of all three sets.
    fn first(&self, number: u64) -> Result<Option<Located>, Error> {
        Merged::new(self.all_located(number)?)?.next().transpose()
    }

    /// The last message of all three sets.
    fn last(&self, number: u64) -> Result<Option<Located>, Error> {
        let lasts = self.all_located(number)?.into_iter().filter_map(|mut entries| entries.next_back());
        let lasts = lasts.collect::<Result<Vec<_>, _>>()?;
        Ok(lasts.into_iter().max_by_key(|located| *located.key()))
    }
}

/// The keys of those ids that can name a message here: a key has no room for the fingerprint.
fn own_keys(queue: &QueueId, ids: &[MessageId]) -> Vec<Key> {
    ids.iter().copied().filter(|id| id.is_of(queue)).map(key_of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::storage::Scope;
    use crate::storage::embedded::check::tests::{post, poster, queue};

    #[tokio::test]
    async fn a_list_examines_entries_in_steps_and_reads_only_the_records_of_its_page() {
        let store = EmbeddedStore::in_memory().unwrap();
        let queue = queue(&store, "q", Value::Null).await;
        post(&store, &queue, 3 * EXAMINED_PER_STEP, 1).await;
        let of = queue.clone();
        let without_records = store.write(0, move |store| {
            let number = store.row(&of)?.expect("it is there").number;
            for located in store.view.entries(number, Part::Ready, 0)?.collect::<Result<Vec<_>, _>>()? {
                store.take(&keys::of_message(number, Part::Message, located.key()))?;
            }
            Ok(Step::Done(()))
        });
        without_records.await.unwrap();
        let listing = Listing { after: None, limit: 10, not_from: Some(poster()), scope: Scope::default() };

        let (of, first) = (queue.clone(), listing.clone());
        let step = store.read_settled(&queue, move |view, number, now_us| {
            let ranks = view.entries(number, Part::Ready, 0)?.map(|located| located.map(|one| rank_of(one.key())));
            let last = ranks.take(EXAMINED_PER_STEP).last().transpose()?;
            Ok((view.list_messages(&of, number, &first, false, now_us)?, last.and_then(Rank::new)))
        });
        let ((page, examined_to), last) = step.await.unwrap().unwrap();
        assert_eq!((page.messages.len(), page.is_last, examined_to), (0, false, last));

        let page = store.list_messages(&queue, &listing).await.unwrap();
        assert_eq!((page.messages.len(), page.is_last), (0, true));
    }
}
