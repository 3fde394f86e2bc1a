//! Domain ↔ record: what a message and a queue look like inside a store, in `MessagePack`.
//!
//! A message's record is one array, `[version, ttl_s, body]`, its numbers in fixed width. What stores decide from is in
//! the message's entry instead (`entry.rs`), so that only readers need the record:
//!
//! | byte | 0 | 1 | 2 | 3..7 | 7.. |
//! |---|---|---|---|---|---|
//! | | `0x93` | `0x04` | `0xce` | `ttl_s` | body |
//!
//! A message was created `ttl_s + 1` seconds before the second in which its entry says that it ends. The record of a dead
//! letter begins with `0x95`, and behind the body it has `[queue, id, claim count]` of where it comes from and the second
//! in which it was created.

use std::fmt;
use std::io::Cursor;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Error;
use super::entry::Entry;
use crate::domain::{Body, Message, MessageId, Metadata, NewMessage, Origin};

/// The first bytes of a record: array and version, and what announces a `u32`.
const HEAD: [u8; 3] = [0x93, 0x04, 0xce];
/// The first bytes of the record of a dead letter.
const DEAD_LETTER_HEAD: [u8; 3] = [0x95, 0x04, 0xce];
const TTL: std::ops::Range<usize> = 3..BODY;
const BODY: usize = 7;

/// Flags of a policy: the queue delays messages, the queue is fair.
pub(super) const DELAYS: u8 = 1;
pub(super) const FAIR: u8 = 2;

/// The record of a new message.
#[must_use]
pub(super) fn new(message: &NewMessage) -> Bytes {
    [&HEAD, &message.ttl_s.to_be_bytes()[..], message.body.as_msgpack()].concat().into()
}

/// The message that an entry and its record hold, as it is at `now_us`.
pub(super) fn message(id: MessageId, entry: &Entry, record: &Bytes, now_us: u64) -> Result<Message, Error> {
    let parts = Parts::read(id, record)?;
    let created_s = parts.origin.as_ref().map_or_else(|| created_s(entry, parts.ttl_s), |(_, created_s)| *created_s);
    Ok(Message {
        id,
        ttl_s: entry.delivery.map(|delivery| delivery.ttl_s).filter(|ttl_s| *ttl_s > 0).unwrap_or(parts.ttl_s),
        created_s,
        age_s: (now_us / 1_000_000).saturating_sub(created_s),
        claim: entry.claim,
        claim_count: entry.delivery.map_or(0, |delivery| delivery.count),
        origin: parts.origin.map(|(origin, _)| origin),
        poster: entry.poster,
        body: Body::from_msgpack(parts.body),
    })
}

/// The record of a message that becomes a dead letter with this time to live, from the one that it had where it comes
/// from.
pub(super) fn dead_letter(record: &Bytes, entry: &Entry, origin: &Origin, ttl_s: u32) -> Result<Bytes, Error> {
    let parts = Parts::read(origin.id, record)?;
    let created_s = parts.origin.map_or_else(|| created_s(entry, parts.ttl_s), |(_, created_s)| created_s);
    let origin = OriginRecord(origin.queue.to_string(), origin.id.bits(), origin.claim_count);
    let behind = rmp_serde::to_vec(&origin).expect("text and numbers have a MessagePack form");
    let created = rmp_serde::to_vec(&created_s).expect("a number has a MessagePack form");
    Ok([&DEAD_LETTER_HEAD, &ttl_s.to_be_bytes()[..], &parts.body, &behind, &created].concat().into())
}

/// Time to live in seconds that a record says.
pub(super) fn ttl_s(id: MessageId, record: &Bytes) -> Result<u32, Error> {
    Ok(Parts::read(id, record)?.ttl_s)
}

/// What a record holds. Of a dead letter also where it comes from, and the second in which it was created.
struct Parts {
    ttl_s: u32,
    body: Bytes,
    origin: Option<(Origin, u64)>,
}

impl Parts {
    fn read(id: MessageId, record: &Bytes) -> Result<Self, Error> {
        let corrupt = |error: &dyn fmt::Display| Error::Corrupt(format!("message {id}: {error}"));
        let head = record.get(..HEAD.len()).unwrap_or_default();
        if record.len() <= BODY || ![HEAD, DEAD_LETTER_HEAD].iter().any(|known| head == known) {
            return Err(corrupt(&"its record is not of version 4"));
        }
        let ttl_s = u32::from_be_bytes(record[TTL].try_into().expect("four bytes"));
        if head == HEAD {
            return Ok(Self { ttl_s, body: record.slice(BODY..), origin: None });
        }
        let (body, rest) = split_value(&record.slice(BODY..)).map_err(|error| corrupt(&error))?;
        let (origin, created) = split_value(&rest).map_err(|error| corrupt(&error))?;
        let origin = rmp_serde::from_slice::<OriginRecord>(&origin).map_err(|error| corrupt(&error))?.try_into()?;
        let created_s = rmp_serde::from_slice(&created).map_err(|error| corrupt(&error))?;
        Ok(Self { ttl_s, body, origin: Some((origin, created_s)) })
    }
}

fn created_s(entry: &Entry, ttl_s: u32) -> u64 {
    u64::from(entry.end_s.saturating_sub(ttl_s).saturating_sub(1))
}

/// The first `MessagePack` value of these bytes, and what follows it.
fn split_value(bytes: &Bytes) -> Result<(Bytes, Bytes), rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes.as_ref()));
    IgnoredAny::deserialize(&mut reader)?;
    let end = usize::try_from(reader.position()).expect("it is in memory");
    Ok((bytes.slice(..end), bytes.slice(end..)))
}

/// Where a dead letter comes from: queue, id, claim count.
#[derive(Deserialize, Serialize)]
struct OriginRecord(String, u128, u32);

impl TryFrom<OriginRecord> for Origin {
    type Error = Error;

    fn try_from(OriginRecord(queue, id, claim_count): OriginRecord) -> Result<Self, Error> {
        let queue = queue.parse().map_err(|_| Error::Corrupt(format!("a dead letter comes from {queue:?}")))?;
        Ok(Self { queue, id: MessageId::from_bits(id), claim_count })
    }
}

/// What stores obey of a queue's metadata: flags (`u8`, see below), how often messages are given out (`u32`) and how
/// long dead letters live (`u32`, 0: not set); in a fair queue how many shards it has and how many of them a tenant
/// (`u16` each), all big-endian; and the queue for dead letters. Empty where there is nothing to obey.
#[must_use]
pub(super) fn policy(metadata: &Metadata) -> Bytes {
    let delays = metadata.default_message_delay_s().is_some();
    let letters = metadata.dead_letters();
    let sharding = metadata.sharding();
    if !delays && letters.is_none() && sharding.is_none() {
        return Bytes::new();
    }
    let mut policy = vec![if delays { DELAYS } else { 0 } | if sharding.is_some() { FAIR } else { 0 }];
    policy.extend(letters.as_ref().map_or(0, |letters| letters.claim_count_max).to_be_bytes());
    policy.extend(letters.as_ref().and_then(|letters| letters.ttl_s).unwrap_or(0).to_be_bytes());
    policy.extend(sharding.iter().flat_map(|sharding| sharding.shards().to_be_bytes()));
    policy.extend(sharding.iter().flat_map(|sharding| sharding.per_tenant().to_be_bytes()));
    policy.extend(letters.iter().flat_map(|letters| letters.queue.as_str().bytes()));
    policy.into()
}

/// A queue's metadata as its record.
#[must_use]
pub(super) fn from_metadata(metadata: &Metadata) -> Bytes {
    rmp_serde::to_vec(metadata.keys()).expect("JSON always has a MessagePack form").into()
}

/// The metadata that a record holds.
pub(super) fn metadata(record: &[u8]) -> Result<Metadata, Error> {
    rmp_serde::from_slice::<Map<String, Value>>(record)
        .map(Metadata::from_store)
        .map_err(|error| Error::Corrupt(format!("metadata: {error}")))
}
