//! Every key that Sukkal stores in Redis.
//!
//! | key | type | contents |
//! |---|---|---|
//! | `sukkal:layout` | string | version of this layout: see `connection/layout.rs` |
//! | `sukkal:database` | string | random id of the database of a pool: see `pools.rs` |
//! | `sukkal:migration` | string | id of the store from which a migration has copied: see `import` |
//! | `sukkal:{projects}` | zset | every project that has a queue: `P`, zero byte, version |
//! | `sukkal:{P}:queues` | zset | every queue of the project: its name, zero byte, version |
//! | `sukkal:{SLOT}:due` | zset | `P/Q` by the time (µs) when it is next due; one key per slot |
//! | `sukkal:{SLOT}:probe` | | never exists: deleting it shows whether a server can write |
//! | `sukkal:{SLOT}:receipt` | string | empty: written by posts with a receipt, kept for 1 s |
//! | `sukkal:{SLOT}:answer:RETRY_SLOT` | string | last reply to a post of a retry slot, kept for 30 s |
//! | `sukkal:{set_aside}` | hash | records that a repair has found unreadable: `P/Q` and which record → its bytes |
//! | `sukkal:{quotas}` | hash | the quotas that are set for projects: see `storage/quotas.rs` |
//! | `sukkal:{janitor}` | hash | which process does maintenance: see `scripts/janitor_lease.lua` |
//! | `sukkal:{tokens}:records` and so on | | the tokens: see `records.rs`, and `storage/tokens.rs` |
//! | `sukkal:{pools}` | hash | the list of pools, and its version: see `storage/pools.rs` |
//! | `sukkal:{P/Q}:queue`, `:messages` and so on | | the queue: see `scripts/shared/queue.lua` |
//! | `sukkal:{P/Q}:moving` | hash | how far its move to another pool is: see `scripts/shared/moving.lua` |
//! | `sukkal:{P/Q}:moving:queue` and so on | | the queue while it moves |
//!
//! `P` is the project id, in which all characters except letters, digits, `_`, `-` and `.` are
//! percent-encoded. So it contains no slash or brace: two ids never share a key, and the braces are
//! the hash tag. `SLOT` is the tag of a slot: see `slot_tags.rs`.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::slot_tags;
use crate::DATABASE_KEY;
use sukkal_domain::{ProjectId, QueueId, QueueName};

/// The register of all projects that have queues.
pub(super) const PROJECT_REGISTER: &str = "sukkal:{projects}";
/// The version of the layout.
pub(super) const LAYOUT: &str = "sukkal:layout";
/// The id of the database, which shows that two addresses lead to it.
pub(super) const DATABASE: &str = DATABASE_KEY;
/// The id of the migration that has filled the store, if one has.
pub(super) const MIGRATION: &str = "sukkal:migration";
/// The channel of signals to the processes that deliver to subscribers: see `signals.rs`.
pub(super) const SIGNAL_CHANNEL: &str = "sukkal:deliveries";
/// The records that a repair has set aside.
pub(super) const SET_ASIDE: &str = "sukkal:{set_aside}";
/// The lease of the process that does maintenance.
pub(super) const JANITOR: &str = "sukkal:{janitor}";
/// Flag in the ttl of a claim that has the keys of its messages: see `scripts/shared/claims.lua`.
pub(super) const CLAIM_HAS_KEYS: u32 = 1 << 31;
/// What the name of the number of its messages has after the id of a claim.
pub(super) const CLAIM_HELD: &str = "#";
/// Pattern for `SCAN` that matches every key.
pub(super) const ANY: &str = "sukkal:*";
/// Pattern for `SCAN` that matches the first key of every queue.
pub(super) const ANY_QUEUE: &str = "sukkal:{*}:queue";

/// The characters that are percent-encoded.
pub(super) const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// Defines the names of keys, as they appear in keys and in scripts.
macro_rules! key_names {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {
        /// Names of the keys that scripts get for a queue: `scripts/shared/queue.lua` describes
        /// each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum KeyName {
            $($(#[$doc])* $name,)+
        }

        impl KeyName {
            const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name, as it appears in keys and in scripts.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

key_names! {
    Queue = "queue",
    Messages = "messages",
    Ready = "ready",
    InFlight = "in_flight",
    Delayed = "delayed",
    Expirations = "expirations",
    Leases = "leases",
    Claims = "claims",
    ClaimIds = "claim_ids",
    Outbox = "outbox",
    Received = "received",
    Shards = "shards",
    Tenants = "tenants",
    Tasks = "tasks",
    TaskLeases = "task_leases",
    Subscriptions = "subscriptions",
    Subscribers = "subscribers",
    SubscriptionIds = "subscription_ids",
    SubscriptionEnds = "subscription_ends",
    Deliveries = "deliveries",
    Retries = "retries",
    RetryTimes = "retry_times",
    Idempotency = "idempotency",
    IdempotencyExpirations = "idempotency_expirations",
    // The keys before this one are those that a queue takes along to another pool.
    Tombstone = "tombstone",
    /// How far the move of the queue is.
    Moving = "moving",
    /// The index of due queues, which all queues of a slot share.
    Due = "due",
}

/// The keys that a queue takes along to another pool.
pub(super) const MOVED: &[KeyName] = KeyName::ALL.split_at(KeyName::Tombstone as usize).0;
const _: () = assert!(MOVED.len() == 24, "a new key of a queue moves along if it comes before the tombstone");

/// The keys of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueKeys {
    prefix: String,
}

impl QueueKeys {
    pub(super) fn of(queue: &QueueId) -> Self {
        Self { prefix: ["sukkal:{", &hash_tag(queue), "}:"].concat() }
    }

    /// Returns the common prefix of the keys, including the hash tag.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the key of the hash that exists as long as the queue does.
    pub(super) fn queue(&self) -> String {
        self.key(KeyName::Queue)
    }

    /// Returns the keys with these names, for a queue in this slot.
    pub(super) fn named(&self, names: &[KeyName], slot: u16) -> Vec<String> {
        let key = |name: &KeyName| if *name == KeyName::Due { due(slot) } else { self.key(*name) };
        names.iter().map(key).collect()
    }

    /// Returns the key that has the contents of this one while the queue moves.
    pub(super) fn moving(&self, name: KeyName) -> String {
        [&self.prefix, "moving:", name.name()].concat()
    }

    /// Returns the key of the offset of the queue's clock, for tests that move it.
    pub(super) fn clock(&self) -> String {
        [&self.prefix, "clock"].concat()
    }

    /// Returns the key with this name.
    pub(super) fn key(&self, name: KeyName) -> String {
        [&self.prefix, name.name()].concat()
    }
}

/// Returns the key of the register of a project's queues.
pub(super) fn queue_register(project: &ProjectId) -> String {
    format!("sukkal:{{{}}}:queues", encode_project(project))
}

/// Returns the key of the index of due queues in a slot.
pub(super) fn due(slot: u16) -> String {
    of_slot(slot, "due")
}

/// Returns the key in a slot of the last reply of a retry slot.
pub(super) fn last_reply(slot: u16, retry_slot: &str) -> String {
    of_slot(slot, &["answer:", retry_slot].concat())
}

/// Returns a key in a slot that never exists. Deleting it shows whether Redis can write.
///
/// In a cluster, every script gets it. A server that is handing the slot over refuses a script if
/// one of its keys is missing. Without this key, the server would run a script whose keys all
/// exist, and end it in the middle when it uses a key that it has just emptied.
pub(super) fn absent(slot: u16) -> String {
    of_slot(slot, "probe")
}

/// Returns the key in a slot that posts with a receipt set, so that they have a write to wait for.
pub(super) fn receipt(slot: u16) -> String {
    of_slot(slot, "receipt")
}

fn of_slot(slot: u16, name: &str) -> String {
    ["sukkal:{", &slot_tags::tag(slot).to_string(), "}:", name].concat()
}

/// Returns the hash tag of a queue's keys.
pub(super) fn hash_tag(queue: &QueueId) -> String {
    [&encode_project(queue.project()), "/", queue.name().as_str()].concat()
}

/// Returns the queue with this hash tag.
pub(super) fn queue_of_hash_tag(tag: &str) -> Option<QueueId> {
    let (project, name) = tag.rsplit_once('/')?;
    QueueId::new(decode_project(project)?, QueueName::from_stored(name).ok()?).ok()
}

/// Returns the queue whose first key this is.
pub(super) fn queue_of_key(key: &str) -> Option<QueueId> {
    queue_of_hash_tag(key.strip_prefix("sukkal:{")?.strip_suffix("}:queue")?)
}

pub(super) fn encode_project(project: &ProjectId) -> Cow<'_, str> {
    utf8_percent_encode(project.as_str(), ENCODED).into()
}

pub(super) fn decode_project(project: &str) -> Option<ProjectId> {
    ProjectId::new(&percent_decode_str(project).decode_utf8().ok()?)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use fred::util::redis_keyslot;

    use super::*;
    use slot_tags::SLOTS;

    fn keys_of(queue: &QueueId) -> Vec<String> {
        let keys = QueueKeys::of(queue);
        let moving = MOVED.iter().map(|name| keys.moving(*name));
        let plain = keys.named(&[MOVED, &[KeyName::Tombstone, KeyName::Moving]].concat(), 0);
        plain.into_iter().chain(moving).collect()
    }

    #[test]
    fn similar_ids_never_share_a_key() {
        let projects =
            ["a", "a.b", "a/b", "a:b", "a{b}", "{a}", "a}b", "a%2Fb", "a%2fb", "ä", "a\u{308}", "*", "a b", "a\nb"];
        let names = ["b", "b.c", "a", "..", "a.b"];

        let mut keys = HashSet::new();
        for project in projects.map(|project| ProjectId::new(project).unwrap()) {
            assert!(keys.insert(queue_register(&project)));
            for name in names {
                let queue = QueueId::new(project.clone(), name.parse().unwrap()).unwrap();
                for key in keys_of(&queue) {
                    assert!(keys.insert(key));
                }
                assert_eq!(queue_of_key(&QueueKeys::of(&queue).queue()), Some(queue));
            }
        }
    }

    #[test]
    fn the_keys_of_a_queue_share_one_hash_tag() {
        let project = ProjectId::new("we{ird/}").unwrap();
        let queue = QueueId::new(project, "q".parse().unwrap()).unwrap();

        for key in keys_of(&queue) {
            assert!(key.starts_with("sukkal:{we%7Bird%2F%7D/q}:"), "{key}");
        }
    }

    #[test]
    fn the_keys_of_a_slot_are_in_that_slot() {
        for slot in 0..SLOTS {
            assert_eq!(redis_keyslot(last_reply(slot, "1").as_bytes()), slot);
            assert_eq!(redis_keyslot(due(slot).as_bytes()), slot);
        }
    }

    #[test]
    fn slot_tags_never_change() {
        let keys = [0, 1, 8_191, SLOTS - 1].map(due);

        assert_eq!(keys, ["sukkal:{3560}:due", "sukkal:{22179}:due", "sukkal:{42163}:due", "sukkal:{39296}:due"]);
    }
}
