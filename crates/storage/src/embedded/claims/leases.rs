//! Starts, extends and ends the leases of claims and returned messages.

use crate::Error;
use crate::embedded::engine::clock::end_s;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::claim::ClaimRow;
use crate::embedded::rows::keys::{self, Key, Part};
use crate::embedded::rows::lease::{Lease, lease_key};
use crate::embedded::rows::located::Located;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::entry::{Delivery, Entry};
use sukkal_domain::{Claim, ClaimId, Fence, QueueId, Term};

impl<T: Table> View<T> {
    /// Returns those of the messages that the lease still holds.
    pub(crate) fn held_messages(&self, number: u64, lease: Lease, keys: &[Key]) -> Result<Vec<Located>, Error> {
        let mut held = Vec::with_capacity(keys.len());
        for key in keys {
            let located = self.located_in(number, Part::InFlight, key)?;
            held.extend(located.filter(|located| located.lease() == Some(lease)));
        }
        Ok(held)
    }

    /// Returns a live claim with the messages that it still holds.
    pub(crate) fn show_claim(
        &self,
        queue: &QueueId,
        number: u64,
        id: ClaimId,
        now_us: u64,
    ) -> Result<Option<Claim>, Error> {
        let Some(row) = self.claim(number, id)? else {
            return Ok(None);
        };
        let held = self.held_messages(number, Lease::Claim(id), &row.keys)?;
        let age_s = now_us.saturating_sub(row.since_us) / 1_000_000;
        let messages = self.messages(queue, number, held, now_us)?;
        Ok(Some(Claim { id, ttl_s: row.ttl_s, age_s, fence: row.fence, messages, pickup_delays: Vec::new() }))
    }
}

impl WriteTransaction<'_> {
    /// Returns the entry of a message under a claim with this term. If the message would end before
    /// the claim, it now ends when the claim's time to live and grace are over.
    pub(crate) fn prolong(&mut self, number: u64, entry: Entry, term: Term, now_us: u64) -> Result<Entry, Error> {
        let delivery = entry.delivery_state();
        if u64::from(delivery.end_s) * 1_000_000 >= now_us + u64::from(term.ttl_s) * 1_000_000 {
            return Ok(entry);
        }
        let ttl_s = term.ttl_s.saturating_add(term.grace_s);
        let prolonged = Delivery { ttl_s, end_s: end_s(now_us, ttl_s), ..delivery };
        self.move_expiration(number, &entry.key, delivery.end_s, prolonged.end_s)?;
        Ok(Entry { delivery: Some(prolonged), ..entry })
    }

    /// Returns the fence of a new claim of this number of messages.
    pub(crate) fn next_fence(&mut self, number: u64, claimed: usize, now_us: u64) -> Result<Fence, Error> {
        let fence = now_us.max(self.state(number)?.fence + 1);
        self.change_state(number, |state| {
            state.fence = fence;
            state.claimed += claimed as u64;
        })?;
        Ok(Fence(fence))
    }

    pub(crate) fn put_claim(&mut self, number: u64, id: ClaimId, row: &ClaimRow) -> Result<(), Error> {
        self.put_lease(number, row.end_us, Lease::Claim(id))?;
        self.put(&keys::content(number, Part::Claim, id.as_bytes()), &row.encode())
    }

    fn put_lease(&mut self, number: u64, end_us: u64, lease: Lease) -> Result<(), Error> {
        self.note_due(number, end_us)?;
        self.put(&lease_key(number, end_us, lease), &[])
    }

    /// Makes a message that is in flight available, at its position in the feed.
    pub(crate) fn make_available(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        let entry = Entry { claim: None, before: None, ..located.entry };
        self.move_to(number, located, &Located { set: Part::Ready, entry, ..*located })
    }

    /// Makes a message that is in flight available, with the delivery state from before its claim.
    pub(crate) fn restore_delivery(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        // The message counts as claimed before, although it was not delivered: its pick-up delay
        // was recorded.
        let never_claimed = Entry { delivery: None, ..located.entry }.delivery_state();
        let before = located.entry.before.unwrap_or(never_claimed);
        let first_claim_ms = located.entry.first_claim_ms.filter(|_| before.count > 0);
        let entry = Entry { claim: None, delivery: Some(before), first_claim_ms, before: None, ..located.entry };
        self.move_expiration(number, &entry.key, located.entry.current_end_s(), entry.current_end_s())?;
        self.move_to(number, located, &Located { set: Part::Ready, entry, ..*located })
    }

    /// Returns a claimed message with a delay: it stays in flight, but under no claim.
    pub(crate) fn return_with_delay(
        &mut self,
        number: u64,
        located: &Located,
        delay_s: u32,
        now_us: u64,
    ) -> Result<(), Error> {
        let returned_until_us = now_us + u64::from(delay_s) * 1_000_000;
        let entry = Entry { claim: None, returned_until_us, ..located.entry };
        self.put_entry(number, &Located { entry, ..*located })?;
        self.notify(number, 0);
        self.put_lease(number, returned_until_us, Lease::Returned(*located.key()))
    }

    /// Removes what a lease has stored about a message that leaves it. A claim that holds no more
    /// messages ends.
    pub(crate) fn leave_lease(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        let Some(id) = located.entry.claim else {
            let lease = Lease::Returned(*located.key());
            return self.remove_key(&lease_key(number, located.entry.returned_until_us, lease)).map(drop);
        };
        let Some(row) = self.view.claim(number, id)? else { return Ok(()) };
        let key = keys::content(number, Part::Claim, id.as_bytes());
        match row.held {
            None => Ok(()),
            Some(..=1) => {
                self.remove_key(&lease_key(number, row.end_us, Lease::Claim(id)))?;
                self.remove_key(&key).map(drop)
            }
            Some(held) => self.put(&key, &ClaimRow { held: Some(held - 1), ..row }.encode()),
        }
    }

    /// Ends a lease, and makes the messages that it still holds available. Returns their number.
    pub(crate) fn release(&mut self, number: u64, lease: Lease, end_us: u64) -> Result<usize, Error> {
        let held = self.end_lease(number, lease, end_us)?;
        for located in &held {
            self.make_available(number, located)?;
        }
        Ok(held.len())
    }

    /// Removes a lease. Returns the messages that it still holds.
    pub(crate) fn end_lease(&mut self, number: u64, lease: Lease, end_us: u64) -> Result<Vec<Located>, Error> {
        self.remove_key(&lease_key(number, end_us, lease))?;
        let claimed = match lease {
            Lease::Returned(key) => vec![key],
            Lease::Claim(id) => {
                let claimed = self.view.claim(number, id)?.map(|row| row.keys).unwrap_or_default();
                self.remove_key(&keys::content(number, Part::Claim, id.as_bytes()))?;
                claimed
            }
        };
        self.view.held_messages(number, lease, &claimed)
    }
}
