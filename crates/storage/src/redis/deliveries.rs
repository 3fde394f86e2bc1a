//! Deliveries in Redis: the lease of the process that delivers, and how far deliveries have come.

use async_trait::async_trait;
use bytes::{BufMut, Bytes};
use tokio::sync::broadcast;
use tracing::debug;
use uuid::Uuid;

use super::RedisStore;
use super::arguments;
use super::keys::{KeyName, QueueKeys};
use super::reply::{self, Reply};
use super::script::{DELIVERY_LEASE, DELIVERY_LEASE_END, DELIVERY_RETRIES, DELIVERY_SAVE};
use super::subscriptions::subscription_id;
use crate::delivery_record::{
    ID_BYTES, attempt_place, decode_retry, encode_attempt, encode_progress, encode_retry, retry_entry,
};
use crate::{
    DeliveryChange, DeliverySignal, DeliveryStore, Error, FeedState, LeaseFence, RetryKey, subscription_changes,
};
use sukkal_domain::{QueueId, Rank, Retry, SubscriptionId};

/// Fields of `deliveries`: the version of the subscriptions, and their last changes.
const VERSION: &[u8] = b"v";
const CHANGES: &[u8] = b"l";
/// Number of bytes of the head of a change: an id and three numbers of four bytes.
const HEAD_BYTES: usize = ID_BYTES + 3 * 4;

#[async_trait]
impl DeliveryStore for RedisStore {
    async fn take_delivery_lease(
        &self,
        queue: &QueueId,
        holder: Uuid,
    ) -> Result<Option<(LeaseFence, FeedState)>, Error> {
        let may_replace = Bytes::from_static(if self.signals.replaces_lost_holders() { b"1" } else { b"0" });
        let args = [Bytes::copy_from_slice(holder.as_bytes()), may_replace];
        let (kind, mut reply) = self.run_applying_due(&DELIVERY_LEASE, queue, &args).await?;
        match kind.as_str() {
            "none" => Ok(None),
            "taken" => {
                self.signals.note_holder(queue, holder);
                Ok(Some((LeaseFence(reply.number()?), read_feed_state(&mut reply)?)))
            }
            kind => Err(reply::unknown_kind(DELIVERY_LEASE.name, kind)),
        }
    }

    async fn changed_subscriptions(&self, queue: &QueueId, since: u64) -> Result<Option<Vec<SubscriptionId>>, Error> {
        let fields = [VERSION, CHANGES].map(Bytes::from_static);
        let values = self.values_of(queue, &QueueKeys::of(queue).key(KeyName::Deliveries), fields).await?;
        let [version, changes] = <[_; 2]>::try_from(values).unwrap_or_default();
        let version = version.and_then(|version| str::from_utf8(&version).ok()?.parse().ok()).unwrap_or_default();
        Ok(subscription_changes::changed_between(&changes.unwrap_or_default(), since, version))
    }

    async fn list_retries(
        &self,
        queue: &QueueId,
        subscription: SubscriptionId,
        after: Option<RetryKey>,
        limit: usize,
    ) -> Result<Vec<Retry>, Error> {
        let keys = QueueKeys::of(queue);
        let after = after.map(|(due_us, message)| retry_entry(subscription, due_us, message)).unwrap_or_default();
        let args = [subscription_id(subscription), after.into(), arguments::number(limit as u64)];
        let mut reply = self.connection.run(&DELIVERY_RETRIES, &keys, &args).await?;
        let (now_us, names) = (reply.number()?, reply.read_all(Reply::bytes)?);
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let records = self.values_of(queue, &keys.key(KeyName::Retries), names).await?;
        records.iter().flatten().map(|record| decode_retry(queue, record, now_us)).collect()
    }

    async fn save_deliveries(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        changes: &[DeliveryChange],
    ) -> Result<Option<FeedState>, Error> {
        let mut args = vec![arguments::number(fence.0)];
        for change in changes {
            add_change(&mut args, change);
        }
        let (kind, mut reply) = self.run_applying_due(&DELIVERY_SAVE, queue, &args).await?;
        match kind.as_str() {
            "fenced" => {
                self.signals.forget_holder(queue);
                Ok(None)
            }
            "saved" => read_feed_state(&mut reply).map(Some),
            kind => Err(reply::unknown_kind(DELIVERY_SAVE.name, kind)),
        }
    }

    async fn end_delivery_lease(
        &self,
        queue: &QueueId,
        fence: LeaseFence,
        seen: &FeedState,
        next_retry_us: Option<u64>,
    ) -> Result<bool, Error> {
        let numbers = [fence.0, seen.last.micros(), seen.subscriptions_version, next_retry_us.unwrap_or_default()];
        let (kind, _) = self.run_applying_due(&DELIVERY_LEASE_END, queue, &numbers.map(arguments::number)).await?;
        match kind.as_str() {
            "busy" => Ok(false),
            "ended" => {
                self.signals.forget_holder(queue);
                Ok(true)
            }
            kind => Err(reply::unknown_kind(DELIVERY_LEASE_END.name, kind)),
        }
    }

    fn delivery_signals(&self) -> broadcast::Receiver<DeliverySignal> {
        let store = self.clone();
        self.signals
            .receiver(&self.connection, move || store.connection.servers.spawn(store.clone().visit_due_queues()))
    }
}

impl RedisStore {
    /// Visits the due queues, among them those whose delivery leases have expired. If this fails,
    /// the janitor does it later.
    async fn visit_due_queues(self) {
        if let Err(error) = self.apply_all_due().await {
            debug!(%error, "cannot visit the due queues after the loss of a process");
        }
    }
}

/// Adds the arguments of a change, in the order that `scripts/delivery_save.lua` reads.
fn add_change(args: &mut Vec<Bytes>, change: &DeliveryChange) {
    let DeliveryChange { subscription, progress, attempts, ended_retries, new_retries } = change;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.put_slice(subscription.as_bytes());
    for count in [attempts.len(), ended_retries.len(), new_retries.len()] {
        head.put_u32(u32::try_from(count).expect("a change has fewer parts"));
    }
    args.extend([head.into(), encode_progress(progress)]);
    for (number, attempt) in attempts {
        args.extend([Bytes::copy_from_slice(&[attempt_place(*number)]), encode_attempt(*number, attempt)]);
    }
    for (message, due_us) in ended_retries {
        args.push(retry_entry(*subscription, *due_us, *message).into());
    }
    for retry in new_retries {
        args.extend([retry_entry(*subscription, retry.due_us, retry.message.id).into(), encode_retry(retry)]);
    }
}

fn read_feed_state(reply: &mut Reply) -> Result<FeedState, Error> {
    let (now_us, last) = (reply.number()?, reply.number()?);
    let last = Rank::new(last).ok_or_else(|| Error::Corrupt(format!("{last} is not a rank")))?;
    let (total, subscriptions_version, next_delayed) = (reply.number()?, reply.number()?, reply.number()?);
    let next_delayed_us = Some(next_delayed).filter(|due_us| *due_us > 0);
    let lost_until_us = reply.number()?;
    Ok(FeedState { now_us, last, total, subscriptions_version, next_delayed_us, lost_until_us })
}
