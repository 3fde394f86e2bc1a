//! Every key that Sukkal stores, in two tables.
//!
//! Table `registry` is ordered by name. `Q` stands for the project, with `0xff` after each zero
//! byte, then two zero bytes and the queue's name. So keys sort by project and name, and no two
//! queue ids have the same key.
//!
//! | key | value |
//! |---|---|
//! | `format` | version of this format: see `engine/tables.rs` |
//! | `n` | last contents number that was assigned |
//! | `p` project | number of queues and topics in the project |
//! | `u` project | number of topics in the project; absent if there are none |
//! | `q` Q | a queue: contents number, revision, the metadata that the store itself applies, metadata; of a queue that is in a pool: 0, epoch, 2 zero bytes, name of the pool |
//! | `g` Q | tombstone of a deleted queue, for a day: the last rank or fence that it may have assigned |
//! | `b` Q zero number contents | a message in the outbox of the queue: see `storage/moved_messages.rs` |
//! | `a` Q zero source | expiry (µs), number of the last message that has arrived from the queue `source` |
//! | `o` number name | outcome of a post with an idempotency key: expiry, digest, keys of its messages |
//! | `r` number pop key | expiry (µs) of the record that this message of the pop was restored |
//! | `x` expiry key | nothing: that key of the registry expires at this time (µs) |
//! | `k` id | a token: see `storage/token_record.rs` |
//! | `l` Q, id | nothing: that token belongs to the project of Q, which has no queue name |
//! | `e` time id | nothing: that token expires at this time (µs) |
//! | `c` | number of tokens |
//! | `c` Q | number of tokens of the project of Q, which has no queue name |
//! | `m` | version of the list of quotas: see `storage/quotas.rs` |
//! | `m` project | the quotas that are set for the project |
//! | `s` | the list of pools and flavors, after its version: see `storage/pools.rs` |
//! | `t` number | nothing: the contents with this number are discarded |
//! | `i` | id by which a migration of this store recognizes its target: see `storage/migration` |
//!
//! Table `contents` is ordered by the contents number of a queue. A purge gives the queue a new
//! number, and a purge and a deletion discard the old one. A key is the number, the part, and then:
//!
//! | part | rest of the key | value |
//! |---|---|---|
//! | `STATE` | | assigned ranks and fences, message counts, time of the next due change: see `state.rs` |
//! | `MESSAGE` | key | the message's record |
//! | `READY`, `DELAYED`, `IN_FLIGHT` | key | the entry, in exactly one of the three: see `storage/entry.rs`, and `located.rs` |
//! | `LEASE` | end (µs), lease | nothing: the lease ends at this time |
//! | `CLAIM` | claim | time to live, start, end, fence, client, keys of the claimed messages |
//! | `EXPIRATION` | second, key | nothing: the message ends then; there is one for each message |
//! | `TURN` | shard, key | entry of an available message with a shard, or a passed one: see `shard_counts.rs` |
//! | `SHARD` | block | counts of the shards of a block, and their passed entries; absent if all are 0 |
//! | `TENANTS` | | the tenants that posted most recently: see `tenants.rs` |
//! | `TASK` | id | a task: see `storage/task_record.rs` |
//! | `TASK_LEASE` | id | the lease of a running task: see `storage/task_lease.rs` |
//!
//! The subscriptions of a queue have a contents number of their own, which is in the state of the
//! queue, because a purge of the messages keeps them. `storage/delivery_record.rs` has the records
//! and the parts of keys. Under that number, `contents` has:
//!
//! | part | rest of the key | value |
//! |---|---|---|
//! | `SUBSCRIPTION` | id | a subscription |
//! | `SUBSCRIBER` | subscriber | id of its subscription |
//! | `SUBSCRIPTION_END` | second, id | nothing: the subscription expires then |
//! | `PROGRESS` | id | the progress of a subscription |
//! | `ATTEMPT` | id, place | an attempt |
//! | `RETRY` | id, key | the retry of a message |
//! | `RETRY_TIME` | id, time (µs), key | nothing: the retry is due at this time |
//! | `DELIVERY` | | the delivery lease, and what its last holder has seen: see `delivery.rs` |
//! | `SUBSCRIPTION_CHANGES` | | the last changes of subscriptions: see `storage/subscription_changes.rs` |

use std::ops::Bound;

use crate::NameRange;
use crate::key::KEY_BYTES;
use crate::key::key_of;
use sukkal_domain::{MessageId, ProjectId, QueueId, QueueName};

pub(in crate::embedded) use crate::key::{Key, prefix_end};

pub(crate) const LAST_NUMBER: &[u8] = b"n";
pub(crate) const QUEUES: u8 = b'q';
pub(crate) const EXPIRIES: u8 = b'x';
pub(crate) const DISCARDED: u8 = b't';
pub(crate) const OUTBOX: u8 = b'b';
pub(crate) const MIGRATION_ID: &[u8] = b"i";
pub(crate) const PROJECTS: u8 = b'p';
pub(crate) const TOPICS: u8 = b'u';
pub(crate) const TOMBSTONES: u8 = b'g';
const RECEIVED: u8 = b'a';
const OUTCOMES: u8 = b'o';
const RESTORED: u8 = b'r';

/// The kinds of rows that are stored under a contents number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Part {
    State = 0,
    Message = 1,
    Ready = 2,
    Delayed = 3,
    InFlight = 4,
    Lease = 5,
    Claim = 6,
    Expiration = 7,
    Turn = 8,
    Shard = 9,
    Tenants = 10,
    Task = 11,
    TaskLease = 12,
    Subscription = 13,
    Subscriber = 14,
    SubscriptionEnd = 15,
    Progress = 16,
    Attempt = 17,
    Retry = 18,
    RetryTime = 19,
    Delivery = 20,
    SubscriptionChanges = 21,
}

const PROJECT_END: [u8; 2] = [0, 0];
/// Ends the name of a queue in front of more. It is lower than every byte of a name.
const NAME_END: u8 = 0;
/// Length of the numbers at the end of the key of a message in an outbox, in bytes.
pub(crate) const OUTBOX_NUMBERS_BYTES: usize = 16;
const TIME_BYTES: usize = 8;
const MESSAGE_KEY_BYTES: usize = TIME_BYTES + 1 + KEY_BYTES;

/// Returns the start and the end of the range of queues with these names. The keys of the project's
/// queues begin with `all`. Returns `None` if there can be none.
pub(crate) fn in_range(all: &[u8], names: &NameRange) -> Option<(Bound<Vec<u8>>, Vec<u8>)> {
    let key = |text: &str| [all, text.as_bytes()].concat();
    let first = key(&names.prefix);
    let end = names.below.map(key).into_iter().chain([prefix_end(&first)]).min()?;
    let from = match names.after.as_deref().map(key) {
        Some(after) if after >= first => Bound::Excluded(after),
        _ => Bound::Included(first),
    };
    if let Bound::Excluded(from) | Bound::Included(from) = &from
        && *from >= end
    {
        return None;
    }
    Some((from, end))
}

/// Returns the key of the number of queues and topics in a project.
pub(crate) fn project_count(project: &ProjectId) -> Vec<u8> {
    [&[PROJECTS], project.as_str().as_bytes()].concat()
}

/// Returns the key of the number of topics in a project. It is missing if there are none.
pub(crate) fn topic_count(project: &ProjectId) -> Vec<u8> {
    [&[TOPICS], project.as_str().as_bytes()].concat()
}

/// Returns the project of the key of a number of queues.
pub(crate) fn decode_project(key: &[u8]) -> Option<ProjectId> {
    ProjectId::new(str::from_utf8(key.strip_prefix(&[PROJECTS])?).ok()?)
}

/// Returns the key of a queue.
pub(crate) fn queue(queue: &QueueId) -> Vec<u8> {
    named(QUEUES, queue.project(), queue.name().as_str())
}

/// Returns the key of a queue's tombstone.
pub(crate) fn tombstone(queue: &QueueId) -> Vec<u8> {
    named(TOMBSTONES, queue.project(), queue.name().as_str())
}

/// Returns the common prefix of the keys of the messages in a queue's outbox.
pub(crate) fn outbox_prefix(source: &QueueId) -> Vec<u8> {
    let mut key = named(OUTBOX, source.project(), source.name().as_str());
    key.push(NAME_END);
    key
}

/// Returns the key of the message with that number in a queue's outbox, which has left the contents
/// with this number.
pub(crate) fn outbox(source: &QueueId, number: u64, contents: u64) -> Vec<u8> {
    [&*outbox_prefix(source), &number.to_be_bytes(), &contents.to_be_bytes()].concat()
}

/// Returns the queue, the number and the contents number of such a key.
pub(crate) fn decode_outbox(key: &[u8]) -> Option<(QueueId, u64, u64)> {
    let (source, numbers) = key.split_last_chunk::<OUTBOX_NUMBERS_BYTES>()?;
    let (number, contents) = numbers.split_first_chunk()?;
    let source = decode_named(source.strip_prefix(&[OUTBOX])?.strip_suffix(&[NAME_END])?)?;
    Some((source, u64::from_be_bytes(*number), u64::from_be_bytes(contents.try_into().ok()?)))
}

/// Returns the key of the number of the last message that has arrived in a queue from `source`.
pub(crate) fn received(target: &QueueId, source: &QueueName) -> Vec<u8> {
    let mut key = named(RECEIVED, target.project(), target.name().as_str());
    key.push(NAME_END);
    key.extend_from_slice(source.as_str().as_bytes());
    key
}

/// Returns the queue with this key of a tombstone.
pub(crate) fn decode_tombstone(key: &[u8]) -> Option<QueueId> {
    decode_named(key.strip_prefix(&[TOMBSTONES])?)
}

/// Returns the common prefix of the keys of all outcomes of a queue.
pub(crate) fn outcomes_prefix(number: u64) -> Vec<u8> {
    [&[OUTCOMES][..], &number.to_be_bytes()].concat()
}

/// Returns the key of the stored outcome for an idempotency key of that name.
pub(crate) fn outcome(number: u64, name: [u8; 16]) -> Vec<u8> {
    [&[OUTCOMES][..], &number.to_be_bytes(), &name].concat()
}

/// Returns the key that records that a message of this pop was restored.
pub(crate) fn restored(number: u64, pop: [u8; 16], key: &Key) -> Vec<u8> {
    [&[RESTORED][..], &number.to_be_bytes(), &pop, key].concat()
}

/// Returns the key that an expiry key refers to.
pub(crate) fn expiring_key(expiry: &[u8]) -> &[u8] {
    expiry.get(1 + TIME_BYTES..).unwrap_or_default()
}

/// Returns the common prefix of the keys of a project's rows, of a table of records with this
/// prefix.
pub(crate) fn of_project(prefix: u8, project: &ProjectId) -> Vec<u8> {
    named(prefix, project, "")
}

/// Returns the key that records when (µs) a row of a table ends, or another key of the registry.
pub(crate) fn ending(prefix: u8, end_us: u64, key: &[u8]) -> Vec<u8> {
    [&[prefix][..], &end_us.to_be_bytes(), key].concat()
}

/// Returns the key of the number of a project's rows, or of all rows.
pub(crate) fn count(prefix: u8, project: Option<&ProjectId>) -> Vec<u8> {
    project.map_or_else(|| vec![prefix], |project| of_project(prefix, project))
}

/// Returns the key that marks a contents number as discarded.
pub(crate) fn discarded(number: u64) -> Vec<u8> {
    [&[DISCARDED][..], &number.to_be_bytes()].concat()
}

/// Returns the contents number of such a key.
pub(crate) fn discarded_number(discarded: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(discarded.get(1..)?.try_into().ok()?))
}

/// Returns the queue with this key.
pub(crate) fn decode_queue(key: &[u8]) -> Option<QueueId> {
    decode_named(key.strip_prefix(&[QUEUES])?)
}

/// Returns the queue whose project and name a key consists of.
fn decode_named(mut rest: &[u8]) -> Option<QueueId> {
    let mut project = Vec::new();
    loop {
        match rest {
            [0, 0xff, more @ ..] => {
                project.push(0);
                rest = more;
            }
            [0, 0, name @ ..] => {
                let name = QueueName::from_stored(str::from_utf8(name).ok()?).ok()?;
                let project = ProjectId::new(str::from_utf8(&project).ok()?)?;
                return QueueId::new(project, name).ok();
            }
            [byte, more @ ..] => {
                project.push(*byte);
                rest = more;
            }
            [] => return None,
        }
    }
}

/// Returns the common prefix of all keys of a part.
pub(crate) fn part_prefix(number: u64, part: Part) -> Vec<u8> {
    content(number, part, &[])
}

/// Returns a key of `contents`.
pub(crate) fn content(number: u64, part: Part, rest: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[part as u8], rest].concat()
}

/// Returns a key of `contents` for a message.
pub(crate) fn message(number: u64, part: Part, key: &Key) -> [u8; MESSAGE_KEY_BYTES] {
    let mut message_key = [0; MESSAGE_KEY_BYTES];
    message_key[..TIME_BYTES].copy_from_slice(&number.to_be_bytes());
    message_key[TIME_BYTES] = part as u8;
    message_key[TIME_BYTES + 1..].copy_from_slice(key);
    message_key
}

/// Returns a key of `contents` with a time before the rest.
pub(crate) fn timed(number: u64, part: Part, time: u64, rest: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[part as u8], &time.to_be_bytes(), rest].concat()
}

/// Returns a key of `contents` with a shard before the rest.
pub(crate) fn shard(number: u64, part: Part, shard: u16, rest: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[part as u8], &shard.to_be_bytes(), rest].concat()
}

/// Returns the shard and the rest of a key that has a shard.
pub(crate) fn shard_and_rest(key: &[u8]) -> Option<(u16, &[u8])> {
    let (shard, rest) = rest(key).split_first_chunk()?;
    Some((u16::from_be_bytes(*shard), rest))
}

/// Returns the rest of a key of `contents`, after number and part.
pub(crate) fn rest(key: &[u8]) -> &[u8] {
    key.get(TIME_BYTES + 1..).unwrap_or_default()
}

/// Returns the time and the rest of a key that has a time.
pub(crate) fn time_and_rest(key: &[u8]) -> Option<(u64, &[u8])> {
    let (time, rest) = rest(key).split_first_chunk()?;
    Some((u64::from_be_bytes(*time), rest))
}

fn named(kind: u8, project: &ProjectId, name: &str) -> Vec<u8> {
    let project = project.as_str().as_bytes();
    let mut key = Vec::with_capacity(3 + project.len() + name.len());
    key.push(kind);
    for byte in project {
        key.push(*byte);
        if *byte == 0 {
            key.push(u8::MAX);
        }
    }
    key.extend_from_slice(&PROJECT_END);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Returns the time (µs) until which an entry of the registry is kept. Its value begins with it.
pub(crate) fn kept_until(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|end| u64::from_be_bytes(*end))
}

/// Returns the keys of those ids that can belong to this queue. A key does not contain the
/// fingerprint of the queue, so ids of other queues must be filtered out here.
pub(crate) fn own_keys(queue: &QueueId, ids: &[MessageId]) -> Vec<Key> {
    ids.iter().copied().filter(|id| id.is_of(queue)).map(key_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(project: &str, name: &str) -> QueueId {
        QueueId::new(ProjectId::new(project).unwrap(), name.parse().unwrap()).unwrap()
    }

    #[test]
    fn keys_sort_like_queues_and_decode_to_them() {
        let projects = ["a", "a\0", "a\0b", "a\u{1}", "ab", "a/b", "ä", "\0", "\0\0", "b"];
        let mut queues: Vec<QueueId> =
            projects.iter().flat_map(|project| ["-", "a", "a.b", "b"].map(|name| id(project, name))).collect();

        queues.sort();
        let keys: Vec<Vec<u8>> = queues.iter().map(queue).collect();

        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(queues.windows(2).all(|pair| outbox(&pair[0], u64::MAX, 1) < outbox(&pair[1], 0, 1)));
        for (queue, key) in queues.iter().zip(&keys) {
            assert_eq!(decode_queue(key).as_ref(), Some(queue));
            assert_eq!(decode_outbox(&outbox(queue, 1, 2)), Some((queue.clone(), 1, 2)));
            let prefix = of_project(QUEUES, queue.project());
            let same: Vec<_> = keys.iter().filter(|key| key.starts_with(&prefix)).collect();
            assert_eq!(same.len(), 4, "{queue:?}");
            assert!(*key < prefix_end(&prefix));
        }
    }
}
