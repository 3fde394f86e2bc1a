//! Saves what the holder of the delivery lease has done.

use bytes::Bytes;
use redb::ReadableTable;

use crate::deliveries::DELIVERY_LEASE_DURATION;
use crate::delivery_record::{
    attempt_place, encode_attempt, encode_progress, encode_retry, retry_entry, retry_entry_of_record, retry_name,
};
use crate::embedded::deliveries::read::id_key;
use crate::embedded::rows::delivery::DeliveryRow;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::state::QueueState;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::write::WriteTransaction;
use crate::{DeliveryChange, Error, FeedState, LeaseFence};
use sukkal_domain::{QueueId, SubscriptionId};

/// A change in the form that the writer thread needs.
struct Change {
    subscription: SubscriptionId,
    progress: Bytes,
    /// Each attempt with its place.
    attempts: Vec<(u8, Bytes)>,
    /// The index entry and the name of each retry that has ended.
    ended_retries: Vec<(Vec<u8>, Vec<u8>)>,
    /// The index entry, the name and the record of each new retry.
    new_retries: Vec<(Vec<u8>, Vec<u8>, Bytes)>,
}

impl Change {
    fn new(change: &DeliveryChange) -> Self {
        let id = change.subscription;
        let attempts = change.attempts.iter();
        let new_retries = change.new_retries.iter().map(|retry| {
            let message = retry.message.id;
            (retry_entry(id, retry.due_us, message), retry_name(id, message).to_vec(), encode_retry(retry))
        });
        let ended_retries = change.ended_retries.iter();
        Self {
            subscription: id,
            progress: encode_progress(&change.progress),
            attempts: attempts.map(|(number, made)| (attempt_place(*number), encode_attempt(*number, made))).collect(),
            ended_retries: ended_retries
                .map(|(message, due_us)| (retry_entry(id, *due_us, *message), retry_name(id, *message).to_vec()))
                .collect(),
            new_retries: new_retries.collect(),
        }
    }

    fn bytes(&self) -> usize {
        self.new_retries.iter().map(|(_, _, record)| record.len()).sum()
    }
}

pub(super) async fn save_deliveries(
    store: &EmbeddedStore,
    queue: &QueueId,
    fence: LeaseFence,
    changes: &[DeliveryChange],
) -> Result<Option<FeedState>, Error> {
    let changes: Vec<_> = changes.iter().map(Change::new).collect();
    let bytes = changes.iter().map(Change::bytes).sum();
    store
        .write_bytes_up_to_date(queue, bytes, None, move |store, row, now_us| {
            store.save_deliveries(row.number, fence, &changes, now_us)
        })
        .await
}

impl WriteTransaction<'_> {
    fn save_deliveries(
        &mut self,
        number: u64,
        fence: LeaseFence,
        changes: &[Change],
        now_us: u64,
    ) -> Result<Option<FeedState>, Error> {
        let state = self.state(number)?;
        if state.subscriptions == 0 {
            return Ok(None);
        }
        let row = self.view.delivery_row(&state)?;
        let Some(lease) = row.lease.renewed(fence, now_us, DELIVERY_LEASE_DURATION) else {
            return Ok(None);
        };
        self.put_delivery_row(&state, &DeliveryRow { lease, ..row })?;
        for change in changes {
            if self.view.subscription(&state, change.subscription)?.is_some() {
                self.save_delivery(&state, change)?;
            }
        }
        self.view.feed_state(number, &state, row.version, now_us).map(Some)
    }

    fn save_delivery(&mut self, state: &QueueState, change: &Change) -> Result<(), Error> {
        self.put(&id_key(state, Part::Progress, change.subscription), &change.progress)?;
        for (place, record) in &change.attempts {
            let key = [&id_key(state, Part::Attempt, change.subscription)[..], &[*place]].concat();
            self.put(&key, record)?;
        }
        for (entry, name) in &change.ended_retries {
            // If the save is repeated, the message may have a new retry by now.
            if self.remove_key(&keys::content(state.subscriptions, Part::RetryTime, entry))? {
                self.remove_key(&keys::content(state.subscriptions, Part::Retry, name))?;
            }
        }
        for (entry, name, record) in &change.new_retries {
            self.remove_retry_time(state, name)?;
            self.put(&keys::content(state.subscriptions, Part::RetryTime, entry), &[])?;
            self.put(&keys::content(state.subscriptions, Part::Retry, name), record)?;
        }
        Ok(())
    }

    /// Removes the time of a former retry with this name, if the caller does not know of the retry
    /// or repeats the save.
    fn remove_retry_time(&mut self, state: &QueueState, name: &[u8]) -> Result<(), Error> {
        let former = match self.view.contents.get(&*keys::content(state.subscriptions, Part::Retry, name))? {
            Some(record) => retry_entry_of_record(name, record.value())?,
            None => return Ok(()),
        };
        self.remove_key(&keys::content(state.subscriptions, Part::RetryTime, &former)).map(drop)
    }
}
