//! Claims: create, get, renew, give back, release. See `scripts/shared/claims.lua`.

use async_trait::async_trait;
use bytes::BufMut;

use super::EmbeddedStore;
use super::failure::damaged;
use super::holds::{Hold, Lease, whole_seconds};
use super::keys::{self, Key, Part, Table};
use super::places::Place;
use super::view::{View, show};
use super::writing::Writing;
use crate::domain::{Claim, ClaimId, MessageId, NewClaim, QueueId, Term};
use crate::storage::key::{KEY_BYTES, key_of};
use crate::storage::{ClaimChange, ClaimStore, Error};

/// A live claim as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimRow {
    pub(super) ttl_s: u32,
    pub(super) since_us: u64,
    pub(super) end_us: u64,
    /// The messages that it was given; what it still holds, their holds say.
    pub(super) keys: Vec<Key>,
}

const HEAD_BYTES: usize = 20;

impl ClaimRow {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + KEY_BYTES * self.keys.len());
        bytes.put_u32(self.ttl_s);
        bytes.put_u64(self.since_us);
        bytes.put_u64(self.end_us);
        bytes.extend(self.keys.iter().flatten());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let row = || {
            let (ttl, rest) = bytes.split_first_chunk()?;
            let (since, rest) = rest.split_first_chunk()?;
            let (end, keys) = rest.split_first_chunk()?;
            let (keys, []) = keys.as_chunks() else {
                return None;
            };
            Some(Self {
                ttl_s: u32::from_be_bytes(*ttl),
                since_us: u64::from_be_bytes(*since),
                end_us: u64::from_be_bytes(*end),
                keys: keys.to_vec(),
            })
        };
        row().ok_or_else(|| damaged("a claim"))
    }
}

#[async_trait]
impl ClaimStore for EmbeddedStore {
    async fn create_claim(&self, queue: &QueueId, new: &NewClaim) -> Result<Option<Claim>, Error> {
        let (of, new) = (queue.clone(), new.clone());
        self.write_settled_with(queue, None, move |store, row, now_us| {
            let next = store.next_messages(row, new.limit, &new.prefer)?;
            let given = store.worth_giving_out(&of, row, next, now_us)?;
            if given.is_empty() {
                return Ok(None);
            }
            let id = ClaimId::random();
            // It is counted where it is bounded.
            let count = u32::from(row.policy.letters.is_some());
            let mut messages = Vec::with_capacity(given.len());
            for found in &given {
                let mut hold = found.hold()?;
                hold.count = hold.count.saturating_add(count);
                let hold = store.hold_for(row.number, &found.place.key, hold, id, new.term, now_us)?;
                let claimed = Place { set: Part::Held, hold: Some(hold), ..found.place };
                store.move_to(row.number, &found.place, &claimed)?;
                messages.push(show(&of, &claimed, &found.record, now_us)?);
            }
            let keys = given.iter().map(|found| found.place.key).collect();
            store.keep_claim(row.number, id, new.term.ttl_s, keys, now_us)?;
            let waited =
                given.iter().zip(&messages).filter_map(|(found, message)| found.waited(message, now_us)).collect();
            Ok(Some(Claim { id, ttl_s: new.term.ttl_s, age_s: 0, messages, waited }))
        })
        .await
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        let of = queue.clone();
        let claim = self.read_settled(queue, move |view, number, now_us| view.show_claim(&of, number, id, now_us));
        Ok(claim.await?.flatten())
    }

    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<ClaimChange, Error> {
        self.write_settled(queue, ClaimChange::Gone, move |store, number, now_us| {
            let Some(row) = store.view.claim(number, id)? else {
                return Ok(ClaimChange::Gone);
            };
            let still = store.view.still_held(number, Lease::Claim(id), &row.keys)?;
            for (place, hold) in &still {
                let hold = store.hold_for(number, &place.key, *hold, id, term, now_us)?;
                store.put_hold(number, place, hold)?;
            }
            let keys = still.iter().map(|(place, _)| place.key).collect();
            store.take(&lease_key(number, row.end_us, Lease::Claim(id)))?;
            store.keep_claim(number, id, term.ttl_s, keys, now_us)?;
            store.tell(number, 0);
            Ok(ClaimChange::Done)
        })
        .await
    }

    async fn return_message(
        &self,
        queue: &QueueId,
        claim: ClaimId,
        id: MessageId,
        delay_s: u32,
    ) -> Result<ClaimChange, Error> {
        let key = id.is_of(queue).then(|| key_of(id));
        self.write_settled(queue, ClaimChange::Gone, move |store, number, now_us| {
            if store.view.claim(number, claim)?.is_none() {
                return Ok(ClaimChange::Gone);
            }
            // An id of another queue has a key that this claim cannot hold, but by chance.
            for (place, hold) in store.view.still_held(number, Lease::Claim(claim), key.as_slice())? {
                match delay_s {
                    0 => store.give_back(number, &place, hold)?,
                    delay_s => store.keep_back(number, &place, hold, delay_s, now_us)?,
                }
            }
            Ok(ClaimChange::Done)
        })
        .await
    }

    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.write_settled(queue, (), move |store, number, _now_us| {
            if let Some(row) = store.view.claim(number, id)? {
                store.release(number, Lease::Claim(id), row.end_us)?;
            }
            Ok(())
        })
        .await
    }

    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.write_settled_with(queue, (), move |store, row, _now_us| {
            let Some(claim) = store.view.claim(row.number, id)? else {
                return Ok(());
            };
            let counted = u32::from(row.policy.letters.is_some());
            store.release_counting(row.number, Lease::Claim(id), claim.end_us, counted)?;
            Ok(())
        })
        .await
    }
}

impl<T: Table> View<T> {
    /// Of the messages that a lease was given, those that it still holds.
    fn still_held(&self, number: u64, lease: Lease, keys: &[Key]) -> Result<Vec<(Place, Hold)>, Error> {
        let mut still = Vec::with_capacity(keys.len());
        for key in keys {
            let place = self.place_in(number, Part::Held, key)?;
            let hold = place.and_then(|place| place.hold).filter(|hold| hold.lease == Some(lease));
            still.extend(place.zip(hold));
        }
        Ok(still)
    }

    /// A live claim with the messages that it still holds.
    fn show_claim(&self, queue: &QueueId, number: u64, id: ClaimId, now_us: u64) -> Result<Option<Claim>, Error> {
        let Some(row) = self.claim(number, id)? else {
            return Ok(None);
        };
        let still = self.still_held(number, Lease::Claim(id), &row.keys)?;
        let age_s = now_us.saturating_sub(row.since_us) / 1_000_000;
        let messages = self.messages(queue, number, still.into_iter().map(|(place, _)| place), now_us)?;
        Ok(Some(Claim { id, ttl_s: row.ttl_s, age_s, messages, waited: Vec::new() }))
    }
}

impl Writing<'_> {
    /// The hold of a message that comes under a claim. It lives as long, and the grace longer if it would have ended
    /// before the claim.
    fn hold_for(
        &mut self,
        number: u64,
        key: &Key,
        mut hold: Hold,
        claim: ClaimId,
        term: Term,
        now_us: u64,
    ) -> Result<Hold, Error> {
        if hold.end_s * 1_000_000 < now_us + u64::from(term.ttl_s) * 1_000_000 {
            self.take(&keys::timed(number, Part::End, hold.end_s, key))?;
            hold.ttl_s = term.ttl_s.saturating_add(term.grace_s);
            hold.end_s = whole_seconds(now_us) + u64::from(hold.ttl_s);
            self.note_end(number, key, hold.end_s)?;
        }
        hold.lease = Some(Lease::Claim(claim));
        Ok(hold)
    }

    fn keep_claim(&mut self, number: u64, id: ClaimId, ttl_s: u32, keys: Vec<Key>, now_us: u64) -> Result<(), Error> {
        let row = ClaimRow { ttl_s, since_us: now_us, end_us: now_us + u64::from(ttl_s) * 1_000_000, keys };
        self.put_lease(number, row.end_us, Lease::Claim(id))?;
        self.put(&keys::content(number, Part::Claim, id.as_bytes()), &row.encode())
    }

    fn put_lease(&mut self, number: u64, end_us: u64, lease: Lease) -> Result<(), Error> {
        self.note_due(number, end_us)?;
        self.put(&lease_key(number, end_us, lease), &[])
    }

    /// Puts a message that is held back to where it was.
    fn give_back(&mut self, number: u64, place: &Place, hold: Hold) -> Result<(), Error> {
        self.move_to(number, place, &Place { set: Part::Ready, hold: Some(Hold { lease: None, ..hold }), ..*place })
    }

    /// Keeps a message that is held from everybody, under no claim, for so long.
    fn keep_back(&mut self, number: u64, place: &Place, hold: Hold, delay_s: u32, now_us: u64) -> Result<(), Error> {
        let lease = Lease::Nobody(place.key);
        self.put_hold(number, place, Hold { lease: Some(lease), ..hold })?;
        self.tell(number, 0);
        self.put_lease(number, now_us + u64::from(delay_s) * 1_000_000, lease)
    }

    /// Gives back the messages that a lease still holds, and forgets it; says how many they were.
    pub(super) fn release(&mut self, number: u64, lease: Lease, end_us: u64) -> Result<usize, Error> {
        self.release_counting(number, lease, end_us, 0)
    }

    /// The same, and the messages were given out so many times less.
    fn release_counting(&mut self, number: u64, lease: Lease, end_us: u64, less: u32) -> Result<usize, Error> {
        self.take(&lease_key(number, end_us, lease))?;
        let given = match lease {
            Lease::Nobody(key) => vec![key],
            Lease::Claim(id) => {
                let given = self.view.claim(number, id)?.map(|row| row.keys).unwrap_or_default();
                self.take(&keys::content(number, Part::Claim, id.as_bytes()))?;
                given
            }
        };
        let still = self.view.still_held(number, lease, &given)?;
        for (place, hold) in &still {
            self.give_back(number, place, Hold { count: hold.count.saturating_sub(less), ..*hold })?;
        }
        Ok(still.len())
    }
}

fn lease_key(number: u64, end_us: u64, lease: Lease) -> Vec<u8> {
    keys::timed(number, Part::Lease, end_us, &lease.encode())
}
