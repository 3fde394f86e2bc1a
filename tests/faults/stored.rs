//! What a project has in Redis, read past the service, and whether it fits together.

use std::collections::BTreeSet;

use crate::support::redis::{RedisServer, Reply};

/// What a message is called in `ready` and `ends`: so many bytes.
const KEY_BYTES: usize = 12;
/// What a queue consists of.
const PARTS: [&str; 4] = ["queue", "messages", "ready", "ends"];

/// One project in one Redis.
pub(super) struct Stored<'a> {
    pub(super) redis: &'a RedisServer,
    pub(super) project: &'a str,
}

impl Stored<'_> {
    /// The names of the queues that exist.
    pub(super) fn queues(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for key in self.keys("*") {
            let (name, part) = key.rsplit_once("}:").expect("a queue's key has a hash tag");
            if part == "queue" {
                names.insert(name.rsplit_once('/').expect("it names project and queue").1.to_owned());
            }
        }
        names
    }

    /// The names in the project's register.
    pub(super) fn registered(&self) -> BTreeSet<String> {
        let register = format!("sukkal:{{{}}}:queues", self.project);
        texts(&self.redis.command(&["ZRANGE", &register, "0", "-1"])).collect()
    }

    /// How many messages a queue has. Its parts must agree about that.
    pub(super) fn messages(&self, queue: &str) -> i64 {
        let key = |part| format!("sukkal:{{{}/{queue}}}:{part}", self.project);
        let messages = self.redis.command(&["HLEN", &key("messages")]).as_int();
        let ready = self.redis.command(&["ZCARD", &key("ready")]).as_int();
        let noted = match self.redis.command(&["HGET", &key("queue"), "n"]) {
            Reply::Bulk(None) => 0,
            noted => noted.as_text().parse().expect("`n` is a number"),
        };
        let ends: usize = match self.redis.command(&["ZRANGE", &key("ends"), "0", "-1"]) {
            Reply::Array(chunks) => chunks.iter().map(|chunk| bytes(chunk).len() / KEY_BYTES).sum(),
            other => panic!("not a list: {other:?}"),
        };
        assert_eq!(ready, messages, "{queue}: `ready` and `messages` differ");
        assert_eq!(noted, i64::try_from(ends).expect("few"), "{queue}: `n` and `ends` differ");
        assert!(noted >= messages, "{queue}: {messages} messages, {noted} ends");
        messages
    }

    /// Checks that nothing is left of queues but the few small keys that outlive them for a while.
    pub(super) fn no_queue_is_left(&self) {
        assert_eq!(self.registered(), BTreeSet::new());
        for key in self.keys("*") {
            let part = key.rsplit_once("}:").expect("a queue's key has a hash tag").1;
            assert!(!PARTS.contains(&part), "{key} has no queue");
            assert!(self.redis.command(&["PTTL", &key]).as_int() > 0, "{key} stays for ever");
        }
    }

    /// Checks that no part of a queue is there without the queue.
    pub(super) fn no_queue_is_half_there(&self) {
        let queues = self.queues();
        for key in self.keys("*") {
            let (name, part) = key.rsplit_once("}:").expect("a queue's key has a hash tag");
            let name = name.rsplit_once('/').expect("it names project and queue").1;
            assert!(!PARTS.contains(&part) || queues.contains(name), "{key} has no queue");
        }
    }

    fn keys(&self, part: &str) -> Vec<String> {
        texts(&self.redis.command(&["KEYS", &format!("sukkal:{{{}/{part}", self.project)])).collect()
    }
}

fn texts(list: &Reply) -> impl Iterator<Item = String> + '_ {
    match list {
        Reply::Array(items) => items.iter().map(|item| item.as_text().to_owned()),
        other => panic!("not a list: {other:?}"),
    }
}

fn bytes(item: &Reply) -> &[u8] {
    match item {
        Reply::Bulk(Some(bytes)) => bytes,
        other => panic!("not a text: {other:?}"),
    }
}
