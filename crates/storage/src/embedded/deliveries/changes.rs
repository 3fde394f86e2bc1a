//! Changes the rows of subscriptions. Each change of a subscription changes their version and is
//! signaled.

use crate::delivery_record::{SubscriptionHead, decode_subscription, encode_progress, encode_subscription};
use crate::embedded::deliveries::read::{feed_total, id_key, last_rank, read_id, subscriber_key};
use crate::embedded::rows::delivery::DeliveryRow;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::write::WriteTransaction;
use crate::{Error, SubscriptionWrite, SubscriptionWritten, subscription_changes};
use sukkal_domain::{Progress, Subscription, SubscriptionId};

/// Number of due changes as which the removal of a subscription counts.
const REMOVAL_COST: usize = 20;
/// More bytes than a key has after the id of a subscription.
const LONGEST_KEY_END: [u8; 64] = [u8::MAX; 64];

impl WriteTransaction<'_> {
    /// Creates or changes a subscription, as [`SubscriptionWrite`] says.
    pub(super) fn write_subscription(
        &mut self,
        number: u64,
        write: &SubscriptionWrite,
        now_us: u64,
    ) -> Result<SubscriptionWritten, Error> {
        let SubscriptionWrite { id, last_known_revision, ref settings, ttl_s, after, count_max } = *write;
        let state = self.state(number)?;
        let record = self.view.subscription(&state, id)?;
        let last = record.as_deref().map(SubscriptionHead::decode).transpose()?;
        match (last, last_known_revision) {
            (Some(_), None) => return Ok(SubscriptionWritten::Done),
            (last, Some(known)) if last.is_none_or(|last| last.revision != known.0) => {
                return Ok(SubscriptionWritten::Stale);
            }
            _ => {}
        }
        let same = self.view.subscription_of(&state, &settings.subscriber)?;
        if let Some(other) = same.filter(|other| *other != id) {
            return Ok(SubscriptionWritten::SubscriberTaken(other));
        }
        if last.is_none() && state.subscription_count >= count_max.into() {
            return Ok(SubscriptionWritten::TooMany);
        }
        let state = self.with_subscriptions(number, now_us)?;
        if let Some(record) = record {
            self.remove_subscription_keys(&state, id, &record)?;
        } else {
            self.change_state(number, |state| state.subscription_count += 1)?;
            let (end, feed_total) = (last_rank(&state), feed_total(&state));
            let position = after.unwrap_or(end).min(end);
            let progress = Progress { position, counted_to: end, feed_total, ..Progress::default() };
            self.put(&id_key(&state, Part::Progress, id), &encode_progress(&progress))?;
        }
        let former = last.unwrap_or_default();
        let (began_us, ttl_s) = ttl_s.map_or((former.began_us, former.ttl_s), |ttl_s| (now_us, ttl_s));
        let head = SubscriptionHead { revision: now_us.max(former.revision + 1), began_us, ttl_s };
        self.put(&id_key(&state, Part::Subscription, id), &encode_subscription(head, settings))?;
        self.put(&subscriber_key(&state, &settings.subscriber), id.as_bytes())?;
        self.put(&keys::timed(state.subscriptions, Part::SubscriptionEnd, head.end_s(), id.as_bytes()), &[])?;
        self.note_due(number, head.end_s().saturating_mul(1_000_000))?;
        self.note_subscription_change(number, id)?;
        Ok(SubscriptionWritten::Done)
    }

    /// Removes a subscription with everything that belongs to it. Has no effect if it does not
    /// exist.
    pub(super) fn remove_subscription(&mut self, number: u64, id: SubscriptionId) -> Result<(), Error> {
        let state = self.state(number)?;
        let Some(record) = self.view.subscription(&state, id)? else {
            return Ok(());
        };
        self.remove_subscription_keys(&state, id, &record)?;
        for part in [Part::Subscription, Part::Progress, Part::Attempt, Part::Retry, Part::RetryTime] {
            let first = id_key(&state, part, id);
            self.remove_range(&first, &[&first[..], &LONGEST_KEY_END].concat())?;
        }
        self.change_state(number, |state| state.subscription_count = state.subscription_count.saturating_sub(1))?;
        self.note_subscription_change(number, id)
    }

    /// Removes expired subscriptions, as many as due changes may.
    pub(in crate::embedded) fn remove_expired_subscriptions(&mut self, number: u64, now_us: u64) -> Result<(), Error> {
        let state = self.state(number)?;
        if state.subscriptions == 0 {
            return Ok(());
        }
        let count_max = self.due_changes_left().div_ceil(REMOVAL_COST);
        let expired = self.view.until(state.subscriptions, Part::SubscriptionEnd, now_us / 1_000_000, count_max)?;
        for (_, id) in &expired {
            self.remove_subscription(number, read_id(id)?)?;
        }
        self.count_due_changes(REMOVAL_COST * expired.len());
        Ok(())
    }

    /// Discards all subscriptions of a queue in constant time.
    pub(super) fn remove_all_subscriptions(&mut self, number: u64) -> Result<(), Error> {
        let state = self.state(number)?;
        if state.subscriptions == 0 {
            return Ok(());
        }
        self.discard_contents(state.subscriptions)?;
        self.change_state(number, |state| (state.subscriptions, state.subscription_count) = (0, 0))?;
        self.signal_deliveries(number);
        Ok(())
    }

    pub(super) fn put_delivery_row(&mut self, state: &QueueState, row: &DeliveryRow) -> Result<(), Error> {
        self.put(&keys::part_prefix(state.subscriptions, Part::Delivery), &row.encode())
    }

    /// Returns the state of a queue that has a contents number for subscriptions.
    fn with_subscriptions(&mut self, number: u64, now_us: u64) -> Result<QueueState, Error> {
        if self.state(number)?.subscriptions == 0 {
            let subscriptions = self.new_number()?;
            self.change_state(number, |state| state.subscriptions = subscriptions)?;
            let state = self.state(number)?;
            self.put_delivery_row(&state, &DeliveryRow::new(now_us))?;
        }
        self.state(number)
    }

    /// Removes the keys by which a subscription is found.
    fn remove_subscription_keys(&mut self, state: &QueueState, id: SubscriptionId, record: &[u8]) -> Result<(), Error> {
        let keys = match (SubscriptionHead::decode(record), decode_subscription(id, record, 0)) {
            (Ok(head), Ok(Subscription { settings, .. })) => vec![
                subscriber_key(state, &settings.subscriber),
                keys::timed(state.subscriptions, Part::SubscriptionEnd, head.end_s(), id.as_bytes()),
            ],
            _ => self.view.keys_of_subscription(state, id)?,
        };
        keys.iter().try_for_each(|key| self.remove_key(key).map(drop))
    }

    fn note_subscription_change(&mut self, number: u64, id: SubscriptionId) -> Result<(), Error> {
        let state = self.state(number)?;
        let row = self.view.delivery_row(&state)?;
        let (before, version) = (row.version, row.version + 1);
        self.put_delivery_row(&state, &DeliveryRow { version, ..row })?;
        let changes = subscription_changes::with_change(&self.view.subscription_changes(&state)?, before, version, id);
        self.put(&keys::part_prefix(state.subscriptions, Part::SubscriptionChanges), &changes)?;
        self.signal_deliveries(number);
        Ok(())
    }
}
