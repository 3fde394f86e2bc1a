//! Subscriptions in Redis: read, write and delete them.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::{Buf, Bytes};
use uuid::Uuid;

use super::RedisStore;
use super::arguments;
use super::keys::QueueKeys;
use super::reply::{self, Reply};
use super::script::{
    SUBSCRIPTION_ATTEMPTS, SUBSCRIPTION_DELETE, SUBSCRIPTION_DELETE_ALL, SUBSCRIPTION_LIST, SUBSCRIPTION_WRITE,
};
use crate::delivery_record::{self, ID_BYTES};
use crate::{
    Error, FeedState, StoredSubscription, StoredSubscriptions, SubscriptionStore, SubscriptionWrite,
    SubscriptionWritten,
};
use sukkal_domain::{Attempt, QueueId, Rank, Subscription, SubscriptionId};

/// Number of bytes of the token of an update, which begins a record in Redis.
const TOKEN_BYTES: usize = 16;
/// Number of bytes of the length of the subscriber, which follows the token.
const LENGTH_BYTES: usize = 4;

#[async_trait]
impl SubscriptionStore for RedisStore {
    async fn read_subscriptions(
        &self,
        queue: &QueueId,
        from: Bound<SubscriptionId>,
        limit: usize,
    ) -> Result<StoredSubscriptions, Error> {
        let from = match &from {
            Bound::Included(id) => [b"[", &id.as_bytes()[..]].concat(),
            Bound::Excluded(id) => [b"(", &id.as_bytes()[..]].concat(),
            Bound::Unbounded => b"-".to_vec(),
        };
        let args = [from.into(), arguments::number(limit as u64)];
        let (_subscriptions, mut reply) = self.run_applying_due(&SUBSCRIPTION_LIST, queue, &args).await?;
        let (now_us, total, lost_until_us) = (reply.number()?, reply.number()?, reply.number()?);
        let feed = FeedState { now_us, total, lost_until_us, ..FeedState::default() };
        let mut stored = StoredSubscriptions { feed, rows: Vec::new(), is_last: reply.number()? == 1 };
        let (mut ids, mut records, mut progress) = (reply.list()?, reply.list()?, reply.list()?);
        while !ids.is_empty() {
            let record = shared_form(&records.bytes_or_nil().unwrap_or_default());
            let progress = progress.bytes_or_nil().unwrap_or_default();
            stored.rows.push(StoredSubscription { id: read_id(&ids.bytes()?)?, record, progress });
        }
        Ok(stored)
    }

    async fn write_subscription(
        &self,
        queue: &QueueId,
        write: &SubscriptionWrite,
    ) -> Result<SubscriptionWritten, Error> {
        let number_or_empty = |number: Option<u64>| number.map_or_else(Bytes::new, arguments::number);
        let token = write.last_known_revision.map_or(*write.id.as_bytes(), |_| *Uuid::new_v4().as_bytes());
        let args = [
            subscription_id(write.id),
            Bytes::copy_from_slice(&token),
            number_or_empty(write.last_known_revision.map(|revision| revision.0)),
            Bytes::copy_from_slice(write.settings.subscriber.as_bytes()),
            number_or_empty(write.ttl_s),
            delivery_record::encode_settings(&write.settings).into(),
            number_or_empty(write.after.map(Rank::micros)),
            arguments::number(write.count_max.into()),
        ];
        let (kind, mut reply) = self.run_applying_due(&SUBSCRIPTION_WRITE, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(SubscriptionWritten::Done),
            "stale" => Ok(SubscriptionWritten::Stale),
            "taken" => Ok(SubscriptionWritten::SubscriberTaken(read_id(&reply.bytes()?)?)),
            "too_many" => Ok(SubscriptionWritten::TooMany),
            kind => Err(reply::unknown_kind(SUBSCRIPTION_WRITE.name, kind)),
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
        let records = reply.read_all(Reply::bytes)?;
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

/// Reads the record of a subscription in Redis.
pub(super) fn read_subscription(id: SubscriptionId, record: &Bytes, now_us: u64) -> Result<Subscription, Error> {
    delivery_record::decode_subscription(id, &shared_form(record), now_us)
}

/// Returns the part of a record in Redis that all drivers share: `scripts/shared/subscriptions.lua`
/// describes it. Returns nothing if the record is too short.
fn shared_form(record: &Bytes) -> Bytes {
    let subscriber_bytes = record.get(TOKEN_BYTES..TOKEN_BYTES + LENGTH_BYTES).map(|mut length| length.get_u32());
    let start = subscriber_bytes.map(|bytes| TOKEN_BYTES + LENGTH_BYTES + bytes as usize);
    start.filter(|start| *start <= record.len()).map_or_else(Bytes::new, |start| record.slice(start..))
}
