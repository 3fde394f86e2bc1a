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
//! A message was created `ttl_s + 1` seconds before the expiration time in its entry. The array
//! has further elements after the body, and so another first byte, if the message is a dead letter
//! or its post had a trace context:
//!
//! | first byte | elements after the body |
//! |---|---|
//! | `0x94` | trace context |
//! | `0x95` | origin as an array of queue, id and claim count; creation time in seconds |
//! | `0x96` | origin, creation time, trace context |

use std::fmt;
use std::io::Cursor;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::entry::{Entry, SizeClass};
use super::error::Error;
use sukkal_domain::client::Poster;
use sukkal_domain::{Body, JsonObject, Message, MessageId, Metadata, NewMessage, Origin, QueueName, TraceContext};

/// First byte of a record: the marker of an array of three elements. Further elements are counted
/// in the same byte.
const ARRAY: u8 = 0x93;
/// Number of further elements: the trace context, and what a dead letter has.
const TRACE_ELEMENTS: u8 = 1;
const DEAD_LETTER_ELEMENTS: u8 = 2;
/// The bytes after the first one: the version, and the marker of a `u32`.
const VERSION: [u8; 2] = [0x04, 0xce];
/// The bytes before a trace context: the marker of 25 bytes.
const TRACE_MARKER: [u8; 2] = [0xc4, 25];
const TRACE_BYTES: usize = TRACE_MARKER.len() + TraceContext::BYTES;
/// Bytes of the time to live.
pub(super) const TTL: std::ops::Range<usize> = 3..BODY;
const BODY: usize = 7;

/// Returns the record of a new message. `origin` is that of a dead letter, with its creation time
/// in seconds.
#[must_use]
pub(super) fn new(message: &NewMessage, trace: Option<TraceContext>, origin: Option<&(Origin, u64)>) -> Bytes {
    let dead_letter = origin.map(|(origin, created_s)| elements_of(origin, *created_s)).unwrap_or_default();
    encode(message.ttl_s, message.body.as_msgpack(), &dead_letter, trace)
}

/// Returns the sum of the sizes of the messages that these bodies and this trace context give, in
/// bytes. The size of a message is that of its record, rounded up by at most an eighth, as its
/// entry has it. So the sum of a queue can be changed without reading records.
pub fn stored_bytes<'a>(bodies: impl IntoIterator<Item = &'a Body>, trace: Option<TraceContext>) -> u64 {
    let trace_bytes = trace.map_or(0, |_| TRACE_BYTES);
    let sizes = bodies.into_iter().map(|body| SizeClass::of(BODY + body.as_msgpack().len() + trace_bytes));
    sizes.map(|size| size.bytes_max() as u64).sum()
}

/// Returns the record with these parts. `dead_letter` has the further elements of a dead letter.
fn encode(ttl_s: u32, body: &[u8], dead_letter: &[u8], trace: Option<TraceContext>) -> Bytes {
    let dead_letter_elements = if dead_letter.is_empty() { 0 } else { DEAD_LETTER_ELEMENTS };
    let first = ARRAY + dead_letter_elements + if trace.is_some() { TRACE_ELEMENTS } else { 0 };
    let mut record = Vec::with_capacity(BODY + body.len() + dead_letter.len() + trace.map_or(0, |_| TRACE_BYTES));
    record.push(first);
    record.extend_from_slice(&VERSION);
    record.extend_from_slice(&ttl_s.to_be_bytes());
    record.extend_from_slice(body);
    record.extend_from_slice(dead_letter);
    if let Some(trace) = trace {
        record.extend_from_slice(&TRACE_MARKER);
        record.extend_from_slice(trace.as_bytes());
    }
    record.into()
}

/// Returns the message of an entry and its record, with its age at `now_us`.
pub(super) fn message(id: MessageId, entry: &Entry, record: &Bytes, now_us: u64) -> Result<Message, Error> {
    let parts = RecordParts::read(id, record)?;
    let created_s = parts.origin.as_ref().map_or_else(|| created_s(entry, parts.ttl_s), |(_, created_s)| *created_s);
    Ok(Message {
        id,
        ttl_s: entry.delivery.map(|delivery| delivery.ttl_s).filter(|ttl_s| *ttl_s > 0).unwrap_or(parts.ttl_s),
        created_s,
        age_s: (now_us / 1_000_000).saturating_sub(created_s),
        claim: entry.claim,
        claim_count: entry.delivery.map_or(0, |delivery| delivery.count),
        first_claim_ms: entry.first_claim_ms,
        state: None,
        origin: parts.origin.map(|(origin, _)| origin),
        trace: parts.trace,
        poster: entry.poster,
        body: Body::from_msgpack(parts.body),
    })
}

/// Succeeds if every reader can read a record.
pub(super) fn check(id: MessageId, record: &Bytes) -> Result<(), Error> {
    if !Body::from_msgpack(RecordParts::read(id, record)?.body).is_readable() {
        return Err(Error::Corrupt(format!("message {id}: its body is not JSON")));
    }
    Ok(())
}

/// Returns the record of a message that becomes a dead letter with this time to live, from its
/// record in the original queue.
pub(super) fn dead_letter(record: &Bytes, entry: &Entry, origin: &Origin, ttl_s: u32) -> Result<Bytes, Error> {
    let parts = RecordParts::read(origin.id, record)?;
    let created_s = parts.origin.as_ref().map_or_else(|| created_s(entry, parts.ttl_s), |(_, created_s)| *created_s);
    Ok(with_origin(ttl_s, &parts, origin, created_s))
}

/// Returns the record of a message that a redrive moves at this time, in seconds. It keeps its
/// origin, its trace context and its time to live, which starts anew.
pub(super) fn redriven(id: MessageId, record: &Bytes, now_s: u64) -> Result<Bytes, Error> {
    let parts = RecordParts::read(id, record)?;
    Ok(match &parts.origin {
        Some((origin, _)) => with_origin(parts.ttl_s, &parts, origin, now_s),
        None => record.clone(),
    })
}

/// Returns the name of the queue to which a redrive returns a message; `None` if it is not a dead
/// letter, or one of a subscription: all other subscriptions would get it again.
pub(super) fn origin_queue(id: MessageId, record: &Bytes) -> Result<Option<QueueName>, Error> {
    let origin = RecordParts::read(id, record)?.origin.map(|(origin, _)| origin);
    Ok(origin.filter(|origin| origin.claim_count > 0).map(|origin| origin.queue))
}

/// Returns the record of a dead letter with the body and the trace context of `parts`.
fn with_origin(ttl_s: u32, parts: &RecordParts, origin: &Origin, created_s: u64) -> Bytes {
    encode(ttl_s, &parts.body, &elements_of(origin, created_s), parts.trace)
}

/// Returns the further elements of a dead letter.
fn elements_of(origin: &Origin, created_s: u64) -> Vec<u8> {
    let origin = OriginRecord(origin.queue.as_str().to_owned(), origin.id.bits(), origin.claim_count);
    let origin = rmp_serde::to_vec(&origin).expect("text and numbers have a MessagePack form");
    let created = rmp_serde::to_vec(&created_s).expect("a number has a MessagePack form");
    [origin, created].concat()
}

/// Returns the record of a message that was read, without its origin. A retry keeps it, because the
/// message may be gone from its queue before the retry is due.
pub(super) fn kept(message: &Message) -> Bytes {
    encode(message.ttl_s, message.body.as_msgpack(), &[], message.trace)
}

/// Returns the message of such a record, which `poster` has posted at `created_s`.
pub(super) fn kept_message(
    id: MessageId,
    record: &Bytes,
    created_s: u64,
    poster: Poster,
    now_us: u64,
) -> Result<Message, Error> {
    let parts = RecordParts::read(id, record)?;
    Ok(Message {
        id,
        ttl_s: parts.ttl_s,
        created_s,
        age_s: (now_us / 1_000_000).saturating_sub(created_s),
        claim: None,
        claim_count: 0,
        first_claim_ms: None,
        state: None,
        origin: None,
        trace: parts.trace,
        poster,
        body: Body::from_msgpack(parts.body),
    })
}

/// Returns the time to live in a record, in seconds.
pub(super) fn ttl_s(id: MessageId, record: &Bytes) -> Result<u32, Error> {
    Ok(RecordParts::read(id, record)?.ttl_s)
}

/// Returns where a record has its body, if the body is sealed.
pub(super) fn sealed_body(record: &[u8]) -> Option<std::ops::Range<usize>> {
    Some(BODY..BODY + Body::sealed_length(record.get(BODY..)?)?)
}

/// The parts of a record. `origin` is the origin of a dead letter, with its creation time in
/// seconds.
struct RecordParts {
    ttl_s: u32,
    body: Bytes,
    origin: Option<(Origin, u64)>,
    trace: Option<TraceContext>,
}

impl RecordParts {
    fn read(id: MessageId, record: &Bytes) -> Result<Self, Error> {
        let corrupt = |error: &dyn fmt::Display| Error::Corrupt(format!("message {id}: {error}"));
        let elements = record.first().map_or(u8::MAX, |first| first.wrapping_sub(ARRAY));
        let is_known = elements <= TRACE_ELEMENTS + DEAD_LETTER_ELEMENTS && record.get(1..TTL.start) == Some(&VERSION);
        if !is_known || record.len() <= BODY {
            return Err(corrupt(&"its record is not of version 4"));
        }
        let ttl_s = u32::from_be_bytes(record[TTL].try_into().expect("four bytes"));
        let (rest, trace) = match elements & TRACE_ELEMENTS {
            0 => (record.slice(BODY..), None),
            _ => split_trace(&record.slice(BODY..)).ok_or_else(|| corrupt(&"its trace context is damaged"))?,
        };
        if elements & DEAD_LETTER_ELEMENTS == 0 {
            return Ok(Self { ttl_s, body: rest, origin: None, trace });
        }
        let (body, rest) = split_value(&rest).map_err(|error| corrupt(&error))?;
        let (origin, created) = split_value(&rest).map_err(|error| corrupt(&error))?;
        let origin = rmp_serde::from_slice::<OriginRecord>(&origin).map_err(|error| corrupt(&error))?.try_into()?;
        let created_s = rmp_serde::from_slice(&created).map_err(|error| corrupt(&error))?;
        Ok(Self { ttl_s, body, origin: Some((origin, created_s)), trace })
    }
}

fn created_s(entry: &Entry, ttl_s: u32) -> u64 {
    u64::from(entry.end_s.saturating_sub(ttl_s).saturating_sub(1))
}

/// Splits a record before its trace context, which is its last element.
fn split_trace(bytes: &Bytes) -> Option<(Bytes, Option<TraceContext>)> {
    let at = bytes.len().checked_sub(TRACE_BYTES)?;
    let trace = bytes[at..].strip_prefix(&TRACE_MARKER)?.try_into().ok()?;
    Some((bytes.slice(..at), Some(TraceContext::from_bytes(trace))))
}

/// Splits bytes after their first `MessagePack` value.
fn split_value(bytes: &Bytes) -> Result<(Bytes, Bytes), rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes.as_ref()));
    IgnoredAny::deserialize(&mut reader)?;
    let end = usize::try_from(reader.position()).expect("it is in memory");
    Ok((bytes.slice(..end), bytes.slice(end..)))
}

/// Origin of a dead letter: stored name of the queue, id, claim count.
#[derive(Deserialize, Serialize)]
struct OriginRecord(String, u128, u32);

impl TryFrom<OriginRecord> for Origin {
    type Error = Error;

    fn try_from(OriginRecord(queue, id, claim_count): OriginRecord) -> Result<Self, Error> {
        let queue = QueueName::from_stored(&queue).map_err(|_| {
            Error::Corrupt(format!("the origin of a dead letter is {queue:?}, which is not a queue name"))
        })?;
        Ok(Self { queue, id: MessageId::from_bits(id), claim_count })
    }
}

/// Returns the record of a queue's metadata.
#[must_use]
pub(super) fn from_metadata(metadata: &Metadata) -> Bytes {
    metadata.keys().as_msgpack().clone()
}

/// Returns the metadata of a record.
pub(super) fn metadata(record: &[u8]) -> Result<Metadata, Error> {
    let keys = JsonObject::from_msgpack(Bytes::copy_from_slice(record));
    keys.map(Metadata::from_store).ok_or_else(|| Error::Corrupt("metadata is not an object".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::SizeClass;
    use crate::key::{key, key_of};
    use sukkal_domain::client::Poster;
    use sukkal_domain::{ProjectId, QueueId};

    /// The `MessagePack` form of `[1, "a"]`.
    const VALUE: [u8; 4] = [0x92, 1, 0xa1, b'a'];
    const TTL_S: u32 = 60;

    fn id() -> MessageId {
        let queue = QueueId::new(ProjectId::new("p").unwrap(), "q".parse().unwrap()).unwrap();
        crate::key::id_of(&queue, &key(1_000_000, [0; 5])).unwrap()
    }

    fn entry() -> Entry {
        Entry::fresh(key_of(id()), 1_000 + TTL_S + 1, Poster::from_bytes([0; 8]), SizeClass::of(1))
    }

    fn trace() -> TraceContext {
        TraceContext::from_bytes([7; TraceContext::BYTES])
    }

    fn posted(trace: Option<TraceContext>) -> Bytes {
        let body = Body::from_msgpack(VALUE.to_vec().into());
        new(&NewMessage { ttl_s: TTL_S, delay_s: 0, body, assignment: None }, trace, None)
    }

    fn read(record: &Bytes) -> Message {
        message(id(), &entry(), record, 1_009 * 1_000_000).unwrap()
    }

    #[test]
    fn a_message_without_a_trace_context_has_the_record_of_earlier_versions() {
        let earlier = [&[0x93, 0x04, 0xce, 0, 0, 0, 60][..], &VALUE].concat();

        assert_eq!(posted(None), earlier);
        let read = read(&earlier.into());
        assert_eq!((read.ttl_s, read.created_s, read.age_s), (TTL_S, 1_000, 9));
        assert_eq!((read.body.as_msgpack(), read.trace, read.origin), (&VALUE[..], None, None));
    }

    #[test]
    fn a_dead_letter_keeps_the_trace_context() {
        let origin = Origin { queue: "from".parse().unwrap(), id: id(), claim_count: 3 };
        for trace in [None, Some(trace())] {
            let posted = posted(trace);
            let moved = dead_letter(&posted, &entry(), &origin, 600).unwrap();
            let moved_again = dead_letter(&moved, &entry(), &origin, 600).unwrap();

            assert_eq!((read(&posted).trace, read(&posted).origin), (trace, None));
            for record in [moved, moved_again] {
                let read = read(&record);
                assert_eq!((read.ttl_s, read.created_s, read.trace), (600, 1_000, trace));
                assert_eq!((read.body.as_msgpack(), read.origin), (&VALUE[..], Some(origin.clone())));
            }
        }
    }

    #[test]
    fn a_redriven_message_keeps_the_trace_context() {
        let origin = Origin { queue: "from".parse().unwrap(), id: id(), claim_count: 3 };
        for trace in [None, Some(trace())] {
            let posted = posted(trace);
            let moved = dead_letter(&posted, &entry(), &origin, 600).unwrap();
            let redriven_moved = redriven(id(), &moved, 1_005).unwrap();

            assert_eq!(redriven(id(), &posted, 1_005).unwrap(), posted);
            let read = read(&redriven_moved);
            assert_eq!((read.ttl_s, read.created_s, read.trace), (600, 1_005, trace));
            assert_eq!((read.body.as_msgpack(), read.origin), (&VALUE[..], Some(origin.clone())));
        }
    }

    #[test]
    fn a_damaged_record_is_refused() {
        let traced = posted(Some(trace()));
        let mut unmarked = traced.to_vec();
        unmarked[traced.len() - TRACE_BYTES] = 0;
        for record in [vec![], vec![0x97, 0x04, 0xce, 0, 0, 0, 60, 1], traced[..20].to_vec(), unmarked] {
            assert!(RecordParts::read(id(), &record.clone().into()).is_err(), "{record:?}");
        }
    }
}
