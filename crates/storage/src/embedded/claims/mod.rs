//! Claim operations of the store: create, get, list, renew, return, release, withdraw. See
//! `scripts/shared/claims.lua`.

use async_trait::async_trait;

use crate::embedded::rows::claim::ClaimRow;
use crate::embedded::rows::keys::Part;
use crate::embedded::rows::lease::{Lease, lease_key};
use crate::embedded::rows::located::Located;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::show;
use crate::entry::{COUNT_LIMIT, Delivery, Entry};
use crate::key::key_of;
use crate::{ClaimOutcome, ClaimStore, Error};
use sukkal_domain::{Claim, ClaimId, ClaimSummary, Fence, MessageId, NewClaim, QueueId, Taken, Term};

mod leases;
mod list;

#[async_trait]
impl ClaimStore for EmbeddedStore {
    async fn create_claim(&self, queue: &QueueId, id: ClaimId, new: &NewClaim) -> Result<Taken<Claim>, Error> {
        let (queue_id, new) = (queue.clone(), new.clone());
        self.take_messages(queue, move |store, row, now_us| {
            if store.state(row.number)?.is_paused {
                return Ok(Taken::Paused);
            }
            let available = store.next_to_deliver(&queue_id, row, new.limit, &new.preferred_shards, now_us)?;
            if available.is_empty() {
                return Ok(Taken::Nothing);
            }
            let mut messages = Vec::with_capacity(available.len());
            for found in &available {
                let before = found.located.entry;
                let first_claim_ms = before.first_claim_ms.or(Some(now_us / 1_000));
                let mut entry = Entry { claim: Some(id), first_claim_ms, before: before.delivery, ..before };
                let delivery = before.delivery_state();
                let count = (delivery.count + 1).min(COUNT_LIMIT - 1);
                entry.delivery = Some(Delivery { count, is_undelivered: false, ..delivery });
                let entry = store.prolong(row.number, entry, new.term, now_us)?;
                let claimed = Located { set: Part::InFlight, entry, ..found.located };
                store.move_to(row.number, &found.located, &claimed)?;
                messages.push(show(&queue_id, &claimed, &found.record, now_us)?);
            }
            let keys = available.iter().map(|found| *found.located.key()).collect();
            let fence = store.next_fence(row.number, available.len(), now_us)?;
            let ttl_s = new.term.ttl_s;
            let claim = ClaimRow::new(ttl_s, now_us, fence, new.client.clone(), keys);
            store.put_claim(row.number, id, &claim)?;
            let pickup_delays = available
                .iter()
                .zip(&messages)
                .filter_map(|(found, message)| found.pickup_delay(message, now_us))
                .collect();
            Ok(Taken::Messages(Claim { id, ttl_s, age_s: 0, fence, messages, pickup_delays }))
        })
        .await
    }

    async fn get_claim(&self, queue: &QueueId, id: ClaimId) -> Result<Option<Claim>, Error> {
        let queue_id = queue.clone();
        let claim = self.read_up_to_date(queue, move |view, queue_row, _state, now_us| {
            view.show_claim(&queue_id, queue_row.number, id, now_us)
        });
        Ok(claim.await?.flatten())
    }

    async fn list_claims(
        &self,
        queue: &QueueId,
        after: Option<ClaimId>,
        limit: usize,
    ) -> Result<Vec<ClaimSummary>, Error> {
        let claims = self.read_up_to_date(queue, move |view, queue_row, _state, now_us| {
            view.claims_after(queue_row.number, after, limit, now_us)
        });
        Ok(claims.await?.unwrap_or_default())
    }

    async fn renew_claim(&self, queue: &QueueId, id: ClaimId, term: Term) -> Result<Option<Fence>, Error> {
        self.write_up_to_date(queue, None, move |store, queue_row, now_us| {
            let Some(row) = store.view.claim(queue_row.number, id)? else {
                return Ok(None);
            };
            let held = store.view.held_messages(queue_row.number, Lease::Claim(id), &row.keys)?;
            for located in &held {
                let entry = store.prolong(queue_row.number, located.entry, term, now_us)?;
                store.put_entry(queue_row.number, &Located { entry, ..*located })?;
            }
            let keys = held.iter().map(|located| *located.key()).collect();
            store.remove_key(&lease_key(queue_row.number, row.end_us, Lease::Claim(id)))?;
            let renewed = ClaimRow::new(term.ttl_s, now_us, row.fence, row.client, keys);
            store.put_claim(queue_row.number, id, &renewed)?;
            store.notify(queue_row.number, 0);
            Ok(Some(row.fence))
        })
        .await
    }

    async fn return_message(
        &self,
        queue: &QueueId,
        claim: ClaimId,
        id: MessageId,
        delay_s: u32,
    ) -> Result<ClaimOutcome, Error> {
        let key = id.is_of(queue).then(|| key_of(id));
        self.write_up_to_date(queue, ClaimOutcome::Gone, move |store, queue_row, now_us| {
            if store.view.claim(queue_row.number, claim)?.is_none() {
                return Ok(ClaimOutcome::Gone);
            }
            // An id of another queue has a key that this claim holds only by an unlikely
            // coincidence.
            let held = store.view.held_messages(queue_row.number, Lease::Claim(claim), key.as_slice())?;
            let Some(located) = held.first() else { return Ok(ClaimOutcome::NotHeld) };
            store.leave_lease(queue_row.number, located)?;
            match delay_s {
                0 => store.make_available(queue_row.number, located)?,
                delay_s => store.return_with_delay(queue_row.number, located, delay_s, now_us)?,
            }
            Ok(ClaimOutcome::Done)
        })
        .await
    }

    async fn release_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.write_up_to_date(queue, (), move |store, queue_row, _now_us| {
            if let Some(row) = store.view.claim(queue_row.number, id)? {
                store.release(queue_row.number, Lease::Claim(id), row.end_us)?;
            }
            Ok(())
        })
        .await
    }

    async fn withdraw_claim(&self, queue: &QueueId, id: ClaimId) -> Result<(), Error> {
        self.write_up_to_date(queue, (), move |store, queue_row, _now_us| {
            if let Some(row) = store.view.claim(queue_row.number, id)? {
                for located in store.end_lease(queue_row.number, Lease::Claim(id), row.end_us)? {
                    store.restore_delivery(queue_row.number, &located)?;
                }
            }
            Ok(())
        })
        .await
    }
}
