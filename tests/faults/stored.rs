//! What a project has in Redis, read past the service, and whether it fits together.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::support::redis::{RedisServer, Reply};

/// Length of a message's key, with which its entry begins; of an entry with a delivery state; of a claim id.
const KEY_BYTES: usize = 12;
const DELIVERED_BYTES: usize = 37;
const CLAIM_BYTES: usize = 16;
/// Ranks (µs) of one block of `expirations`.
const BLOCK_US: u64 = 16_384;
/// What a queue consists of.
const PARTS: [&str; 11] = [
    "queue",
    "messages",
    "ready",
    "delayed",
    "in_flight",
    "expirations",
    "leases",
    "claims",
    "shards",
    "tenants",
    "idempotency",
];
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
        let name = |member: String| member.split('\0').next().unwrap_or_default().to_owned();
        texts(&self.redis.command(&["ZRANGE", &register, "0", "-1"])).map(name).collect()
    }

    /// How many messages a queue has. Its parts must agree about that.
    pub(super) fn messages(&self, queue: &str) -> i64 {
        let key = |part| format!("sukkal:{{{}/{queue}}}:{part}", self.project);
        let messages = self.redis.command(&["HLEN", &key("messages")]).as_int();
        let ready = self.redis.command(&["ZCARD", &key("ready")]).as_int();
        let visited = self.redis.command(&["EXISTS", &key("expirations")]).as_int();
        assert_eq!(ready, messages, "{queue}: `ready` and `messages` differ");
        assert_eq!(visited, messages.min(1), "{queue}: {messages} messages, but `expirations` says {visited}");
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
        let (messages, claims) = (pairs("messages"), pairs("claims"));
        let (in_flight, leases, blocks) = (members("in_flight"), members("leases"), members("expirations"));

        let entries: Vec<_> =
            ["ready", "delayed"].into_iter().flat_map(members).chain(in_flight.iter().cloned()).collect();
        assert_eq!(entries.len(), messages.len(), "{queue}: a message is in no set or in two");
        let blocks: HashSet<&str> = blocks.iter().map(|block| str::from_utf8(block).expect("it is a number")).collect();
        for entry in &entries {
            assert!(messages.contains_key(&entry[..KEY_BYTES]), "{queue}: an entry without a record");
            let rank = entry[..7].iter().fold(0, |rank, byte| rank << 8 | u64::from(*byte));
            assert!(blocks.contains(&*(rank / BLOCK_US).to_string()), "{queue}: a message lives for ever");
        }
        for entry in &in_flight {
            let claim = &entry[DELIVERED_BYTES..DELIVERED_BYTES + CLAIM_BYTES];
            let returned = [b"~", &entry[..]].concat();
            let is_claimed = leases.iter().any(|lease| lease == claim) && claims.contains_key(claim);
            assert!(is_claimed || leases.contains(&returned), "{queue}: a message is stuck");
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
