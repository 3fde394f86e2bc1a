//! Domain ↔ record: what a message and a queue look like inside a store, in `MessagePack`.
//!
//! A message's record is one array, `[version, created_us, ttl_s, client, body]`, its numbers in
//! fixed width, so that a script can prefix it and look into it without parsing:
//!
//! | byte | 0 | 1 | 2 | 3..11 | 11 | 12..16 | 16..18 | 18..34 | 34.. |
//! |---|---|---|---|---|---|---|---|---|---|
//! | | `0x95` | `0x01` | `0xcf` | `created_us` | `0xce` | `ttl_s` | `0xc4 0x10` | client | body |
//!
//! The store's clock writes the first eleven bytes, [`tail`] makes the rest.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use super::Error;
use crate::domain::{Body, ClaimId, ClientId, Message, MessageId, Metadata, NewMessage};

/// What the store's clock writes before a [`tail`]: array, version, and the mark of `created_us`.
const HEAD: [u8; 3] = [0x95, 0x01, 0xcf];
const CREATED: std::ops::Range<usize> = 3..11;
const TTL: std::ops::Range<usize> = 12..16;
const BODY: usize = 34;

/// A client as records know it: XXH3-128 of its id, the same for every kind of id.
#[must_use]
pub(super) fn client_digest(client: &ClientId) -> [u8; 16] {
    xxh3_128(client.as_str().as_bytes()).to_be_bytes()
}

/// The record of a message behind its creation time.
#[must_use]
pub(super) fn tail(message: &NewMessage, client: &[u8; 16]) -> Bytes {
    let body = message.body.as_msgpack();
    let mut tail = Vec::with_capacity(BODY - CREATED.end + body.len());
    tail.push(0xce);
    tail.extend_from_slice(&message.ttl_s.to_be_bytes());
    tail.extend_from_slice(&[0xc4, 16]);
    tail.extend_from_slice(client);
    tail.extend_from_slice(body);
    tail.into()
}

/// What claims have changed about a message. In `Redis` its record is `count: u32, ttl_s: u32,
/// end_s: u64`, big-endian, and the sixteen bytes of the claim that holds the message, if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    count: u32,
    ttl_s: u32,
    claim: Option<ClaimId>,
}

/// The hold that a record holds; none for an empty one.
pub(super) fn hold(record: &[u8]) -> Result<Option<Hold>, Error> {
    let number = |at: usize| u32::from_be_bytes(record[at..at + 4].try_into().expect("four bytes"));
    match record.len() {
        0 => Ok(None),
        16 => Ok(Some(Hold { count: number(0), ttl_s: number(4), claim: None })),
        32 => {
            let claim = record[16..].try_into().expect("sixteen bytes");
            Ok(Some(Hold { count: number(0), ttl_s: number(4), claim: Some(ClaimId::from_bytes(claim)) }))
        }
        length => Err(Error::Corrupt(format!("a hold has {length} bytes"))),
    }
}

/// The message that a whole record holds, as it is at `now_us`.
pub(super) fn message(id: MessageId, record: &Bytes, hold: Option<Hold>, now_us: u64) -> Result<Message, Error> {
    if record.len() <= BODY || record[..HEAD.len()] != HEAD {
        return Err(Error::Corrupt(format!("message {id} is no record of version 1")));
    }
    if let Err(error) = rmp_serde::from_slice::<IgnoredAny>(&record[BODY..]) {
        return Err(Error::Corrupt(format!("the body of message {id}: {error}")));
    }
    let created_s = u64::from_be_bytes(record[CREATED].try_into().expect("eight bytes")) / 1_000_000;
    let ttl_s = u32::from_be_bytes(record[TTL].try_into().expect("four bytes"));
    Ok(Message {
        id,
        ttl_s: hold.map_or(ttl_s, |hold| hold.ttl_s),
        created_s,
        age_s: (now_us / 1_000_000).saturating_sub(created_s),
        claim: hold.and_then(|hold| hold.claim),
        claim_count: hold.map_or(0, |hold| hold.count),
        body: Body::from_msgpack(record.slice(BODY..)),
    })
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
