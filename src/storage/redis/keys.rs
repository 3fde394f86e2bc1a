//! Every key that Sukkal keeps in Redis.
//!
//! | key | kind | holds |
//! |---|---|---|
//! | `sukkal:projects` | zset | every project that ever had a queue |
//! | `sukkal:{P}:queues` | zset | the names of the project's queues |
//! | `sukkal:{P}:stamps` | hash | each name's stamp, the last one given under `/` |
//! | `sukkal:{P/Q}:queue`, `:counter`, `:messages` and so on | | the queue: see `scripts/shared/queue.lua` |
//! | `sukkal:{P/Q}:letters` | hash | the last dead letter that came from each queue |
//! | `sukkal:{P/Q}:grave` | string | the last stamp laid to rest, for a day after a delete |
//! | `sukkal:{P/Q}:answer:LANE` | string | the last post of a process lane, or that popped messages were restored, for half a minute |
//! | `sukkal:{P/Q}:once:HASH` | string | the post of a client's idempotency key, for some minutes |
//!
//! `P` is the project id with all but letters, digits, `_`, `-` and `.` percent-encoded, so it holds
//! neither a slash nor a brace: no two ids ever meet in one key, and the braces are the hash tag.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::domain::{ProjectId, QueueId};

/// All projects, for the janitor.
pub(super) const PROJECTS: &str = "sukkal:projects";

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// What a queue consists of, in the order in which every script on it gets its keys.
const PARTS: [&str; 13] = [
    "queue", "counter", "messages", "ready", "delayed", "ends", "shards", "tenants", "leases", "held", "holds",
    "claims", "outbox",
];

/// How many of them, the first, a post needs.
const POST_PARTS: usize = 9;

/// The keys of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueKeys {
    prefix: String,
}

impl QueueKeys {
    pub(super) fn of(queue: &QueueId) -> Self {
        let project = encoded(queue.project());
        Self { prefix: format!("sukkal:{{{project}/{}}}:", queue.name()) }
    }

    /// What each of them begins with, the hash tag included.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The hash that exists as long as the queue does.
    pub(super) fn queue(&self) -> String {
        self.key("queue")
    }

    /// What every script on a queue gets, in its order.
    pub(super) fn all(&self) -> Vec<String> {
        PARTS.map(|name| self.key(name)).into()
    }

    pub(super) fn all_and_grave(&self) -> Vec<String> {
        self.all_and(["grave"])
    }

    pub(super) fn all_and_grave_and_letters(&self) -> Vec<String> {
        self.all_and(["grave", "letters"])
    }

    pub(super) fn all_and_letters(&self) -> Vec<String> {
        self.all_and(["letters"])
    }

    /// What a script that posts gets of each queue.
    pub(super) fn for_posts(&self) -> impl Iterator<Item = String> {
        PARTS[..POST_PARTS].iter().map(|name| self.key(name))
    }

    /// The last answer to a lane.
    pub(super) fn answer(&self, lane: &str) -> String {
        self.key(&format!("answer:{lane}"))
    }

    /// The answer that is kept under an idempotency key.
    pub(super) fn kept_answer(&self, name: u128) -> String {
        self.key(&format!("once:{name:032x}"))
    }

    /// Where the offset of the queue's clock is kept, for tests that move it.
    #[cfg(feature = "movable-clock")]
    pub(super) fn clock(&self) -> String {
        self.key("clock")
    }

    fn all_and<const N: usize>(&self, names: [&str; N]) -> Vec<String> {
        let mut keys = self.all();
        keys.extend(names.into_iter().map(|name| self.key(name)));
        keys
    }

    fn key(&self, name: &str) -> String {
        [&self.prefix, name].concat()
    }
}

/// The names of a project's queues.
pub(super) fn queue_names(project: &ProjectId) -> String {
    format!("sukkal:{{{}}}:queues", encoded(project))
}

/// The stamps of a project's queues.
pub(super) fn queue_stamps(project: &ProjectId) -> String {
    format!("sukkal:{{{}}}:stamps", encoded(project))
}

fn encoded(project: &ProjectId) -> String {
    utf8_percent_encode(project.as_str(), PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
                for key in QueueKeys::of(&queue).all_and_grave_and_letters() {
                    assert!(keys.insert(key));
                }
            }
        }
    }

    #[test]
    fn the_keys_of_a_queue_share_one_hash_tag() {
        let project = ProjectId::new("we{ird/}").unwrap();
        let queue = QueueId::new(project, "q".parse().unwrap()).unwrap();

        let keys = QueueKeys::of(&queue);
        for key in keys.all_and_grave_and_letters().into_iter().chain([keys.answer("1"), keys.kept_answer(2)]) {
            assert!(key.starts_with("sukkal:{we%7Bird%2F%7D/q}:"), "{key}");
        }
    }
}
