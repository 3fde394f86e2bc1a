//! Reads subscriptions and what belongs to them. A queue that never had one has no rows.

use std::ops::Bound;

use bytes::Bytes;

use crate::delivery_record::{decode_retry, newest_attempts, retry_entry, retry_name_of_entry};
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::holders;
use crate::embedded::rows::delivery::DeliveryRow;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::read::View;
use crate::{Error, FeedState, REPLY_BYTES_MAX, RetryKey, StoredSubscription, StoredSubscriptions};
use sukkal_domain::{Attempt, QueueId, Rank, Retry, SubscriptionId};

impl<T: Table> View<T> {
    /// Returns whether deliveries are due in a queue whose due changes have been applied.
    pub(in crate::embedded) fn has_due_deliveries(&self, state: &QueueState, now_us: u64) -> Result<bool, Error> {
        Ok(state.subscription_count > 0 && self.delivery_row(state)?.is_due(state.last, now_us))
    }

    /// Returns the row of a queue's deliveries. The queue must have a contents number for
    /// subscriptions.
    pub(in crate::embedded) fn delivery_row(&self, state: &QueueState) -> Result<DeliveryRow, Error> {
        let row = self.contents.get(&*keys::part_prefix(state.subscriptions, Part::Delivery))?;
        let row = DeliveryRow::decode(row.ok_or_else(|| damaged("the deliveries of a queue"))?.value())?;
        Ok(DeliveryRow { lease: holders::current(row.lease), ..row })
    }

    /// Returns the record of a subscription.
    pub(super) fn subscription(&self, state: &QueueState, id: SubscriptionId) -> Result<Option<Vec<u8>>, Error> {
        let record = self.contents.get(&*id_key(state, Part::Subscription, id))?;
        Ok(record.map(|record| record.value().to_vec()))
    }

    /// Returns the last changes of subscriptions, as `storage/subscription_changes.rs` describes
    /// them.
    pub(super) fn subscription_changes(&self, state: &QueueState) -> Result<Vec<u8>, Error> {
        let changes = self.contents.get(&*keys::part_prefix(state.subscriptions, Part::SubscriptionChanges))?;
        Ok(changes.map(|changes| changes.value().to_vec()).unwrap_or_default())
    }

    /// Returns the next subscriptions, as many as a reply may have.
    pub(super) fn stored_subscriptions(
        &self,
        state: &QueueState,
        from: Bound<SubscriptionId>,
        limit: usize,
        now_us: u64,
    ) -> Result<StoredSubscriptions, Error> {
        let feed = FeedState { now_us, total: feed_total(state), ..FeedState::default() };
        let mut stored = StoredSubscriptions { feed, ..StoredSubscriptions::default() };
        let all = keys::part_prefix(state.subscriptions, Part::Subscription);
        let (from, end) = (from.map(|id| id_key(state, Part::Subscription, id)), keys::prefix_end(&all));
        let first = if from == Bound::Unbounded { Bound::Included(&all) } else { from.as_ref() };
        let mut bytes = 0;
        for entry in self.contents.range::<&[u8]>((first.map(Vec::as_slice), Bound::Excluded(&*end)))? {
            let (key, record) = entry?;
            bytes += record.value().len();
            if stored.rows.len() == limit || bytes > REPLY_BYTES_MAX && !stored.rows.is_empty() {
                return Ok(stored);
            }
            let (id, record) = (read_id(keys::rest(key.value()))?, Bytes::copy_from_slice(record.value()));
            let progress = self.contents.get(&*id_key(state, Part::Progress, id))?;
            let progress = progress.map_or_else(Bytes::new, |progress| Bytes::copy_from_slice(progress.value()));
            stored.rows.push(StoredSubscription { id, record, progress });
        }
        Ok(StoredSubscriptions { is_last: true, ..stored })
    }

    /// Returns the id of the subscription with this subscriber.
    pub(super) fn subscription_of(
        &self,
        state: &QueueState,
        subscriber: &str,
    ) -> Result<Option<SubscriptionId>, Error> {
        let id = self.contents.get(&*subscriber_key(state, subscriber))?;
        id.map(|id| read_id(id.value())).transpose()
    }

    /// Returns the keys by which a subscription is found whose record cannot be read. Visits all
    /// subscriptions of the queue, whose number has a limit.
    pub(super) fn keys_of_subscription(&self, state: &QueueState, id: SubscriptionId) -> Result<Vec<Vec<u8>>, Error> {
        let mut found = Vec::new();
        for part in [Part::Subscriber, Part::SubscriptionEnd] {
            for entry in self.all_of(state.subscriptions, part)? {
                let (key, value) = entry?;
                if value == id.as_bytes()[..] || part == Part::SubscriptionEnd && key.ends_with(id.as_bytes()) {
                    found.push(keys::content(state.subscriptions, part, &key));
                }
            }
        }
        Ok(found)
    }

    /// Returns the attempts of a subscription, the newest first.
    pub(super) fn attempts(&self, state: &QueueState, id: SubscriptionId) -> Result<Vec<Attempt>, Error> {
        let from = id_key(state, Part::Attempt, id);
        let mut records = Vec::new();
        for entry in self.contents.range::<&[u8]>(&*from..&*keys::prefix_end(&from))? {
            records.push(entry?.1.value().to_vec());
        }
        newest_attempts(records.iter().map(Vec::as_slice))
    }

    /// Returns the next retries of a subscription, as many as a reply may have.
    pub(super) fn retries(
        &self,
        queue: &QueueId,
        state: &QueueState,
        id: SubscriptionId,
        after: Option<RetryKey>,
        limit: usize,
        now_us: u64,
    ) -> Result<Vec<Retry>, Error> {
        let all = id_key(state, Part::RetryTime, id);
        let after = after.map(|(due_us, message)| {
            keys::content(state.subscriptions, Part::RetryTime, &retry_entry(id, due_us, message))
        });
        let end = keys::prefix_end(&all);
        let range = (Bound::Excluded(after.as_ref().unwrap_or(&all).as_slice()), Bound::Excluded(&*end));
        let (mut retries, mut bytes) = (Vec::new(), 0);
        for entry in self.contents.range::<&[u8]>(range)?.take(limit) {
            let name = retry_name_of_entry(keys::rest(entry?.0.value()))?;
            let record = self.contents.get(&*keys::content(state.subscriptions, Part::Retry, &name))?;
            let record = record.ok_or_else(|| damaged("a retry"))?;
            bytes += record.value().len();
            if bytes > REPLY_BYTES_MAX && !retries.is_empty() {
                break;
            }
            let record = Bytes::copy_from_slice(record.value());
            retries.push(decode_retry(queue, &record, now_us)?);
        }
        Ok(retries)
    }
}

/// Returns a key that begins with the id of a subscription.
pub(super) fn id_key(state: &QueueState, part: Part, id: SubscriptionId) -> Vec<u8> {
    keys::content(state.subscriptions, part, id.as_bytes())
}

pub(super) fn subscriber_key(state: &QueueState, subscriber: &str) -> Vec<u8> {
    keys::content(state.subscriptions, Part::Subscriber, subscriber.as_bytes())
}

pub(super) fn read_id(bytes: &[u8]) -> Result<SubscriptionId, Error> {
    bytes.try_into().map(SubscriptionId::from_bytes).map_err(|_| damaged("the id of a subscription"))
}

impl<T: Table> View<T> {
    /// Returns the state of a queue's feed. Its due changes must have been applied.
    pub(super) fn feed_state(
        &self,
        number: u64,
        state: &QueueState,
        subscriptions_version: u64,
        now_us: u64,
    ) -> Result<FeedState, Error> {
        let next_delayed_us = match state.delayed {
            0 => None,
            _ => Some(self.first_due(number, state)?.delay),
        };
        Ok(FeedState {
            now_us,
            last: last_rank(state),
            total: feed_total(state),
            subscriptions_version,
            next_delayed_us,
            lost_until_us: 0,
        })
    }
}

/// Returns the highest rank that was ever visible.
pub(super) fn last_rank(state: &QueueState) -> Rank {
    Rank::new(state.last).unwrap_or(Rank::MAX)
}

/// Returns the number of messages that were ever visible, or were deleted while delayed.
pub(super) fn feed_total(state: &QueueState) -> u64 {
    state.posted.saturating_sub(state.delayed)
}
