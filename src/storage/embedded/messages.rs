//! Messages: list, get, delete, pop, purge; and what a queue holds of them. For posts see `posts.rs`.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;

use super::EmbeddedStore;
use super::holds::Hold;
use super::keys::{Key, Part, Table};
use super::places::{Found, Merged, Place, Records};
use super::view::{Room, View, show};
use super::writer::Step;
use crate::domain::{ClaimId, ClientId, Message, MessageId, QueueId};
use crate::storage::key::{key_of, rank_of};
use crate::storage::{
    Deletion, Details, Error, GivenClaim, Listing, MessageStore, Page, Popped, Post, Posting, Stats, record,
};

/// A list that has found something stops here: what is looked at in vain costs the reader time.
const LOOKED_AT_MAX: usize = 500;

#[async_trait]
impl MessageStore for EmbeddedStore {
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error> {
        self.post(queue, post).await
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
        let (of, listing) = (queue.clone(), listing.clone());
        let page = self.read_settled_with(queue, move |view, row, state, now_us| {
            // What a queue that delays no more has left undue is no part of its feed.
            let delayed = listing.scope.delayed && row.policy.delays;
            let page = view.list_messages(&of, row.number, &listing, delayed, now_us)?;
            Ok(Page { delays: row.policy.delays, is_fair: state.is_fair(&row.policy), ..page })
        });
        Ok(page.await?.unwrap_or_default())
    }

    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<Vec<Message>, Error> {
        let (of, keys) = (queue.clone(), own_keys(queue, ids));
        let messages = self.read_settled(queue, move |view, number, now_us| {
            let state = view.stored_state(number)?;
            let places = keys.iter().map(|key| view.place(number, &state, key)).collect::<Result<Vec<_>, _>>()?;
            view.messages(&of, number, places.into_iter().flatten(), now_us)
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
            let Some(place) = store.view.place(number, &state, &key)? else {
                return Ok(Deletion::Done);
            };
            match (claim, place.holder()) {
                (Some(GivenClaim::Malformed), _) => Ok(Deletion::UnknownClaim),
                (None, Some(_)) => Ok(Deletion::Held),
                (Some(GivenClaim::Id(_)), None) => Ok(Deletion::Free),
                (Some(GivenClaim::Id(claim)), Some(holder)) if claim != holder => {
                    let is_live = store.view.claim(number, claim)?.is_some();
                    Ok(if is_live { Deletion::HeldByOther } else { Deletion::UnknownClaim })
                }
                (None, None) | (Some(GivenClaim::Id(_)), Some(_)) => {
                    store.remove(number, &place)?;
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
            let places = keys.iter().map(|key| store.view.place(number, &state, key)).collect::<Result<Vec<_>, _>>()?;
            let is_allowed = |place: &Place| place.holder().is_some_and(|holder| claims.contains(&holder));
            if !places.iter().flatten().all(is_allowed) {
                return Ok(Deletion::Free);
            }
            store.remove_all(number, &keys)?;
            Ok(Deletion::Done)
        })
        .await
    }

    async fn pop_messages(&self, queue: &QueueId, limit: usize) -> Result<Vec<Popped>, Error> {
        let of = queue.clone();
        self.write_settled_with(queue, Vec::new(), move |store, row, now_us| {
            let next = store.next_messages(row, limit, &[])?;
            let given = store.worth_giving_out(&of, row, next, now_us)?;
            let mut popped = Vec::with_capacity(given.len());
            for found in &given {
                store.remove(row.number, &found.place)?;
                let message = show(&of, &found.place, &found.record, now_us)?;
                let (record, hold) = (found.record.clone(), found.place.encoded_hold().into());
                let (waited, shard) = (found.waited(&message, now_us), found.place.shard);
                popped.push(Popped { message, waited, record, hold, shard });
            }
            Ok(popped)
        })
        .await
    }

    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        let popped = popped.to_vec();
        self.write_settled_with(queue, (), move |store, row, _now_us| {
            for one in &popped {
                let key = key_of(one.message.id);
                // An attempt of which nobody knows may have put it back already.
                if store.view.has_message(row.number, &key)? {
                    continue;
                }
                let (hold, shard) = (Hold::stored(&one.hold)?, store.shard_at(row, rank_of(&key), one.shard)?);
                let place = Place { key, set: Part::Ready, hold, shard };
                let found = Found { place, record: one.record.clone() };
                store.add(row.number, &found.place, &found.record, found.hold()?.end_s)?;
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
            let show = |place: Option<Place>| Ok::<_, Error>(view.messages(&of, number, place, now_us)?.pop());
            Ok(Stats {
                total: state.total,
                claimed: state.held,
                oldest: show(view.first(number)?)?,
                newest: show(view.last(number)?)?,
                details: detailed.then(|| view.details(row, state, now_us)).transpose()?,
            })
        });
        Ok(stats.await?.unwrap_or_else(absent))
    }
}

impl<T: Table> View<T> {
    fn list_messages(
        &self,
        queue: &QueueId,
        number: u64,
        listing: &Listing,
        delayed: bool,
        now_us: u64,
    ) -> Result<Page, Error> {
        let not_from = listing.not_from.as_ref().map(ClientId::poster);
        let from = listing.after.map_or(0, |after| after.micros() + 1);
        let scope = [(Part::Ready, true), (Part::Held, listing.scope.claimed), (Part::Delayed, delayed)];
        let wanted = scope.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(set, _)| set);
        let (mut page, mut room, mut is_last) = (Vec::new(), Room::default(), true);
        let mut records = Records::new(self, number);
        let feed = Merged::new(wanted.map(|set| self.places(number, set, from)).collect::<Result<_, _>>()?)?;
        for (looked_at, place) in feed.enumerate() {
            let place = place?;
            if page.len() == listing.limit || (looked_at >= LOOKED_AT_MAX.max(listing.limit) && !page.is_empty()) {
                is_last = false;
                break;
            }
            let stored = records.of(&place.key)?;
            if not_from.is_some_and(|poster| record::is_from(stored.value(), poster)) {
                continue;
            }
            // What does not fit is the next page's; nothing behind it may come before it.
            if !room.takes(stored.value().len()) {
                is_last = false;
                break;
            }
            page.push(show(queue, &place, &Bytes::copy_from_slice(stored.value()), now_us)?);
        }
        Ok(Page { messages: page, delays: delayed, is_fair: false, is_last })
    }

    /// The first message of all three sets.
    fn first(&self, number: u64) -> Result<Option<Place>, Error> {
        Merged::new(self.all_places(number)?)?.next().transpose()
    }

    /// The last message of all three sets.
    fn last(&self, number: u64) -> Result<Option<Place>, Error> {
        let lasts = self.all_places(number)?.into_iter().filter_map(|mut places| places.next_back());
        let lasts = lasts.collect::<Result<Vec<_>, _>>()?;
        Ok(lasts.into_iter().max_by_key(|place| place.key))
    }
}

/// The keys of those ids that can name a message here: a key has no room for the fingerprint.
fn own_keys(queue: &QueueId, ids: &[MessageId]) -> Vec<Key> {
    ids.iter().copied().filter(|id| id.is_of(queue)).map(key_of).collect()
}
