//! Subscriptions in Redis: create, get, list, update and delete them.

use async_trait::async_trait;
use bytes::{Buf, Bytes};
use uuid::Uuid;

use super::RedisStore;
use super::arguments;
use super::keys::QueueKeys;
use super::reply;
use super::script::{
    SUBSCRIPTION_ATTEMPTS, SUBSCRIPTION_CREATE, SUBSCRIPTION_DELETE, SUBSCRIPTION_DELETE_ALL, SUBSCRIPTION_GET,
    SUBSCRIPTION_LIST, SUBSCRIPTION_UPDATE,
};
use crate::delivery_record::{self, ID_BYTES};
use crate::{
    Error, FeedState, SubscriptionChange, SubscriptionCreation, SubscriptionPage, SubscriptionStore,
    SubscriptionUpdate, unless_unreadable,
};
use sukkal_domain::{Attempt, NewSubscription, QueueId, Subscription, SubscriptionId, SubscriptionStatus};

/// Number of bytes of the token of an update, which begins a record in Redis.
const TOKEN_BYTES: usize = 16;
/// Number of bytes of the length of the subscriber, which follows the token.
const LENGTH_BYTES: usize = 4;

#[async_trait]
impl SubscriptionStore for RedisStore {
    async fn create_subscription(
        &self,
        queue: &QueueId,
        new: &NewSubscription,
        count_max: u32,
    ) -> Result<SubscriptionCreation, Error> {
        let args = [
            subscription_id(new.id),
            Bytes::copy_from_slice(new.settings.subscriber.as_bytes()),
            arguments::number(new.ttl_s),
            delivery_record::encode_settings(&new.settings).into(),
            new.after.map_or_else(Bytes::new, |after| arguments::number(after.micros())),
            arguments::number(count_max.into()),
        ];
        let (kind, mut reply) = self.run_applying_due(&SUBSCRIPTION_CREATE, queue, &args).await?;
        match kind.as_str() {
            "created" => Ok(SubscriptionCreation::Created),
            "exists" => {
                let (now_us, id) = (reply.number()?, read_id(&reply.bytes()?)?);
                let read = read_subscription(id, &reply.bytes()?, now_us);
                let known = read.map_err(|error| error.of(format_args!("queue {queue}, subscription {id}")));
                known.map(SubscriptionCreation::Exists)
            }
            "too_many" => Ok(SubscriptionCreation::TooMany),
            "absent" => Ok(SubscriptionCreation::NoQueue),
            kind => Err(reply::unknown_kind(SUBSCRIPTION_CREATE.name, kind)),
        }
    }

    async fn get_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<SubscriptionStatus>, Error> {
        let (kind, mut reply) = self.run_applying_due(&SUBSCRIPTION_GET, queue, &[subscription_id(id)]).await?;
        match kind.as_str() {
            "none" => Ok(None),
            "subscription" => {
                let (now_us, records) = (reply.number()?, [reply.bytes_or_nil(), reply.bytes_or_nil()]);
                let (total, lost_until_us) = (reply.number()?, reply.number()?);
                let feed = FeedState { now_us, total, lost_until_us, ..FeedState::default() };
                read_status(queue, id, records, &feed).map(Some)
            }
            kind => Err(reply::unknown_kind(SUBSCRIPTION_GET.name, kind)),
        }
    }

    async fn list_subscriptions(
        &self,
        queue: &QueueId,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<SubscriptionPage, Error> {
        let args = [after.map_or_else(Bytes::new, subscription_id), arguments::number(limit as u64)];
        let (_subscriptions, mut reply) = self.run_applying_due(&SUBSCRIPTION_LIST, queue, &args).await?;
        let (now_us, total, lost_until_us) = (reply.number()?, reply.number()?, reply.number()?);
        let feed = FeedState { now_us, total, lost_until_us, ..FeedState::default() };
        let is_last = reply.number()? == 1;
        let mut page = SubscriptionPage::default();
        while !reply.is_empty() {
            let id = read_id(&reply.bytes()?)?;
            let records = [reply.bytes_or_nil(), reply.bytes_or_nil()];
            page.reached = Some(id).filter(|_| !is_last);
            page.subscriptions.extend(unless_unreadable(read_status(queue, id, records, &feed))?);
        }
        Ok(page)
    }

    async fn update_subscription(
        &self,
        queue: &QueueId,
        id: SubscriptionId,
        change: &SubscriptionChange,
    ) -> Result<SubscriptionUpdate, Error> {
        let args = [
            subscription_id(id),
            arguments::number(change.last_known_revision.0),
            Bytes::copy_from_slice(change.settings.subscriber.as_bytes()),
            change.ttl_s.map_or_else(Bytes::new, arguments::number),
            delivery_record::encode_settings(&change.settings).into(),
            Bytes::copy_from_slice(Uuid::new_v4().as_bytes()),
        ];
        let (kind, mut reply) = self.run_applying_due(&SUBSCRIPTION_UPDATE, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(SubscriptionUpdate::Done),
            "stale" => Ok(SubscriptionUpdate::Stale),
            "taken" => Ok(SubscriptionUpdate::SubscriberTaken(read_id(&reply.bytes()?)?)),
            kind => Err(reply::unknown_kind(SUBSCRIPTION_UPDATE.name, kind)),
        }
    }

    async fn delete_subscription(&self, queue: &QueueId, id: SubscriptionId) -> Result<(), Error> {
        let args = [subscription_id(id)];
        self.connection.run(&SUBSCRIPTION_DELETE, &QueueKeys::of(queue), &args).await.map(drop)
    }

    async fn delete_subscriptions(&self, queue: &QueueId) -> Result<(), Error> {
        self.connection.run(&SUBSCRIPTION_DELETE_ALL, &QueueKeys::of(queue), &[]).await.map(drop)
    }

    async fn list_attempts(&self, queue: &QueueId, id: SubscriptionId) -> Result<Option<Vec<Attempt>>, Error> {
        let args = [subscription_id(id)];
        let mut reply = self.connection.run(&SUBSCRIPTION_ATTEMPTS, &QueueKeys::of(queue), &args).await?;
        if reply.text()? == "none" {
            return Ok(None);
        }
        let mut records = Vec::with_capacity(reply.len());
        while !reply.is_empty() {
            records.push(reply.bytes()?);
        }
        delivery_record::newest_attempts(records.iter().map(|record| &record[..])).map(Some)
    }
}

/// Returns the sixteen bytes of the id of a subscription.
pub(super) fn subscription_id(id: SubscriptionId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

pub(super) fn read_id(bytes: &[u8]) -> Result<SubscriptionId, Error> {
    let invalid = |_| Error::Corrupt(format!("the id of a subscription has {} bytes", bytes.len()));
    <[u8; ID_BYTES]>::try_from(bytes).map(SubscriptionId::from_bytes).map_err(invalid)
}

/// Reads a subscription and how far its deliveries have come. `records` are its record and that of
/// its progress.
fn read_status(
    queue: &QueueId,
    id: SubscriptionId,
    records: [Option<Bytes>; 2],
    feed: &FeedState,
) -> Result<SubscriptionStatus, Error> {
    let [record, progress] = records.map(Option::unwrap_or_default);
    let read = || {
        let FeedState { now_us, total, lost_until_us, .. } = *feed;
        let subscription = read_subscription(id, &record, now_us)?;
        let progress = delivery_record::decode_progress(queue, &progress)?;
        Ok(SubscriptionStatus { lost_until_us, ..SubscriptionStatus::new(subscription, progress, total, now_us) })
    };
    read().map_err(|error: Error| error.of(format_args!("queue {queue}, subscription {id}")))
}

/// Reads the record of a subscription, as `scripts/shared/subscriptions.lua` describes it.
pub(super) fn read_subscription(id: SubscriptionId, record: &[u8], now_us: u64) -> Result<Subscription, Error> {
    let subscriber_bytes = record.get(TOKEN_BYTES..TOKEN_BYTES + LENGTH_BYTES).map(|mut length| length.get_u32());
    let start = subscriber_bytes.map(|bytes| TOKEN_BYTES + LENGTH_BYTES + bytes as usize);
    let record = start.and_then(|start| record.get(start..)).unwrap_or_default();
    delivery_record::decode_subscription(id, record, now_us)
}
