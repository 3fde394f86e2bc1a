//! Changes the rows of subscriptions. Each change of a subscription changes their version and is
//! signaled.

use crate::delivery_record::{SubscriptionHead, decode_subscription, encode_progress, encode_subscription};
use crate::embedded::deliveries::read::{feed_total, id_key, last_rank, read_id, subscriber_key};
use crate::embedded::engine::error::damaged;
use crate::embedded::rows::delivery::DeliveryRow;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::write::WriteTransaction;
use crate::{Error, SubscriptionChange, SubscriptionCreation, SubscriptionUpdate, subscription_changes};
use sukkal_domain::{NewSubscription, Progress, Subscription, SubscriptionId, SubscriptionSettings};

/// Number of due changes as which the removal of a subscription counts.
const REMOVAL_COST: usize = 20;
/// More bytes than a key has after the id of a subscription.
const LONGEST_KEY_END: [u8; 64] = [u8::MAX; 64];

impl WriteTransaction<'_> {
    pub(super) fn create_subscription(
        &mut self,
        number: u64,
        new: &NewSubscription,
        count_max: u32,
        now_us: u64,
    ) -> Result<SubscriptionCreation, Error> {
        let state = self.state(number)?;
        if self.view.subscription(&state, new.id)?.is_some() {
            return Ok(SubscriptionCreation::Created);
        }
        if let Some(id) = self.view.subscription_of(&state, &new.settings.subscriber)? {
            let record = self.view.subscription(&state, id)?.ok_or_else(|| damaged("a subscription"))?;
            return Ok(SubscriptionCreation::Exists(decode_subscription(id, &record, now_us)?));
        }
        if state.subscription_count >= count_max.into() {
            return Ok(SubscriptionCreation::TooMany);
        }
        let state = self.with_subscriptions(number, now_us)?;
        self.change_state(number, |state| state.subscription_count += 1)?;
        let head = SubscriptionHead { revision: now_us, began_us: now_us, ttl_s: new.ttl_s };
        self.put_subscription(number, &state, new.id, head, &new.settings)?;
        let last = last_rank(&state);
        let position = new.after.unwrap_or(last).min(last);
        let progress = Progress { position, counted_to: last, feed_total: feed_total(&state), ..Progress::default() };
        self.put(&id_key(&state, Part::Progress, new.id), &encode_progress(&progress))?;
        self.note_subscription_change(number, new.id)?;
        Ok(SubscriptionCreation::Created)
    }

    pub(super) fn update_subscription(
        &mut self,
        number: u64,
        id: SubscriptionId,
        change: &SubscriptionChange,
        now_us: u64,
    ) -> Result<SubscriptionUpdate, Error> {
        let state = self.state(number)?;
        let Some(record) = self.view.subscription(&state, id)? else {
            return Ok(SubscriptionUpdate::Stale);
        };
        let head = SubscriptionHead::decode(&record)?;
        if head.revision != change.last_known_revision.0 {
            return Ok(SubscriptionUpdate::Stale);
        }
        let same = self.view.subscription_of(&state, &change.settings.subscriber)?;
        if let Some(other) = same.filter(|other| *other != id) {
            return Ok(SubscriptionUpdate::SubscriberTaken(other));
        }
        self.remove_subscription_keys(&state, id, &record)?;
        let (began_us, ttl_s) = change.ttl_s.map_or((head.began_us, head.ttl_s), |ttl_s| (now_us, ttl_s));
        let head = SubscriptionHead { revision: now_us.max(head.revision + 1), began_us, ttl_s };
        self.put_subscription(number, &state, id, head, &change.settings)?;
        self.note_subscription_change(number, id)?;
        Ok(SubscriptionUpdate::Done)
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

    /// Writes a subscription and the keys by which it is found.
    fn put_subscription(
        &mut self,
        number: u64,
        state: &QueueState,
        id: SubscriptionId,
        head: SubscriptionHead,
        settings: &SubscriptionSettings,
    ) -> Result<(), Error> {
        self.put(&id_key(state, Part::Subscription, id), &encode_subscription(head, settings))?;
        self.put(&subscriber_key(state, &settings.subscriber), id.as_bytes())?;
        self.put(&keys::timed(state.subscriptions, Part::SubscriptionEnd, head.end_s(), id.as_bytes()), &[])?;
        self.note_due(number, head.end_s().saturating_mul(1_000_000))
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
