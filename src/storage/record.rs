//! Domain ↔ record: what a message and a queue look like inside a store, in `MessagePack`.
//!
//! A message's record is one array, `[version, created_us, ttl_s, client, body]`, its numbers in
//! fixed width, so that a script can prefix it and look into it without parsing:
//!
//! | byte | 0 | 1 | 2 | 3..11 | 11 | 12..16 | 16..18 | 18..34 | 34.. |
//! |---|---|---|---|---|---|---|---|---|---|
//! | | `0x95` | `0x01` | `0xcf` | `created_us` | `0xce` | `ttl_s` | `0xc4 0x10` | client | body |
//!
//! Version 3 has in the place of `created_us` how long before its rank a message was created, which is its delay (µs):
//! so a script can store it as it comes. Where the rank is not of the second in which the store's clock is, as when that
//! stepped back, the script makes it one of version 1. A dead letter's record is of version 2, `0x96 0x02`: as
//! version 1, and behind the body `[queue, id, claim count]` of where it comes from.

use std::fmt;
use std::io::Cursor;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Error;
use crate::domain::client::Poster;
use crate::domain::{Body, ClaimId, Message, MessageId, Metadata, NewMessage, Origin};

/// What a record begins with that says when its message was created: array, version, and the mark of a `u64`.
const HEAD: [u8; 3] = [0x95, 0x01, 0xcf];
/// What the record of a dead letter begins with instead.
const LETTER_HEAD: [u8; 3] = [0x96, 0x02, 0xcf];
/// What one begins with whose message was created so long before its rank as it says.
const RANKED_HEAD: [u8; 3] = [0x95, 0x03, 0xcf];
const CREATED: std::ops::Range<usize> = 3..11;
const TTL: std::ops::Range<usize> = 12..16;
const CLIENT: std::ops::Range<usize> = 18..BODY;
const BODY: usize = 34;

/// The flags of a policy: messages are delayed, the queue is fair.
pub(super) const DELAYS: u8 = 1;
pub(super) const FAIR: u8 = 2;

/// The record of a message that is created as long before its rank as it is delayed.
#[must_use]
pub(super) fn ranked(message: &NewMessage, poster: Poster) -> Bytes {
    let body = message.body.as_msgpack();
    let mut record = Vec::with_capacity(BODY + body.len());
    record.extend_from_slice(&RANKED_HEAD);
    record.extend_from_slice(&(u64::from(message.delay_s) * 1_000_000).to_be_bytes());
    record.push(0xce);
    record.extend_from_slice(&message.ttl_s.to_be_bytes());
    record.extend_from_slice(&[0xc4, 16]);
    record.extend_from_slice(poster.as_bytes());
    record.extend_from_slice(body);
    record.into()
}

/// When the message of a record that is long enough was created, in microseconds.
fn created_us(id: MessageId, record: &[u8]) -> u64 {
    let number = u64::from_be_bytes(record[CREATED].try_into().expect("eight bytes"));
    if record.starts_with(&RANKED_HEAD) { id.rank().micros().saturating_sub(number) } else { number }
}

/// The same record for a message that is created then (µs).
#[must_use]
pub(super) fn created_at(created_us: u64, ranked: &[u8]) -> Vec<u8> {
    [&HEAD, &created_us.to_be_bytes()[..], &ranked[CREATED.end..]].concat()
}

/// Who posted the message of a record.
pub(super) fn poster(record: &[u8]) -> Result<Poster, Error> {
    let poster = record.get(CLIENT).and_then(|poster| poster.try_into().ok()).map(Poster::from_bytes);
    poster.ok_or_else(|| Error::Corrupt("a message's record is too short".to_owned()))
}

/// Whether the message of a whole record is of that client.
pub(super) fn is_from(record: &[u8], poster: Poster) -> bool {
    record.get(CLIENT) == Some(poster.as_bytes())
}

/// What claims have changed about a message. In `Redis` its record is `count: u32, ttl_s: u32,
/// end_s: u64`, big-endian, and the sixteen bytes of the claim that holds the message, or the thirteen of
/// a lease without a holder, if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    count: u32,
    ttl_s: u32,
    claim: Option<ClaimId>,
}

impl Hold {
    pub(super) fn new(count: u32, ttl_s: u32, claim: Option<ClaimId>) -> Self {
        Self { count, ttl_s, claim }
    }
}

/// The hold that a record holds; none for an empty one.
pub(super) fn hold(record: &[u8]) -> Result<Option<Hold>, Error> {
    let number = |at: usize| u32::from_be_bytes(record[at..at + 4].try_into().expect("four bytes"));
    match record.len() {
        0 => Ok(None),
        // With thirteen bytes of a lease that nobody has, the message was given back for later.
        16 | 29 => Ok(Some(Hold { count: number(0), ttl_s: number(4), claim: None })),
        32 => {
            let claim = record[16..].try_into().expect("sixteen bytes");
            Ok(Some(Hold { count: number(0), ttl_s: number(4), claim: Some(ClaimId::from_bytes(claim)) }))
        }
        length => Err(Error::Corrupt(format!("a hold has {length} bytes"))),
    }
}

/// The message that a whole record holds, as it is at `now_us`.
pub(super) fn message(id: MessageId, record: &Bytes, hold: Option<Hold>, now_us: u64) -> Result<Message, Error> {
    let corrupt = |error: &dyn fmt::Display| Error::Corrupt(format!("message {id}: {error}"));
    let version = record.get(..HEAD.len()).unwrap_or_default();
    if record.len() <= BODY || ![HEAD, LETTER_HEAD, RANKED_HEAD].iter().any(|head| version == head) {
        return Err(corrupt(&"it is no record of version 1, 2 or 3"));
    }
    let (body, rest) = split_value(&record.slice(BODY..)).map_err(|error| corrupt(&error))?;
    let origin = if version == LETTER_HEAD {
        Some(rmp_serde::from_slice::<OriginRecord>(&rest).map_err(|error| corrupt(&error))?.try_into()?)
    } else {
        None
    };
    let created_s = created_us(id, record) / 1_000_000;
    let ttl_s = u32::from_be_bytes(record[TTL].try_into().expect("four bytes"));
    Ok(Message {
        id,
        ttl_s: hold.map_or(ttl_s, |hold| hold.ttl_s),
        created_s,
        age_s: (now_us / 1_000_000).saturating_sub(created_s),
        claim: hold.and_then(|hold| hold.claim),
        claim_count: hold.map_or(0, |hold| hold.count),
        origin,
        poster: Poster::from_bytes(record[CLIENT].try_into().expect("sixteen bytes")),
        body: Body::from_msgpack(body),
    })
}

/// The record of a message that has become a dead letter, from the one that it had where it comes from.
pub(super) fn letter(record: &Bytes, origin: &Origin) -> Result<Bytes, Error> {
    let corrupt = |error: &dyn fmt::Display| Error::Corrupt(format!("message {}: {error}", origin.id));
    if record.len() <= BODY {
        return Err(corrupt(&"it is too short"));
    }
    let (body, _earlier_origin) = split_value(&record.slice(BODY..)).map_err(|error| corrupt(&error))?;
    let created_us = created_us(origin.id, record).to_be_bytes();
    let origin = OriginRecord(origin.queue.to_string(), origin.id.bits(), origin.claim_count);
    let origin = rmp_serde::to_vec(&origin).expect("text and numbers have a MessagePack form");
    Ok([&LETTER_HEAD[..], &created_us, &record[CREATED.end..BODY], &body, &origin].concat().into())
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
