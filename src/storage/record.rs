//! Domain ↔ record: the stored form of messages and queues, in `MessagePack`.
//!
//! The record of a message is one array, `[version, ttl_s, body]`, with numbers of fixed width.
//! Only reading a message requires its record: all that a store bases decisions on is in the
//! message's entry (`entry.rs`).
//!
//! | byte | 0 | 1 | 2 | 3..7 | 7.. |
//! |---|---|---|---|---|---|
//! | | `0x93` | `0x04` | `0xce` | `ttl_s` | body |
//!
//! A message was created `ttl_s + 1` seconds before the expiration time in its entry. The record of
//! a dead letter begins with `0x95`. After the body, it contains its origin as an array of queue,
//! id and claim count, and its creation time in seconds.

use std::fmt;
use std::io::Cursor;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::entry::Entry;
use super::error::Error;
use crate::domain::{Body, Message, MessageId, Metadata, NewMessage, Origin, QueueName};

/// First bytes of a record: the markers of the array, the version and a `u32`.
const HEAD: [u8; 3] = [0x93, 0x04, 0xce];
/// First bytes of the record of a dead letter.
const DEAD_LETTER_HEAD: [u8; 3] = [0x95, 0x04, 0xce];
/// Bytes of the time to live.
pub(super) const TTL: std::ops::Range<usize> = 3..BODY;
const BODY: usize = 7;

/// Flag of a policy: the queue delays messages.
pub(super) const DELAYS: u8 = 1;
/// Flag of a policy: the queue is fair.
pub(super) const FAIR: u8 = 2;

/// Returns the record of a new message.
#[must_use]
pub(super) fn new(message: &NewMessage) -> Bytes {
    [&HEAD, &message.ttl_s.to_be_bytes()[..], message.body.as_msgpack()].concat().into()
}

/// Returns the message of an entry and its record, with its age at `now_us`.
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

/// Returns the record of a message that becomes a dead letter with this time to live, from its
/// record in the original queue.
pub(super) fn dead_letter(record: &Bytes, entry: &Entry, origin: &Origin, ttl_s: u32) -> Result<Bytes, Error> {
    let parts = Parts::read(origin.id, record)?;
    let created_s = parts.origin.map_or_else(|| created_s(entry, parts.ttl_s), |(_, created_s)| created_s);
    Ok(with_origin(ttl_s, &parts.body, origin, created_s))
}

/// Returns the record of a message that a redrive moves at this time, in seconds. It keeps its
/// origin and its time to live, which starts anew.
pub(super) fn redriven(id: MessageId, record: &Bytes, now_s: u64) -> Result<Bytes, Error> {
    let parts = Parts::read(id, record)?;
    Ok(match parts.origin {
        Some((origin, _)) => with_origin(parts.ttl_s, &parts.body, &origin, now_s),
        None => record.clone(),
    })
}

/// Returns the name of the queue from which a message came; `None` if it is not a dead letter.
pub(super) fn origin_queue(id: MessageId, record: &Bytes) -> Result<Option<QueueName>, Error> {
    Ok(Parts::read(id, record)?.origin.map(|(origin, _)| origin.queue))
}

fn with_origin(ttl_s: u32, body: &[u8], origin: &Origin, created_s: u64) -> Bytes {
    let origin = OriginRecord(origin.queue.to_string(), origin.id.bits(), origin.claim_count);
    let origin = rmp_serde::to_vec(&origin).expect("text and numbers have a MessagePack form");
    let created = rmp_serde::to_vec(&created_s).expect("a number has a MessagePack form");
    [&DEAD_LETTER_HEAD, &ttl_s.to_be_bytes()[..], body, &origin, &created].concat().into()
}

/// Returns the time to live in a record, in seconds.
pub(super) fn ttl_s(id: MessageId, record: &Bytes) -> Result<u32, Error> {
    Ok(Parts::read(id, record)?.ttl_s)
}

/// The parts of a record. `origin` is the origin of a dead letter, with its creation time in
/// seconds.
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

/// Splits bytes after their first `MessagePack` value.
fn split_value(bytes: &Bytes) -> Result<(Bytes, Bytes), rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes.as_ref()));
    IgnoredAny::deserialize(&mut reader)?;
    let end = usize::try_from(reader.position()).expect("it is in memory");
    Ok((bytes.slice(..end), bytes.slice(end..)))
}

/// Origin of a dead letter: queue, id, claim count.
#[derive(Deserialize, Serialize)]
struct OriginRecord(String, u128, u32);

impl TryFrom<OriginRecord> for Origin {
    type Error = Error;

    fn try_from(OriginRecord(queue, id, claim_count): OriginRecord) -> Result<Self, Error> {
        let queue = queue.parse().map_err(|_| {
            Error::Corrupt(format!("the origin of a dead letter is {queue:?}, which is not a queue name"))
        })?;
        Ok(Self { queue, id: MessageId::from_bits(id), claim_count })
    }
}

/// Returns the policy of a queue: the part of its metadata that stores enforce. It is empty if
/// there is nothing to enforce.
///
/// Numbers are big-endian, in this order: flags (`u8`, [`DELAYS`] and [`FAIR`]), maximum claim
/// count (`u32`), time to live of dead letters (`u32`, 0: not set). A fair queue adds the number of
/// shards and of shards per tenant (`u16` each). The name of the dead-letter queue comes last.
#[must_use]
pub(super) fn policy(metadata: &Metadata) -> Bytes {
    let delays = metadata.default_message_delay_s().is_some();
    let dead_letters = metadata.dead_letters();
    let sharding = metadata.sharding();
    if !delays && dead_letters.is_none() && sharding.is_none() {
        return Bytes::new();
    }
    let mut policy = vec![if delays { DELAYS } else { 0 } | if sharding.is_some() { FAIR } else { 0 }];
    policy.extend(dead_letters.as_ref().map_or(0, |settings| settings.claim_count_max).to_be_bytes());
    policy.extend(dead_letters.as_ref().and_then(|settings| settings.ttl_s).unwrap_or(0).to_be_bytes());
    policy.extend(sharding.iter().flat_map(|sharding| sharding.shards().to_be_bytes()));
    policy.extend(sharding.iter().flat_map(|sharding| sharding.per_tenant().to_be_bytes()));
    policy.extend(dead_letters.iter().flat_map(|settings| settings.queue.as_str().bytes()));
    policy.into()
}

/// Returns the record of a queue's metadata.
#[must_use]
pub(super) fn from_metadata(metadata: &Metadata) -> Bytes {
    rmp_serde::to_vec(metadata.keys()).expect("JSON always has a MessagePack form").into()
}

/// Returns the metadata of a record.
pub(super) fn metadata(record: &[u8]) -> Result<Metadata, Error> {
    rmp_serde::from_slice::<Map<String, Value>>(record)
        .map(Metadata::from_store)
        .map_err(|error| Error::Corrupt(format!("metadata: {error}")))
}
