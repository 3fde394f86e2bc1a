//! What a project has in Redis, read past the service, and whether it fits together.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::support::redis::{RedisServer, Reply};

/// What a message is called in `ready` and `ends`: so many bytes.
const KEY_BYTES: usize = 12;
/// What stands before the keys in a chunk of `ends`, before the lease in a hold; and how long a claim's id is.
const CHUNK_HEAD_BYTES: usize = 4;
const HOLD_BYTES: usize = 16;
const CLAIM_ID_BYTES: usize = 16;
/// What a queue consists of.
const PARTS: [&str; 11] =
    ["queue", "messages", "ready", "delayed", "held", "ends", "holds", "leases", "claims", "shards", "tenants"];
/// Where tests keep how far they have moved a queue's clock.
const CLOCK: &str = "clock";

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
            assert!(part == CLOCK || self.redis.command(&["PTTL", &key]).as_int() > 0, "{key} stays for ever");
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

    /// How many dead letters are on their way from a queue.
    pub(super) fn letters_waiting(&self, queue: &str) -> i64 {
        self.redis.command(&["LLEN", &self.key(queue, "outbox")]).as_int()
    }

    /// Checks that what is stored of each queue fits together, whatever was interrupted: it exists if anything of
    /// it does and is listed then; each message is in one place, will end, and is held by nothing but a
    /// lease that ends.
    pub(super) fn all_fits_together(&self) {
        self.no_queue_is_half_there();
        let queues = self.queues();
        assert!(queues.is_subset(&self.registered()), "unlisted: {queues:?}");
        for queue in &queues {
            self.fits_together(queue);
        }
    }

    fn fits_together(&self, queue: &str) {
        let members = |part| list(self.redis.command(&["ZRANGE", &self.key(queue, part), "0", "-1"]));
        let pairs = |part| pairs(self.redis.command(&["HGETALL", &self.key(queue, part)]));
        let (messages, holds, claims) = (pairs("messages"), pairs("holds"), pairs("claims"));
        let (held, leases) = (members("held"), members("leases"));

        let places: Vec<_> = ["ready", "delayed"].into_iter().flat_map(members).chain(held.iter().cloned()).collect();
        assert_eq!(places.len(), messages.len(), "{queue}: a message is in no place or in two");
        assert!(places.iter().all(|key| messages.contains_key(key)), "{queue}: a place without a message");
        assert!(holds.keys().all(|key| messages.contains_key(key)), "{queue}: a hold without a message");
        let ends = members("ends");
        let ends: HashSet<&[u8]> = ends.iter().flat_map(|chunk| chunk[CHUNK_HEAD_BYTES..].chunks(KEY_BYTES)).collect();
        assert!(messages.keys().all(|key| ends.contains(&key[..])), "{queue}: a message lives for ever");
        for key in &places {
            let lease = holds.get(key).map_or(&[][..], |hold| &hold[HOLD_BYTES..]);
            assert_eq!(held.contains(key), !lease.is_empty(), "{queue}: a message is stuck, or free under a claim");
            assert!(lease.is_empty() || leases.iter().any(|other| other == lease), "{queue}: a lease has no end");
            let is_claim = lease.len() == CLAIM_ID_BYTES;
            assert!(!is_claim || claims.contains_key(lease), "{queue}: a claim is not known");
        }
        assert!(claims.keys().all(|claim| leases.contains(claim)), "{queue}: a claim has no end");
    }

    fn key(&self, queue: &str, part: &str) -> String {
        format!("sukkal:{{{}/{queue}}}:{part}", self.project)
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

fn list(reply: Reply) -> Vec<Vec<u8>> {
    match reply {
        Reply::Array(items) => items.iter().map(|item| bytes(item).to_vec()).collect(),
        other => panic!("not a list: {other:?}"),
    }
}

fn pairs(reply: Reply) -> HashMap<Vec<u8>, Vec<u8>> {
    list(reply).chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}
