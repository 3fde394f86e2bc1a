//! The values of keys that items of a migration become. `scripts/shared/queue.lua` describes the
//! keys of a queue, and the other files there describe the values.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes};

use crate::delivery_record::{SubscriptionHead, decode_subscription, retry_entry_of_record};
use crate::entry::{Delivery, Entry, IN_FLIGHT_BYTES};
use crate::key::rank_of;
use crate::migration::{Chunk, Fairness, Item, MessageSet, QueueParts};
use crate::redis::keys::{self, CLAIM_HAS_KEYS, CLAIM_HELD, KeyName, QueueKeys};
use crate::redis::records::{entries, keys_of, stored_key};
use crate::redis::shard_digits;
use crate::{Error, policy, record};
use sukkal_domain::QueueId;

/// Ranks are divided into blocks of this many microseconds: see `scripts/shared/expirations.lua`.
const BLOCK_US: u64 = 16_384;
/// Digits of the sets of a message in the scores of `shards`: see `scripts/shared/fair.lua`.
const AVAILABLE: u64 = 1;
const DELAYED: u64 = 2;
const IN_FLIGHT: u64 = 3;
/// Weight of such a digit.
const SET_DIGIT: u64 = 10_000;
/// Position of the messages without a shard, after which the first shard is served.
const UNSHARDED: u16 = 1_024;
/// First byte of the lease of a message that was returned with a delay.
const RETURNED: u8 = b'~';
/// A time that has passed, so that the next operation applies due changes and finds the next time.
const DUE_NOW: u64 = 0;

/// Values to add to keys.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) by_key: BTreeMap<String, ValuesOfKey>,
    /// For how many more seconds keys are kept that expire.
    pub(super) kept_s: BTreeMap<String, u64>,
}

/// Values to add to a key.
#[derive(Debug)]
pub(super) enum ValuesOfKey {
    /// Fields of a hash.
    Hash(Vec<(Bytes, Bytes)>),
    /// Members of a sorted set, with their scores.
    Sorted(Vec<(Bytes, u64)>),
    /// Members of a sorted set whose scores are the lowest that were ever given.
    Lowest(BTreeMap<Bytes, u64>),
}

impl Values {
    /// Returns the values of the items of a chunk. `slot` is that of its queue.
    pub(super) fn of(chunk: Chunk, slot: u16) -> Result<Self, Error> {
        let mut values = Self::default();
        match &chunk.queue {
            Some(queue) => {
                let mut target = QueueValues { queue, keys: QueueKeys::of(queue), slot, values: &mut values };
                chunk.items.into_iter().try_for_each(|item| target.add(item))?;
            }
            None => chunk.items.into_iter().try_for_each(|item| values.add_of_store(item))?,
        }
        Ok(values)
    }

    /// Adds an item that belongs to no queue.
    fn add_of_store(&mut self, item: Item) -> Result<(), Error> {
        match item {
            Item::Row { table, row } => {
                let keys = keys_of(table);
                for (index, member, score) in entries(table, &row)? {
                    self.sorted(&keys[index], member, score);
                }
                self.hash(&keys[0], stored_key(table, &row.key), row.value);
                Ok(())
            }
            item => Err(Error::Corrupt(format!("an item belongs to no queue: {item:?}"))),
        }
    }

    fn hash(&mut self, key: &str, field: impl Into<Bytes>, value: impl Into<Bytes>) {
        let values = self.by_key.entry(key.to_owned()).or_insert_with(|| ValuesOfKey::Hash(Vec::new()));
        if let ValuesOfKey::Hash(fields) = values {
            fields.push((field.into(), value.into()));
        }
    }

    fn sorted(&mut self, key: &str, member: impl Into<Bytes>, score: u64) {
        let values = self.by_key.entry(key.to_owned()).or_insert_with(|| ValuesOfKey::Sorted(Vec::new()));
        if let ValuesOfKey::Sorted(members) = values {
            members.push((member.into(), score));
        }
    }

    fn lowest(&mut self, key: &str, member: impl Into<Bytes>, score: u64) {
        let values = self.by_key.entry(key.to_owned()).or_insert_with(|| ValuesOfKey::Lowest(BTreeMap::new()));
        if let ValuesOfKey::Lowest(members) = values {
            let lowest = members.entry(member.into()).or_insert(score);
            *lowest = score.min(*lowest);
        }
    }
}

/// The values of one queue.
struct QueueValues<'a> {
    queue: &'a QueueId,
    keys: QueueKeys,
    slot: u16,
    values: &'a mut Values,
}

impl QueueValues<'_> {
    fn add(&mut self, item: Item) -> Result<(), Error> {
        match item {
            Item::Queue(parts) => self.add_queue(&parts),
            Item::Message { entry, set, shard, record } => {
                self.add_message(entry, set, shard, record);
                Ok(())
            }
            Item::Claim { id, ttl_s, since_us, end_us, fence, client, entries } => {
                let id = Bytes::copy_from_slice(id.as_bytes());
                let mut claim = Vec::new();
                claim.put_u32(ttl_s | CLAIM_HAS_KEYS);
                claim.put_u64(since_us);
                claim.put_u64(fence.0);
                claim.put_u16(u16::try_from(client.as_str().len()).expect("a header with the id has at most 64 KiB"));
                claim.put_slice(client.as_str().as_bytes());
                claim.extend(entries.iter().flat_map(|entry| entry.key));
                self.hash(KeyName::Claims, id.clone(), claim);
                self.hash(KeyName::Claims, [&id[..], CLAIM_HELD.as_bytes()].concat(), entries.len().to_string());
                self.sorted(KeyName::ClaimIds, id.clone(), 0);
                self.sorted(KeyName::Leases, id, end_us);
                Ok(())
            }
            Item::Subscription { id, record } => {
                let subscriber = decode_subscription(id, &record, 0)?.settings.subscriber;
                let (id, end_s) = (Bytes::copy_from_slice(id.as_bytes()), SubscriptionHead::decode(&record)?.end_s());
                let length = u32::try_from(subscriber.len()).expect("a URI is short");
                // The id is the token of the last update, as in a new subscription.
                let record = [&id[..], &length.to_be_bytes(), subscriber.as_bytes(), &record].concat();
                self.hash(KeyName::Subscriptions, id.clone(), record);
                self.hash(KeyName::Subscribers, subscriber, id.clone());
                self.sorted(KeyName::SubscriptionIds, id.clone(), 0);
                self.sorted(KeyName::SubscriptionEnds, id, end_s);
                Ok(())
            }
            Item::Progress { id, record } => {
                self.hash(KeyName::Deliveries, [b"p", &id.as_bytes()[..]].concat(), record);
                Ok(())
            }
            Item::Attempt { name, record } => {
                self.hash(KeyName::Deliveries, [b"a", &name[..]].concat(), record);
                Ok(())
            }
            Item::Retry { name, record } => {
                self.sorted(KeyName::RetryTimes, retry_entry_of_record(&name, &record)?, 0);
                self.hash(KeyName::Retries, name, record);
                Ok(())
            }
            Item::Task { id, record, lease } => {
                let id = Bytes::copy_from_slice(id.as_bytes());
                if let Some(lease) = lease {
                    self.hash(KeyName::TaskLeases, id.clone(), lease.encode());
                }
                self.hash(KeyName::Tasks, id, record);
                Ok(())
            }
            Item::Outcome { name, end_us, digest_and_keys } => {
                self.sorted(KeyName::IdempotencyExpirations, name.clone(), end_us);
                self.hash(KeyName::Idempotency, name, digest_and_keys);
                Ok(())
            }
            Item::Tombstone { last, end_us } => {
                // No registration has the version 0.
                if self.keep_until(KeyName::Tombstone, end_us) {
                    self.hash(KeyName::Tombstone, "v", "0");
                    self.hash(KeyName::Tombstone, "c", last.to_string());
                }
                Ok(())
            }
            item @ Item::Row { .. } => Err(Error::Corrupt(format!("an item belongs to a queue: {item:?}"))),
        }
    }

    /// Adds the fields of the queue. It is registered under its revision.
    fn add_queue(&mut self, parts: &QueueParts) -> Result<(), Error> {
        let revision = parts.revision.to_string();
        let mut field = |name: &'static str, value: Bytes| self.hash(KeyName::Queue, name, value);
        let policy = policy::encode(&record::metadata(&parts.metadata)?);
        field("m", parts.metadata.clone());
        for name in ["v", "s", "e"] {
            field(name, revision.clone().into());
        }
        if !policy.is_empty() {
            field("p", policy);
        }
        field("c", numbers([parts.last, parts.totals.posted]));
        field("k", numbers([parts.fence, parts.totals.claimed]));
        field("d", DUE_NOW.to_string().into());
        if let Some(fairness) = &parts.fairness {
            field("f", encode_fairness(fairness));
        }
        if let Some((offset, last)) = parts.logical_time {
            field("l", numbers([offset, last]));
        }
        if parts.is_paused {
            field("z", Bytes::from_static(b"1"));
        }
        let totals =
            [("te", parts.totals.expired), ("td", parts.totals.dead_lettered), ("n", parts.subscription_count)];
        for (name, total) in totals.into_iter().filter(|(_, total)| *total > 0) {
            field(name, total.to_string().into());
        }
        if let Some(bytes) = parts.bytes {
            field("b", bytes.to_string().into());
        }
        if let Some((version, lease)) = &parts.deliveries {
            field("w", lease.encode().into());
            // Without the field s, deliveries are due.
            self.hash(KeyName::Deliveries, "v", version.to_string());
        }
        if !parts.tenants.is_empty() && self.keep_until(KeyName::Tenants, parts.tenants_end_us) {
            for (tenant, count) in &parts.tenants {
                self.sorted(KeyName::Tenants, tenant.as_str().to_owned(), (*count).into());
            }
        }
        let due = self.key(KeyName::Due);
        self.values.lowest(&due, keys::hash_tag(self.queue), DUE_NOW);
        Ok(())
    }

    fn add_message(&mut self, entry: Entry, set: MessageSet, shard: Option<u16>, record: Bytes) {
        let rank = rank_of(&entry.key);
        self.hash(KeyName::Messages, Bytes::copy_from_slice(&entry.key), record);
        let (name, digit) = match set {
            MessageSet::Ready => (KeyName::Ready, AVAILABLE),
            MessageSet::Delayed => (KeyName::Delayed, DELAYED),
            MessageSet::InFlight => (KeyName::InFlight, IN_FLIGHT),
        };
        let encoded = if set == MessageSet::InFlight { in_flight(entry).encode(true) } else { entry.encode(false) };
        if set == MessageSet::InFlight && entry.claim.is_none() {
            let name = if encoded.len() == IN_FLIGHT_BYTES { &encoded } else { &entry.key[..] };
            self.sorted(KeyName::Leases, [&[RETURNED], name].concat(), entry.returned_until_us);
        }
        self.sorted(name, encoded, rank);
        if let Some(shard) = shard {
            let score = digit * SET_DIGIT + u64::from(shard);
            self.sorted(KeyName::Shards, Bytes::copy_from_slice(&entry.key), score);
        }
        let expirations = self.key(KeyName::Expirations);
        self.values.lowest(&expirations, (rank / BLOCK_US).to_string(), entry.current_end_s().into());
    }

    fn hash(&mut self, name: KeyName, field: impl Into<Bytes>, value: impl Into<Bytes>) {
        let key = self.key(name);
        self.values.hash(&key, field, value);
    }

    fn sorted(&mut self, name: KeyName, member: impl Into<Bytes>, score: u64) {
        let key = self.key(name);
        self.values.sorted(&key, member, score);
    }

    /// Returns whether this time has not passed, and lets the key expire then.
    fn keep_until(&mut self, name: KeyName, end_us: u64) -> bool {
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let kept_s = end_us.saturating_sub(u64::try_from(now_us).unwrap_or(u64::MAX)) / 1_000_000;
        if kept_s > 0 {
            let key = self.key(name);
            self.values.kept_s.insert(key, kept_s);
        }
        kept_s > 0
    }

    fn key(&self, name: KeyName) -> String {
        self.keys.named(&[name], self.slot).remove(0)
    }
}

/// Returns the entry as Redis has it: the delivery state before a first claim is not left out, and
/// only the lease of a returned message says when its delay ends.
fn in_flight(entry: Entry) -> Entry {
    let never_claimed = Delivery { count: 0, is_undelivered: false, ttl_s: 0, end_s: entry.end_s };
    let before = entry.claim.map(|_| entry.before.unwrap_or(never_claimed));
    Entry { before, returned_until_us: 0, ..entry }
}

fn encode_fairness(fairness: &Fairness) -> Bytes {
    let (shards, per_tenant) = fairness.sharding.map_or((1, 1), |sharding| (sharding.shards(), sharding.per_tenant()));
    let mut bytes = Vec::new();
    bytes.put_u16(shards);
    bytes.put_u16(per_tenant);
    bytes.put_u64(fairness.boundary);
    bytes.put_slice(&shard_digits::encode(fairness.served.unwrap_or(UNSHARDED)));
    bytes.put_u8(u8::try_from(fairness.preferred_in_a_row).unwrap_or(u8::MAX));
    bytes.into()
}

fn numbers(numbers: [u64; 2]) -> Bytes {
    numbers.map(u64::to_be_bytes).concat().into()
}
