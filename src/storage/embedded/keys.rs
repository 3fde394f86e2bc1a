//! Every key that Sukkal keeps in the file, in two tables.
//!
//! `registry`, by name. `Q` is the project with each zero byte followed by `0xff`, two zero bytes, and the
//! queue's name, so that keys sort as projects and names do and no two ids meet in one.
//!
//! | key | holds |
//! |---|---|
//! | `format` | the version of all this: see `file.rs` |
//! | `n` | the last number that was given to what a queue holds |
//! | `p` project | how many queues the project has |
//! | `q` Q | a queue: number, revision, what the store obeys of its metadata, metadata |
//! | `g` Q | of a deleted queue the last rank that may have been given, for a day |
//! | `o` number name | the post of a client's idempotency key: until when it is kept, digest, keys of its messages |
//! | `r` number pop key | until when it is kept that this message of the pop was restored |
//! | `x` end key | nothing: that key of the registry is kept until then (µs) |
//! | `t` number | nothing: what has this number belongs to no queue any more |
//!
//! `contents`, by the number of what a queue holds, which a purge and a deletion just let go: number, part, and
//!
//! | part | then | holds |
//! |---|---|---|
//! | `STATE` | | ranks given, how many messages there are, when something is due: see `state.rs` |
//! | `MESSAGE` | key | the message's record |
//! | `READY`, `DELAYED`, `IN_FLIGHT` | key | every message's entry is in one of the three: see `storage/entry.rs`, and `located.rs` for its shard |
//! | `LEASE` | end (µs), lease | nothing: the lease ends then |
//! | `CLAIM` | claim | its ttl, since when it runs, its end, the keys that it was given |
//! | `EXPIRATION` | second, key | nothing: the message ends then; there is one for each message |
//! | `TURN` | shard, key | its entry: a free message that has a shard, or one that was passed: see `tallies.rs` |
//! | `SHARD` | block | of some shards how many messages each set has, if any, and how far their turns came |
//! | `TENANTS` | | who posted most of late: see `tenants.rs` |

use redb::{ReadableTable, TableDefinition};

use crate::domain::{ProjectId, QueueId, QueueName};
use crate::storage::key::KEY_BYTES;

pub(super) type Slice = &'static [u8];
pub(super) use crate::storage::key::Key;

pub(super) const REGISTRY: TableDefinition<'static, Slice, Slice> = TableDefinition::new("registry");
pub(super) const CONTENTS: TableDefinition<'static, Slice, Slice> = TableDefinition::new("contents");

/// Never there when a transaction is over: see `writing.rs`.
pub(super) const ROOM: TableDefinition<'static, Slice, Slice> = TableDefinition::new("room");

/// A table, in a transaction that reads or one that writes.
pub(super) trait Table: ReadableTable<Slice, Slice> {}

impl<T: ReadableTable<Slice, Slice>> Table for T {}

pub(super) const FORMAT: &[u8] = b"format";
pub(super) const LAST_NUMBER: &[u8] = b"n";
pub(super) const QUEUES: u8 = b'q';
pub(super) const EXPIRIES: u8 = b'x';
pub(super) const TRASH: u8 = b't';
const PROJECTS: u8 = b'p';
const GRAVES: u8 = b'g';
const ANSWERS: u8 = b'o';
const RESTORED: u8 = b'r';

/// What is kept under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Part {
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
}

const PROJECT_END: [u8; 2] = [0, 0];
const TIME_BYTES: usize = 8;
const MESSAGE_KEY_BYTES: usize = TIME_BYTES + 1 + KEY_BYTES;

/// The key of the number of queues in a project.
pub(super) fn project(project: &ProjectId) -> Vec<u8> {
    [&[PROJECTS], project.as_str().as_bytes()].concat()
}

/// What the keys of all those numbers begin with.
pub(super) fn project_counts() -> [u8; 1] {
    [PROJECTS]
}

/// What the keys of all queues of a project begin with.
pub(super) fn queues_of(project: &ProjectId) -> Vec<u8> {
    named(QUEUES, project, "")
}

/// The key of a queue.
pub(super) fn queue(queue: &QueueId) -> Vec<u8> {
    named(QUEUES, queue.project(), queue.name().as_str())
}

/// The key of what is remembered of a deleted queue.
pub(super) fn grave(queue: &QueueId) -> Vec<u8> {
    named(GRAVES, queue.project(), queue.name().as_str())
}

/// The key of an answer that is kept for an idempotency key of that name, in a queue whose contents have this number.
pub(super) fn answer(number: u64, name: [u8; 16]) -> Vec<u8> {
    [&[ANSWERS][..], &number.to_be_bytes(), &name].concat()
}

/// The key that says that a message of this pop was restored, in a queue whose contents have this number.
pub(super) fn restored(number: u64, pop: [u8; 16], key: &Key) -> Vec<u8> {
    [&[RESTORED][..], &number.to_be_bytes(), &pop, key].concat()
}

/// The key that says until when (µs) another key of the registry is kept.
pub(super) fn expiry(end_us: u64, key: &[u8]) -> Vec<u8> {
    [&[EXPIRIES][..], &end_us.to_be_bytes(), key].concat()
}

/// The key that such a key is about.
pub(super) fn expiring(expiry: &[u8]) -> &[u8] {
    expiry.get(1 + TIME_BYTES..).unwrap_or_default()
}

/// The key that gives a number up.
pub(super) fn trash(number: u64) -> Vec<u8> {
    [&[TRASH][..], &number.to_be_bytes()].concat()
}

/// The number that such a key gives up.
pub(super) fn trashed(trash: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(trash.get(1..)?.try_into().ok()?))
}

/// The queue that has this key.
pub(super) fn queue_of(key: &[u8]) -> Option<QueueId> {
    let mut project = Vec::new();
    let mut rest = key.strip_prefix(&[QUEUES])?;
    loop {
        match rest {
            [0, 0xff, more @ ..] => {
                project.push(0);
                rest = more;
            }
            [0, 0, name @ ..] => {
                let name: QueueName = str::from_utf8(name).ok()?.parse().ok()?;
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

/// The first key behind all that begin so.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// What all keys of a part begin with.
pub(super) fn part(number: u64, part: Part) -> Vec<u8> {
    content(number, part, &[])
}

/// A key of `contents`.
pub(super) fn content(number: u64, part: Part, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(TIME_BYTES + 1 + rest.len());
    key.extend_from_slice(&number.to_be_bytes());
    key.push(part as u8);
    key.extend_from_slice(rest);
    key
}

/// A key of `contents` for a message.
pub(super) fn of_message(number: u64, part: Part, key: &Key) -> [u8; MESSAGE_KEY_BYTES] {
    let mut of = [0; MESSAGE_KEY_BYTES];
    of[..TIME_BYTES].copy_from_slice(&number.to_be_bytes());
    of[TIME_BYTES] = part as u8;
    of[TIME_BYTES + 1..].copy_from_slice(key);
    of
}

/// A key of `contents` with a time in front of the rest.
pub(super) fn timed(number: u64, part: Part, time: u64, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 * TIME_BYTES + 1 + rest.len());
    key.extend_from_slice(&number.to_be_bytes());
    key.push(part as u8);
    key.extend_from_slice(&time.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

/// A key of `contents` with a shard in front of the rest.
pub(super) fn of_shard(number: u64, part: Part, shard: u16, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(TIME_BYTES + 1 + 2 + rest.len());
    key.extend_from_slice(&number.to_be_bytes());
    key.push(part as u8);
    key.extend_from_slice(&shard.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

/// The shard and what follows it, of a key that has one.
pub(super) fn shard_and_rest(key: &[u8]) -> Option<(u16, &[u8])> {
    let (shard, rest) = rest(key).split_first_chunk()?;
    Some((u16::from_be_bytes(*shard), rest))
}

/// What follows number and part in a key of `contents`.
pub(super) fn rest(key: &[u8]) -> &[u8] {
    key.get(TIME_BYTES + 1..).unwrap_or_default()
}

/// The time and what follows it, of a key that has one.
pub(super) fn time_and_rest(key: &[u8]) -> Option<(u64, &[u8])> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn id(project: &str, name: &str) -> QueueId {
        QueueId::new(ProjectId::new(project).unwrap(), name.parse().unwrap()).unwrap()
    }

    #[test]
    fn keys_sort_as_queues_do_and_give_them_back() {
        let projects = ["a", "a\0", "a\0b", "a\u{1}", "ab", "a/b", "ä", "\0", "\0\0", "b"];
        let mut queues: Vec<QueueId> =
            projects.iter().flat_map(|project| ["-", "a", "a.b", "b"].map(|name| id(project, name))).collect();

        queues.sort();
        let keys: Vec<Vec<u8>> = queues.iter().map(queue).collect();

        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        for (queue, key) in queues.iter().zip(&keys) {
            assert_eq!(queue_of(key).as_ref(), Some(queue));
            let of = queues_of(queue.project());
            let same: Vec<_> = keys.iter().filter(|key| key.starts_with(&of)).collect();
            assert_eq!(same.len(), 4, "{queue:?}");
            assert!(*key < behind(&of));
        }
    }
}
