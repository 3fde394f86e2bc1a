//! The stored form of subscriptions, progress, retries and attempts.
//!
//! Scripts read and write the first numbers of a subscription and of its progress. Numbers there
//! have eight bytes, big-endian:
//!
//! | record | numbers | then |
//! |---|---|---|
//! | subscription | revision, start of its time to live (µs), time to live (s) | the settings, in `MessagePack` |
//! | progress | position, highest position, messages read, feed total | further numbers, keys of messages in flight |
//! | retry | | further numbers, key and record of the message |
//! | attempt | | `MessagePack` |

use bytes::{Buf, BufMut, Bytes};

use super::error::Error;
use super::key::{KEY_BYTES, id_of, key_of};
use super::record;
use sukkal_domain::client::Poster;
use sukkal_domain::{
    ATTEMPTS_KEPT, Attempt, MessageId, Progress, QueueId, Rank, Retry, Revision, Subscription, SubscriptionId,
    SubscriptionSettings,
};

/// Number of bytes before the settings of a subscription.
pub(super) const SUBSCRIPTION_HEAD_BYTES: usize = 24;
/// Number of bytes before the keys of the messages in flight.
pub(super) const PROGRESS_HEAD_BYTES: usize = 14 * 8;
/// Number of bytes before the record of the message of a retry.
pub(super) const RETRY_HEAD_BYTES: usize = 4 + 8 + 8 + 8 + KEY_BYTES;
/// Number of bytes of the id of a subscription.
pub(super) const ID_BYTES: usize = 16;
const RETRY_NAME_BYTES: usize = ID_BYTES + KEY_BYTES;

/// The numbers at the start of a stored subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SubscriptionHead {
    pub(super) revision: u64,
    /// When its time to live began, in microseconds since 1970.
    pub(super) began_us: u64,
    pub(super) ttl_s: u64,
}

impl SubscriptionHead {
    /// Returns the second, since 1970, at whose start the subscription expires.
    pub(super) fn end_s(self) -> u64 {
        (self.began_us / 1_000_000).saturating_add(self.ttl_s)
    }

    pub(super) fn decode(record: &[u8]) -> Result<Self, Error> {
        let mut head = record.get(..SUBSCRIPTION_HEAD_BYTES).ok_or_else(|| corrupt("a subscription"))?;
        Ok(Self { revision: head.get_u64(), began_us: head.get_u64(), ttl_s: head.get_u64() })
    }
}

/// Returns the record of a subscription.
pub(super) fn encode_subscription(head: SubscriptionHead, settings: &SubscriptionSettings) -> Bytes {
    let mut record = Vec::with_capacity(256);
    for number in [head.revision, head.began_us, head.ttl_s] {
        record.put_u64(number);
    }
    record.extend(encode_settings(settings));
    record.into()
}

/// Returns the part of the record of a subscription that follows its numbers.
pub(super) fn encode_settings(settings: &SubscriptionSettings) -> Vec<u8> {
    rmp_serde::to_vec_named(settings).expect("settings are encodable")
}

/// Returns the subscription with this record, at a time in microseconds since 1970.
pub(super) fn decode_subscription(id: SubscriptionId, record: &[u8], now_us: u64) -> Result<Subscription, Error> {
    let head = SubscriptionHead::decode(record)?;
    let settings = rmp_serde::from_slice(&record[SUBSCRIPTION_HEAD_BYTES..])
        .map_err(|_| corrupt("the settings of a subscription"))?;
    Ok(Subscription {
        id,
        revision: Revision(head.revision),
        ttl_s: head.ttl_s,
        age_s: now_us.saturating_sub(head.began_us) / 1_000_000,
        settings,
    })
}

/// Returns the record of the progress of a subscription.
pub(super) fn encode_progress(progress: &Progress) -> Bytes {
    let mut record = Vec::with_capacity(PROGRESS_HEAD_BYTES + KEY_BYTES * progress.in_flight.len());
    for number in [
        progress.position.micros(),
        progress.counted_to.micros(),
        progress.read,
        progress.feed_total,
        progress.missed,
        progress.delivered,
        progress.given_up,
        progress.attempts,
        progress.failing_since_us,
        progress.last_request,
        progress.next_retry_us,
        progress.retries.into(),
        progress.retry_bytes,
        progress.hold_until_us,
    ] {
        record.put_u64(number);
    }
    record.extend(progress.in_flight.iter().flat_map(|id| key_of(*id)));
    record.into()
}

/// Returns the progress of a subscription of this queue.
pub(super) fn decode_progress(queue: &QueueId, record: &[u8]) -> Result<Progress, Error> {
    let invalid = || corrupt("the progress of a subscription");
    let (mut head, keys) = record.split_at_checked(PROGRESS_HEAD_BYTES).ok_or_else(invalid)?;
    let mut number = || head.get_u64();
    let mut progress = Progress {
        position: Rank::new(number()).ok_or_else(invalid)?,
        counted_to: Rank::new(number()).ok_or_else(invalid)?,
        read: number(),
        feed_total: number(),
        missed: number(),
        delivered: number(),
        given_up: number(),
        attempts: number(),
        failing_since_us: number(),
        last_request: number(),
        next_retry_us: number(),
        retries: u32::try_from(number()).map_err(|_| invalid())?,
        retry_bytes: number(),
        hold_until_us: number(),
        in_flight: Vec::with_capacity(keys.len() / KEY_BYTES),
    };
    for key in keys.chunks(KEY_BYTES) {
        progress.in_flight.push(id_of(queue, key)?);
    }
    Ok(progress)
}

/// Returns the record of a retry.
pub(super) fn encode_retry(retry: &Retry) -> Bytes {
    let mut record = Vec::with_capacity(RETRY_HEAD_BYTES + 64 + retry.message.body.as_msgpack().len());
    record.put_u32(retry.attempts);
    record.put_u64(retry.due_us);
    record.put_u64(retry.message.created_s);
    record.extend(retry.message.poster.as_bytes());
    record.extend(key_of(retry.message.id));
    record.extend(record::kept(&retry.message));
    record.into()
}

/// Returns the retry of a message of this queue, with the age of the message at `now_us`.
pub(super) fn decode_retry(queue: &QueueId, bytes: &Bytes, now_us: u64) -> Result<Retry, Error> {
    let (mut head, _message) = bytes.split_at_checked(RETRY_HEAD_BYTES).ok_or_else(|| corrupt("a retry"))?;
    let (attempts, due_us, created_s) = (head.get_u32(), head.get_u64(), head.get_u64());
    let poster = Poster::from_bytes(head.get_u64().to_be_bytes());
    let id = id_of(queue, head)?;
    let message = record::kept_message(id, &bytes.slice(RETRY_HEAD_BYTES..), created_s, poster, now_us)?;
    Ok(Retry { attempts, due_us, message })
}

/// Succeeds if every reader can read the record of a retry of a message of this queue.
pub(super) fn check_retry(queue: &QueueId, bytes: &Bytes) -> Result<(), Error> {
    record::check(decode_retry(queue, bytes, 0)?.message.id, &bytes.slice(RETRY_HEAD_BYTES..))
}

/// Succeeds if every reader can read the record of an attempt.
pub(super) fn check_attempt(record: &[u8]) -> Result<(), Error> {
    newest_attempts([record]).map(drop)
}

/// Returns the name of a retry: the subscription and the key of the message.
pub(super) fn retry_name(subscription: SubscriptionId, message: MessageId) -> [u8; RETRY_NAME_BYTES] {
    let mut name = [0; RETRY_NAME_BYTES];
    name[..ID_BYTES].copy_from_slice(subscription.as_bytes());
    name[ID_BYTES..].copy_from_slice(&key_of(message));
    name
}

/// Returns the key of the message in the name of a retry.
pub(super) fn message_of_retry_name(name: &[u8]) -> &[u8] {
    name.get(ID_BYTES..).unwrap_or_default()
}

/// Returns the index entry of a retry. The entries of a subscription sort by the time (µs) when
/// they are due: subscription, time, key of the message.
pub(super) fn retry_entry(subscription: SubscriptionId, due_us: u64, message: MessageId) -> Vec<u8> {
    [&subscription.as_bytes()[..], &due_us.to_be_bytes(), &key_of(message)].concat()
}

/// Returns the name of the retry with this index entry.
pub(super) fn retry_name_of_entry(entry: &[u8]) -> Result<[u8; RETRY_NAME_BYTES], Error> {
    let (subscription, rest) = entry.split_at_checked(ID_BYTES).ok_or_else(|| corrupt("the index of retries"))?;
    let key = rest.get(8..).ok_or_else(|| corrupt("the index of retries"))?;
    [subscription, key].concat().try_into().map_err(|_| corrupt("the index of retries"))
}

/// Returns the index entry of the retry with this name and record.
pub(super) fn retry_entry_of_record(name: &[u8], record: &[u8]) -> Result<Vec<u8>, Error> {
    let (id, key) = name.split_at_checked(ID_BYTES).ok_or_else(|| corrupt("the name of a retry"))?;
    let due_us = record.get(4..12).ok_or_else(|| corrupt("a retry"))?;
    Ok([id, due_us, key].concat())
}

/// Returns the place of an attempt: later attempts replace those that are no longer kept.
pub(super) fn attempt_place(number: u64) -> u8 {
    u8::try_from(number % ATTEMPTS_KEPT as u64).expect("few attempts are kept")
}

/// Returns the record of an attempt with its number.
pub(super) fn encode_attempt(number: u64, attempt: &Attempt) -> Bytes {
    rmp_serde::to_vec(&(number, attempt)).expect("an attempt is encodable").into()
}

/// Returns the attempts with these records, the newest first.
pub(super) fn newest_attempts<'a>(records: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Attempt>, Error> {
    let read = |record| rmp_serde::from_slice::<(u64, Attempt)>(record).map_err(|_| corrupt("an attempt"));
    let mut attempts = records.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    attempts.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    Ok(attempts.into_iter().map(|(_, attempt)| attempt).collect())
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(format!("the record of {what} is invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sukkal_domain::message::Nonce;
    use sukkal_domain::{ProjectId, SubscriptionState};

    fn queue() -> QueueId {
        QueueId::new(ProjectId::new("p").unwrap(), "q".parse().unwrap()).unwrap()
    }

    fn message_id(rank: u64) -> MessageId {
        MessageId::new(&queue(), Rank::new(rank).unwrap(), Nonce::from_bits(7))
    }

    #[test]
    fn a_subscription_is_read_as_it_was_written() {
        let options = serde_json::from_str(r#"{"a": [1, null]}"#).unwrap();
        let settings = SubscriptionSettings {
            confirmed: true,
            state: SubscriptionState::Paused(Some("why".to_owned())),
            ..SubscriptionSettings::new("http://a.example/".to_owned(), options)
        };
        let (id, head) = (SubscriptionId::random(), SubscriptionHead { revision: 9, began_us: 5_000_000, ttl_s: 60 });

        let record = encode_subscription(head, &settings);

        let read = decode_subscription(id, &record, 8_000_000).unwrap();
        assert_eq!(read, Subscription { id, revision: Revision(9), ttl_s: 60, age_s: 3, settings });
        assert_eq!(SubscriptionHead::decode(&record).unwrap().end_s(), 65);
        assert!(decode_subscription(id, &record[..SUBSCRIPTION_HEAD_BYTES - 1], 0).is_err());
    }

    /// Releases before authors have stored such settings.
    #[test]
    fn settings_without_an_author_are_read_as_those_of_earlier_releases() {
        let old = serde_json::json!({
            "subscriber": "http://a.example/", "options": {"dead_letter_queue": "dead"}, "confirmed": false, "keys": [],
            "state": "Active", "requests": [],
        });
        let head = SubscriptionHead { revision: 9, began_us: 5_000_000, ttl_s: 60 };
        let mut record = [head.revision, head.began_us, head.ttl_s].map(u64::to_be_bytes).concat();
        record.extend(rmp_serde::to_vec_named(&old).unwrap());

        let read = decode_subscription(SubscriptionId::random(), &record, 8_000_000).unwrap();

        assert_eq!(read.settings.author, None);
        assert_eq!(read.settings.options.text("dead_letter_queue"), Some("dead"));
    }

    #[test]
    fn progress_is_read_as_it_was_written() {
        let position = Rank::new(77).unwrap();
        let progress = Progress {
            position,
            counted_to: position,
            retry_bytes: 13,
            hold_until_us: 14,
            in_flight: vec![message_id(5), message_id(76)],
            ..Progress::default()
        };

        let record = encode_progress(&progress);

        assert_eq!(decode_progress(&queue(), &record).unwrap(), progress);
        assert!(decode_progress(&queue(), &record[..record.len() - 1]).is_err());
    }

    #[test]
    fn a_retry_is_read_as_it_was_written() {
        let retry = Retry {
            attempts: 3,
            due_us: 4_000_000,
            message: record::kept_message(message_id(5), &record(), 2, Poster::from_bytes([9; 8]), 3_000_000).unwrap(),
        };

        let read = decode_retry(&queue(), &encode_retry(&retry), 3_000_000).unwrap();

        assert_eq!(read, retry);
        assert_eq!(retry.message.age_s, 1);
    }

    fn record() -> Bytes {
        Bytes::from_static(&[0x93, 0x04, 0xce, 0, 0, 0, 60, 0xc0])
    }

    #[test]
    fn the_index_of_retries_sorts_by_time_and_names_the_retry() {
        let id = SubscriptionId::random();

        let (early, late) = (retry_entry(id, 255, message_id(9)), retry_entry(id, 256, message_id(1)));

        assert!(early < late);
        assert_eq!(retry_name_of_entry(&late).unwrap(), retry_name(id, message_id(1)));
    }
}
