//! The data of a project in Redis, read without the service, and checks of its consistency.

use std::collections::{BTreeSet, HashMap, HashSet};

use support::redis::{RedisServer, Reply};

/// Length of a message's key, with which its entry begins; of a delivery state; of a claim id.
const KEY_BYTES: usize = 12;
const DELIVERY_BYTES: usize = 12;
const CLAIM_BYTES: usize = 16;
/// Ranks (µs) of one block of `expirations`.
const BLOCK_US: u64 = 16_384;
/// The parts of a queue, each of which has a key.
const PARTS: [&str; 13] = [
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
    "tasks",
    "task_leases",
    "idempotency",
];
/// The part in which tests keep the offset of a queue's clock.
const CLOCK: &str = "clock";

/// One project in one Redis.
pub(super) struct Stored<'a> {
    pub(super) redis: &'a RedisServer,
    pub(super) project: &'a str,
}

impl Stored<'_> {
    /// Returns the names of the queues that exist.
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

    /// Returns the names in the project's register.
    pub(super) fn registered(&self) -> BTreeSet<String> {
        let register = format!("sukkal:{{{}}}:queues", self.project);
        let name = |member: String| member.split('\0').next().unwrap_or_default().to_owned();
        texts(&self.redis.command(&["ZRANGE", &register, "0", "-1"])).map(name).collect()
    }

    /// Returns the number of messages of a queue, on which its parts must agree.
    pub(super) fn messages(&self, queue: &str) -> i64 {
        let key = |part| format!("sukkal:{{{}/{queue}}}:{part}", self.project);
        let messages = self.redis.command(&["HLEN", &key("messages")]).as_int();
        let ready = self.redis.command(&["ZCARD", &key("ready")]).as_int();
        let visited = self.redis.command(&["EXISTS", &key("expirations")]).as_int();
        assert_eq!(ready, messages, "{queue}: `ready` and `messages` differ");
        assert_eq!(visited, messages.min(1), "{queue}: {messages} messages, but `expirations` says {visited}");
        messages
    }

    /// Asserts that nothing is left of queues but the few small keys that outlive them for a while.
    pub(super) fn assert_no_queue_left(&self) {
        assert_eq!(self.registered(), BTreeSet::new());
        for key in self.keys("*") {
            let part = key.rsplit_once("}:").expect("a queue's key has a hash tag").1;
            assert!(!PARTS.contains(&part), "{key} has no queue");
            assert!(part == CLOCK || self.redis.command(&["PTTL", &key]).as_int() > 0, "{key} stays for ever");
        }
    }

    /// Asserts that no part of a queue exists without the queue.
    pub(super) fn assert_no_partial_queue(&self) {
        let queues = self.queues();
        for key in self.keys("*") {
            let (name, part) = key.rsplit_once("}:").expect("a queue's key has a hash tag");
            let name = name.rsplit_once('/').expect("it names project and queue").1;
            assert!(!PARTS.contains(&part) || queues.contains(name), "{key} has no queue");
        }
    }

    /// Returns how many dead letters are in the outbox of a queue.
    pub(super) fn outbox_length(&self, queue: &str) -> i64 {
        self.redis.command(&["LLEN", &self.key(queue, "outbox")]).as_int()
    }

    /// Asserts that the data of each queue is consistent after any interruption. A queue exists if
    /// any part of it does, and is then listed. Each message is in one state, will expire, and is
    /// held only by a lease that ends.
    pub(super) fn assert_consistent(&self) {
        self.assert_no_partial_queue();
        let queues = self.queues();
        assert!(queues.is_subset(&self.registered()), "unlisted: {queues:?}");
        for queue in &queues {
            self.assert_queue_consistent(queue);
        }
    }

    fn assert_queue_consistent(&self, queue: &str) {
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
            let claim = &entry[entry.len() - DELIVERY_BYTES - CLAIM_BYTES..entry.len() - DELIVERY_BYTES];
            let returned = [b"~", &entry[..KEY_BYTES]].concat();
            let is_claimed = leases.iter().any(|lease| lease == claim) && claims.contains_key(claim);
            assert!(is_claimed || leases.contains(&returned), "{queue}: a message is stuck");
        }
        // A longer name is that of the number of messages of a claim.
        let has_end = |name: &Vec<u8>| leases.iter().any(|lease| *lease == name[..CLAIM_BYTES]);
        assert!(claims.keys().all(has_end), "{queue}: a claim has no end");
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

fn list(reply: Reply) -> Vec<Vec<u8>> {
    match reply {
        Reply::Array(items) => items.iter().map(|item| item.as_bytes().to_vec()).collect(),
        other => panic!("not a list: {other:?}"),
    }
}

fn pairs(reply: Reply) -> HashMap<Vec<u8>, Vec<u8>> {
    list(reply).chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}
