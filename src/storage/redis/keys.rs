//! Every key that Sukkal keeps in Redis.
//!
//! | key | kind | holds |
//! |---|---|---|
//! | `sukkal:layout` | string | the version of this layout: see `layout.rs` |
//! | `sukkal:{projects}` | zset | `P`, zero byte, registration version: every project that has a queue |
//! | `sukkal:{P}:queues` | zset | queue name, zero byte, registration version: every queue of the project |
//! | `sukkal:{SLOT}:due` | zset | `P/Q` by the time (µs) when something is next due there; one for each slot: see `slots.rs` |
//! | `sukkal:{SLOT}:probe` | | nothing: deleting it shows whether a server can write |
//! | `sukkal:{janitor}` | hash | which process does maintenance, and when it was last done: see `scripts/janitor_lease.lua` |
//! | `sukkal:{P/Q}:queue`, `:messages`, `:ready` and so on | | the queue: see `scripts/shared/queue.lua` |
//! | `sukkal:{P/Q}:answer:SLOT` | string | the last post of a retry slot of a process, for half a minute |
//!
//! `P` is the project id with all but letters, digits, `_`, `-` and `.` percent-encoded, so it holds
//! neither a slash nor a brace: no two ids ever meet in one key, and the braces are the hash tag.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::slots::due_key;
use crate::domain::{ProjectId, QueueId};

/// The register of all projects that have queues.
pub(super) const PROJECTS: &str = "sukkal:{projects}";
/// The version of the layout.
pub(super) const LAYOUT: &str = "sukkal:layout";
/// Who does maintenance.
pub(super) const JANITOR: &str = "sukkal:{janitor}";
/// What `SCAN` calls the keys that exist as long as their queues do.
pub(super) const ANY_QUEUE: &str = "sukkal:{*}:queue";

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// A key that scripts get of a queue: `scripts/shared/queue.lua` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Queue,
    Messages,
    Ready,
    InFlight,
    Delayed,
    Expirations,
    Leases,
    Claims,
    Outbox,
    Received,
    Shards,
    Tenants,
    Idempotency,
    IdempotencyExpirations,
    Tombstone,
    /// The index of due queues, which all queues of a slot share.
    Due,
}

impl Part {
    /// The name, in keys and in scripts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Messages => "messages",
            Self::Ready => "ready",
            Self::InFlight => "in_flight",
            Self::Delayed => "delayed",
            Self::Expirations => "expirations",
            Self::Leases => "leases",
            Self::Claims => "claims",
            Self::Outbox => "outbox",
            Self::Received => "received",
            Self::Shards => "shards",
            Self::Tenants => "tenants",
            Self::Idempotency => "idempotency",
            Self::IdempotencyExpirations => "idempotency_expirations",
            Self::Tombstone => "tombstone",
            Self::Due => "due",
        }
    }
}

/// The keys of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueKeys {
    prefix: String,
}

impl QueueKeys {
    pub(super) fn of(queue: &QueueId) -> Self {
        Self { prefix: format!("sukkal:{{{}}}:", queue_tag(queue)) }
    }

    /// What each of them begins with, the hash tag included.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The hash that exists as long as the queue does.
    pub(super) fn queue(&self) -> String {
        self.key(Part::Queue.name())
    }

    /// The keys of these parts, in a store that has the queue in this slot.
    pub(super) fn parts(&self, parts: &[Part], slot: u16) -> Vec<String> {
        let key = |part: &Part| if *part == Part::Due { due_key(slot) } else { self.key(part.name()) };
        parts.iter().map(key).collect()
    }

    /// The hash of messages.
    pub(super) fn messages(&self) -> String {
        self.key(Part::Messages.name())
    }

    /// The last answer to a retry slot.
    pub(super) fn answer(&self, lane: &str) -> String {
        self.key(&format!("answer:{lane}"))
    }

    /// Where the offset of the queue's clock is kept, for tests that move it.
    #[cfg(feature = "movable-clock")]
    pub(super) fn clock(&self) -> String {
        self.key("clock")
    }

    fn key(&self, name: &str) -> String {
        [&self.prefix, name].concat()
    }
}

/// The register of a project's queues.
pub(super) fn queue_names(project: &ProjectId) -> String {
    format!("sukkal:{{{}}}:queues", encoded(project))
}

/// The index of due queues in a slot, which is named by a text in that slot: see `slots.rs`.
pub(super) fn due(tag: u32) -> String {
    format!("sukkal:{{{tag}}}:due")
}

/// A key that never exists, in a slot that is named in the same way.
pub(super) fn probe(tag: u32) -> String {
    format!("sukkal:{{{tag}}}:probe")
}

/// A queue as its keys name it: what their hash tag contains.
pub(super) fn queue_tag(queue: &QueueId) -> String {
    format!("{}/{}", encoded(queue.project()), queue.name())
}

/// The queue that a hash tag names.
pub(super) fn queue_of_tag(tag: &str) -> Option<QueueId> {
    let (project, name) = tag.rsplit_once('/')?;
    QueueId::new(decoded(project)?, name.parse().ok()?).ok()
}

/// The queue whose first key this is.
pub(super) fn queue_of_key(key: &str) -> Option<QueueId> {
    queue_of_tag(key.strip_prefix("sukkal:{")?.strip_suffix("}:queue")?)
}

pub(super) fn encoded(project: &ProjectId) -> String {
    utf8_percent_encode(project.as_str(), PLAIN).to_string()
}

pub(super) fn decoded(project: &str) -> Option<ProjectId> {
    ProjectId::new(&percent_decode_str(project).decode_utf8().ok()?)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const OWN: [Part; 15] = [
        Part::Queue,
        Part::Messages,
        Part::Ready,
        Part::InFlight,
        Part::Delayed,
        Part::Expirations,
        Part::Leases,
        Part::Claims,
        Part::Outbox,
        Part::Received,
        Part::Shards,
        Part::Tenants,
        Part::Idempotency,
        Part::IdempotencyExpirations,
        Part::Tombstone,
    ];

    #[test]
    fn ids_that_look_alike_never_share_a_key() {
        let projects =
            ["a", "a.b", "a/b", "a:b", "a{b}", "{a}", "a}b", "a%2Fb", "a%2fb", "ä", "a\u{308}", "*", "a b", "a\nb"];
        let names = ["b", "b.c", "a", "..", "a.b"];

        let mut keys = HashSet::new();
        for project in projects.map(|project| ProjectId::new(project).unwrap()) {
            assert!(keys.insert(queue_names(&project)));
            for name in names {
                let queue = QueueId::new(project.clone(), name.parse().unwrap()).unwrap();
                for key in QueueKeys::of(&queue).parts(&OWN, 0) {
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

        let keys = QueueKeys::of(&queue);
        for key in keys.parts(&OWN, 0).into_iter().chain([keys.answer("1")]) {
            assert!(key.starts_with("sukkal:{we%7Bird%2F%7D/q}:"), "{key}");
        }
    }
}
