//! Claims: create, get, renew, give back, release. See `scripts/shared/claims.lua`.

use async_trait::async_trait;
use bytes::BufMut;

use super::EmbeddedStore;
use super::clock::end_s;
use super::failure::damaged;
use super::keys::{self, Key, Part, Table};
use super::leases::Lease;
use super::located::Located;
use super::view::{View, show};
use super::writer::Step;
use super::writing::Writing;
use crate::domain::{Claim, ClaimId, MessageId, NewClaim, QueueId, Term};
use crate::storage::entry::{Delivery, Entry, UNDELIVERED};
use crate::storage::key::{KEY_BYTES, key_of};
use crate::storage::{ClaimChange, ClaimStore, Error};

/// A live claim as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimRow {
    pub(super) ttl_s: u32,
    pub(super) since_us: u64,
    pub(super) end_us: u64,
    /// The messages that it was given; which of them it still holds, their entries say.
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
        self.write_settled_in_steps(queue, None, move |store, row, now_us| {
            let given = store.next_to_deliver(&of, row, new.limit, &new.prefer, now_us)?;
            if given.is_empty() {
                return Ok(Step::Done(None));
            }
            let id = ClaimId::random();
            // Deliveries are counted where their number is bounded.
            let count = u32::from(row.policy.dead_letters.is_some());
            let mut messages = Vec::with_capacity(given.len());
            for found in &given {
                let before = found.located.entry;
                let mut entry = Entry { claim: Some(id), before: before.delivery, ..before };
                let delivery = before.delivery_state();
                let count = delivery.count.saturating_add(count).min(UNDELIVERED - 1);
                entry.delivery = Some(Delivery { count, is_undelivered: false, ..delivery });
                let entry = store.prolong(row.number, entry, new.term, now_us)?;
                let claimed = Located { set: Part::InFlight, entry, ..found.located };
                store.move_to(row.number, &found.located, &claimed)?;
                messages.push(show(&of, &claimed, &found.record, now_us)?);
            }
            let keys = given.iter().map(|found| *found.located.key()).collect();
            store.keep_claim(row.number, id, new.term.ttl_s, keys, now_us)?;
            let waited =
                given.iter().zip(&messages).filter_map(|(found, message)| found.waited(message, now_us)).collect();
            Ok(Step::Done(Some(Claim { id, ttl_s: new.term.ttl_s, age_s: 0, messages, waited })))
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
            for located in &still {
                let entry = store.prolong(number, located.entry, term, now_us)?;
                store.put_entry(number, &Located { entry, ..*located })?;
            }
            let keys = still.iter().map(|located| *located.key()).collect();
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
            for located in store.view.still_held(number, Lease::Claim(claim), key.as_slice())? {
                match delay_s {
                    0 => store.make_available(number, &located)?,
                    delay_s => store.return_later(number, &located, delay_s, now_us)?,
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
        self.write_settled(queue, (), move |store, number, _now_us| {
            if let Some(row) = store.view.claim(number, id)? {
                for located in store.end_lease(number, Lease::Claim(id), row.end_us)? {
                    store.restore_delivery(number, &located)?;
                }
            }
            Ok(())
        })
        .await
    }
}

impl<T: Table> View<T> {
    /// Of the messages that a lease was given, those that it still holds.
    fn still_held(&self, number: u64, lease: Lease, keys: &[Key]) -> Result<Vec<Located>, Error> {
        let mut still = Vec::with_capacity(keys.len());
        for key in keys {
            let located = self.located_in(number, Part::InFlight, key)?;
            still.extend(located.filter(|located| located.lease() == Some(lease)));
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
        let messages = self.messages(queue, number, still, now_us)?;
        Ok(Some(Claim { id, ttl_s: row.ttl_s, age_s, messages, waited: Vec::new() }))
    }
}

impl Writing<'_> {
    /// The entry of a message that is under a claim of this term. The message lives as long as the claim, and the grace
    /// longer if it would have ended before the claim.
    fn prolong(&mut self, number: u64, entry: Entry, term: Term, now_us: u64) -> Result<Entry, Error> {
        let delivery = entry.delivery_state();
        if u64::from(delivery.end_s) * 1_000_000 >= now_us + u64::from(term.ttl_s) * 1_000_000 {
            return Ok(entry);
        }
        let ttl_s = term.ttl_s.saturating_add(term.grace_s);
        let prolonged = Delivery { ttl_s, end_s: end_s(now_us, ttl_s), ..delivery };
        self.move_expiration(number, &entry.key, delivery.end_s, prolonged.end_s)?;
        Ok(Entry { delivery: Some(prolonged), ..entry })
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

    /// Makes a message that is in flight available, at its position in the feed.
    fn make_available(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        let entry = Entry { claim: None, before: None, ..located.entry };
        self.move_to(number, located, &Located { set: Part::Ready, entry, ..*located })
    }

    /// Makes a message that is in flight available, with the delivery state that it had before its claim.
    fn restore_delivery(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        // It has been claimed before from now on, although nobody got it: its pick-up was counted.
        let never_claimed = Entry { delivery: None, ..located.entry }.delivery_state();
        let delivery = Some(located.entry.before.unwrap_or(never_claimed));
        let entry = Entry { claim: None, delivery, before: None, ..located.entry };
        self.move_expiration(number, &entry.key, located.entry.ends_s(), entry.ends_s())?;
        self.move_to(number, located, &Located { set: Part::Ready, entry, ..*located })
    }

    /// Keeps a message that is under a claim in flight under no claim, for so long.
    fn return_later(&mut self, number: u64, located: &Located, delay_s: u32, now_us: u64) -> Result<(), Error> {
        let lease = Lease::Returned(*located.key());
        self.put_entry(number, &Located { entry: Entry { claim: None, ..located.entry }, ..*located })?;
        self.tell(number, 0);
        self.put_lease(number, now_us + u64::from(delay_s) * 1_000_000, lease)
    }

    /// Ends a lease, and makes the messages that it still holds available; says how many they are.
    pub(super) fn release(&mut self, number: u64, lease: Lease, end_us: u64) -> Result<usize, Error> {
        let still = self.end_lease(number, lease, end_us)?;
        for located in &still {
            self.make_available(number, located)?;
        }
        Ok(still.len())
    }

    /// Forgets a lease. Returns the messages that it still holds.
    fn end_lease(&mut self, number: u64, lease: Lease, end_us: u64) -> Result<Vec<Located>, Error> {
        self.take(&lease_key(number, end_us, lease))?;
        let given = match lease {
            Lease::Returned(key) => vec![key],
            Lease::Claim(id) => {
                let given = self.view.claim(number, id)?.map(|row| row.keys).unwrap_or_default();
                self.take(&keys::content(number, Part::Claim, id.as_bytes()))?;
                given
            }
        };
        self.view.still_held(number, lease, &given)
    }
}

fn lease_key(number: u64, end_us: u64, lease: Lease) -> Vec<u8> {
    keys::timed(number, Part::Lease, end_us, &lease.encode())
}
