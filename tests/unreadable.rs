//! Records that cannot be read: each of them fails its queue or its subscription and nothing else,
//! `check` names it, and a repair sets it aside.

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::http::answered;
use crate::migration::{assert_intact, embedded, run};
use crate::push::LOCAL;
use crate::push::endpoint::Endpoint;
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};

/// Bytes that are no JSON, and the same in Lua. Their text must not appear in a log.
const GARBAGE: &[u8] = b"\xc1private";
const GARBAGE_IN_LUA: &str = "'\\193private'";
/// Tables of the embedded store, and keys in them: see `storage/embedded/rows/keys.rs`.
const REGISTRY: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("registry");
const CONTENTS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("contents");
const BAD_QUEUE: &[u8] = b"qp\0\0bad";
const CLAIM: u8 = 6;
const SUBSCRIPTION: u8 = 13;
/// Number of bytes before the metadata of a queue without policy, and before the settings of a
/// subscription.
const ROW_HEAD: usize = 18;
const SUBSCRIPTION_HEAD: usize = 24;
const KEPT: &str = "sukkal:{set_aside}";
/// Converts hexadecimal digits to bytes.
const BYTES_IN_LUA: &str =
    "local function bytes(hex) return (hex:gsub('..', function(h) return string.char(tonumber(h, 16)) end)) end";

/// A store whose records can be damaged.
enum Store {
    Redis(RedisServer),
    Cluster(RedisCluster),
    /// In a file. Of the row of the damaged queue, this number of bytes is left.
    File(TempDir, usize),
}

impl Store {
    fn uri(&self) -> String {
        match self {
            Self::Redis(redis) => redis.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::File(folder, _) => embedded(folder.path()),
        }
    }

    fn serve(&self) -> Sukkal {
        Sukkal::start_with(&self.uri(), &[&[MOVABLE_CLOCK][..], &LOCAL].concat())
    }

    fn node_of(&self, key: &str) -> Option<&RedisServer> {
        match self {
            Self::Redis(redis) => Some(redis),
            Self::Cluster(cluster) => Some(cluster.node_of(key)),
            Self::File(..) => None,
        }
    }

    /// Damages the metadata of the queue `bad`, and of this subscription of the queue `subs` all
    /// that its owner has set. Of the second one, only a few bytes are left.
    fn damage(&self, [first, second]: [&str; 2]) {
        let ids = [first, second].map(|id| id.replace('-', ""));
        let Self::File(folder, row_bytes) = self else {
            let metadata = format!("redis.call('HSET', KEYS[1], 'm', {GARBAGE_IN_LUA})");
            let settings = format!(
                "{BYTES_IN_LUA}
                local record = redis.call('HGET', KEYS[1], bytes(ARGV[1]))
                local head = 16 + 4 + struct.unpack('>I4', string.sub(record, 17)) + 24
                redis.call('HSET', KEYS[1], bytes(ARGV[1]), string.sub(record, 1, head) .. {GARBAGE_IN_LUA})
                redis.call('HSET', KEYS[1], bytes(ARGV[2]), {GARBAGE_IN_LUA})"
            );
            for (key, script) in [("sukkal:{p/bad}:queue", metadata), ("sukkal:{p/subs}:subscriptions", settings)] {
                let node = self.node_of(key).unwrap();
                node.command(&["EVAL", &script, "1", key, &ids[0], &ids[1]]);
            }
            return;
        };
        let database = Database::open(folder.path().join("sukkal.redb")).unwrap();
        let rows: Vec<(Vec<u8>, Vec<u8>)> = {
            let contents = database.begin_read().unwrap().open_table(CONTENTS).unwrap();
            let rows = contents.iter().unwrap().map(|row| row.unwrap());
            rows.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).collect()
        };
        let transaction = database.begin_write().unwrap();
        {
            let mut registry = transaction.open_table(REGISTRY).unwrap();
            let row = registry.get(BAD_QUEUE).unwrap().unwrap().value().to_vec();
            registry.insert(BAD_QUEUE, &*[&row[..*row_bytes], GARBAGE].concat()).unwrap();
            let mut contents = transaction.open_table(CONTENTS).unwrap();
            for (id, kept) in ids.iter().zip([SUBSCRIPTION_HEAD, 0]) {
                let id = from_hexadecimal(id);
                let is_record = |key: &[u8]| key[8] == SUBSCRIPTION && key[9..] == id;
                let (key, record) = rows.iter().find(|(key, _)| is_record(key)).unwrap();
                contents.insert(&**key, &*[&record[..kept], GARBAGE].concat()).unwrap();
            }
        }
        transaction.commit().unwrap();
    }

    /// Damages this claim of the queue `held` and, over Redis, what scripts know of the metadata.
    fn damage_claim(&self, id: &str) {
        let Self::File(folder, _) = self else {
            let (claims, queue) = ("sukkal:{p/held}:claims", "sukkal:{p/held}:queue");
            let script = format!(
                "{BYTES_IN_LUA}
                redis.call('HSET', KEYS[1], bytes(ARGV[1]), {GARBAGE_IN_LUA})
                redis.call('HSET', KEYS[2], 'p', {GARBAGE_IN_LUA})"
            );
            self.node_of(claims).unwrap().command(&["EVAL", &script, "2", claims, queue, id]);
            return;
        };
        let database = Database::open(folder.path().join("sukkal.redb")).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut contents = transaction.open_table(CONTENTS).unwrap();
            let keys: Vec<Vec<u8>> = contents.iter().unwrap().map(|row| row.unwrap().0.value().to_vec()).collect();
            let id = from_hexadecimal(id);
            let key = keys.iter().find(|key| key[8] == CLAIM && key[9..] == id).unwrap();
            contents.insert(&**key, GARBAGE).unwrap();
        }
        transaction.commit().unwrap();
    }

    /// Returns the bytes that a repair has kept, for each record.
    fn set_aside(&self) -> Vec<Vec<u8>> {
        let Self::File(folder, _) = self else {
            let kept = self.node_of(KEPT).unwrap().command(&["HVALS", KEPT]);
            return kept.items().iter().map(|value| value.as_bytes().to_vec()).collect();
        };
        let lines = std::fs::read_to_string(folder.path().join("set-aside.jsonl")).unwrap();
        let kept = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["bytes"].clone());
        kept.map(|bytes| from_hexadecimal(bytes.as_str().unwrap())).collect()
    }
}

fn from_hexadecimal(text: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    text.as_bytes().chunks(2).map(byte).collect()
}

/// Fills the store, stops the service and damages three records. Returns the ids of the three
/// subscriptions of the queue `subs`, the first two of which are damaged.
async fn damaged(store: &Store, endpoint: &Endpoint) -> [String; 3] {
    let mut sukkal = store.serve();
    let api = sukkal.project("p");
    for queue in ["bad", "good", "subs"] {
        answered(api.put(&format!("/v2/queues/{queue}")).json(&json!({ "name": queue })), 201).await;
    }
    post(&api, "bad").await;
    let mut ids = Vec::new();
    for path in ["/a", "/b", "/c"] {
        let new = subscription(endpoint, path);
        let created = answered(api.post("/v2/queues/subs/subscriptions", &new), 201).await.json();
        ids.push(created["subscription_id"].as_str().unwrap().to_owned());
    }
    sukkal.terminate();
    block_in_place(|| sukkal.wait());
    assert_intact(&store.uri());
    let ids: [String; 3] = ids.try_into().unwrap();
    store.damage([&ids[0], &ids[1]]);
    ids
}

fn subscription(endpoint: &Endpoint, path: &str) -> Value {
    json!({ "subscriber": endpoint.url(path), "ttl": 3600, "options": { "path": path } })
}

async fn post(api: &Api, queue: &str) {
    let messages = json!({ "messages": [{ "body": queue }] });
    answered(api.post(&format!("/v2/queues/{queue}/messages"), &messages), 201).await;
}

async fn names(api: &Api, query: &str) -> Vec<String> {
    let listed = answered(api.get(&format!("/v2/queues{query}")), 200).await.json();
    let name = |queue: &Value| queue["name"].as_str().unwrap().to_owned();
    listed["queues"].as_array().unwrap().iter().map(name).collect()
}

async fn listed_ids(api: &Api, query: &str) -> Vec<String> {
    let listed = answered(api.get(&format!("/v2/queues/subs/subscriptions{query}")), 200).await.json();
    let id = |one: &Value| one["id"].as_str().unwrap().to_owned();
    listed["subscriptions"].as_array().unwrap().iter().map(id).collect()
}

async fn fails_alone(store: Store) {
    let endpoint = Endpoint::start();
    let [first, second, third] = damaged(&store, &endpoint).await;
    let (code, found) = run(&["check", "--store", &store.uri()]);
    assert_eq!(code, Some(1), "{found}");
    for name in ["p/bad: ", first.as_str(), second.as_str()] {
        assert!(found.contains(name), "{name}: {found}");
    }
    let sukkal = store.serve();
    let api = sukkal.project("p");

    // The others are listed and used.
    for query in ["", "?detailed=true", "?with_stats=true", "?limit=1&marker=aaa"] {
        let expected = &["good", "subs"][..if query.contains("limit") { 1 } else { 2 }];
        assert_eq!(names(&api, query).await, expected, "{query}");
    }
    for query in ["", "?limit=1"] {
        assert_eq!(listed_ids(&api, query).await, [third.as_str()], "{query}");
    }
    post(&api, "subs").await;
    assert_eq!(endpoint.wait_for(1).await[0].path, "/c");

    // The log names those that are left out, and does not show them.
    for name in ["queue p/bad", &format!("queue p/subs, subscription {first}"), second.as_str()] {
        for line in sukkal.logged(name).await {
            assert!(!line.contains("private") && line.contains("WARN"), "{line}");
        }
    }
    answered(api.get("/v2/queues/bad"), 500).await;
    answered(api.get(&format!("/v2/queues/subs/subscriptions/{first}")), 500).await;

    // They can be deleted, and their names used again.
    for id in [&first, &second] {
        answered(api.delete(&format!("/v2/queues/subs/subscriptions/{id}")), 204).await;
    }
    for path in ["/a", "/b"] {
        answered(api.post("/v2/queues/subs/subscriptions", &subscription(&endpoint, path)), 201).await;
    }
    answered(api.delete("/v2/queues/bad"), 204).await;
    answered(api.put("/v2/queues/bad"), 201).await;
    drop(sukkal);
    assert_intact(&store.uri());
}

async fn is_set_aside(store: Store) {
    let endpoint = Endpoint::start();
    let [first, second, third] = damaged(&store, &endpoint).await;

    let (code, text) = run(&["check", "--repair", "--store", &store.uri()]);

    assert_eq!(code, Some(0), "{text}");
    for name in ["repaired: p/bad", &first, &second, "set aside in"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let kept = store.set_aside();
    assert_eq!(kept.len(), 3);
    assert!(kept.iter().all(|bytes| bytes.ends_with(GARBAGE)), "{kept:?}");
    assert_intact(&store.uri());
    let sukkal = store.serve();
    let api = sukkal.project("p");
    assert_eq!(names(&api, "").await, ["bad", "good", "subs"]);
    let metadata = answered(api.get("/v2/queues/bad"), 200).await.json();
    assert!(metadata.get("name").is_none(), "{metadata}");
    post(&api, "bad").await;
    let popped = answered(api.request(Method::DELETE, "/v2/queues/bad/messages?pop=2"), 200).await.json();
    assert_eq!(popped["messages"].as_array().unwrap().len(), 2);
    assert_eq!(listed_ids(&api, "").await, [third]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_names_an_unreadable_claim_and_policy() {
    for store in [Store::Redis(RedisServer::start()), Store::File(tempfile::tempdir().unwrap(), ROW_HEAD)] {
        let mut sukkal = store.serve();
        let api = sukkal.project("p");
        let metadata = json!({ "_dead_letter_queue": "dead", "_max_claim_count": 3 });
        answered(api.put("/v2/queues/held").json(&metadata), 201).await;
        post(&api, "held").await;
        let claimed = answered(api.post("/v2/queues/held/claims", &json!({ "ttl": 600 })), 201).await.json();
        let (_, id) = claimed["messages"][0]["href"].as_str().unwrap().split_once("claim_id=").unwrap();
        sukkal.terminate();
        block_in_place(|| sukkal.wait());
        assert_intact(&store.uri());
        store.damage_claim(&id.replace('-', ""));

        let (code, found) = run(&["check", "--store", &store.uri()]);

        assert_eq!(code, Some(1), "{found}");
        assert!(found.contains(&format!("p/held: claim {id}: cannot decode ")), "{found}");
        if matches!(store, Store::File(..)) {
            continue;
        }
        assert!(found.contains("p/held: cannot decode the policy"), "{found}");
        let (_, repaired) = run(&["check", "--repair", "--store", &store.uri()]);
        assert!(repaired.contains("repaired: p/held: cannot decode the policy; set aside in"), "{repaired}");
        assert_eq!(store.set_aside(), [GARBAGE]);
        let (_, found) = run(&["check", "--store", &store.uri()]);
        assert!(found.contains(id) && !found.contains("policy"), "{found}");
        let restored = answered(store.serve().project("p").get("/v2/queues/held"), 200).await.json();
        assert_eq!(restored["_dead_letter_queue"], "dead");
    }
}

/// A change of a subscription is loaded while the others are delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_becomes_unreadable_does_not_stop_the_others() {
    let (endpoint, redis) = (Endpoint::start(), RedisServer::start());
    let sukkal = Sukkal::start_with(&redis.url(), &LOCAL);
    let api = sukkal.project("p");
    for path in ["/a", "/b"] {
        answered(api.post("/v2/queues/subs/subscriptions", &subscription(&endpoint, path)), 201).await;
    }
    post(&api, "subs").await;
    endpoint.wait_for(2).await;
    let change = "
        local id = redis.call('HGET', KEYS[3], ARGV[1])
        redis.call('HSET', KEYS[2], id, 'x')
        local version = redis.call('HGET', KEYS[1], 'v')
        local next_version = string.format('%d', version + 1)
        local changes = redis.call('HGET', KEYS[1], 'l') .. struct.pack('>I8I8c16', version, next_version, id)
        redis.call('HSET', KEYS[1], 'v', next_version, 'l', changes)";
    let [deliveries, subscriptions, subscribers] =
        ["deliveries", "subscriptions", "subscribers"].map(|part| format!("sukkal:{{p/subs}}:{part}"));
    redis.command(&["EVAL", change, "3", &deliveries, &subscriptions, &subscribers, &endpoint.url("/a")]);

    for count in [3, 4] {
        post(&api, "subs").await;
        assert_eq!(endpoint.wait_for(count).await.last().unwrap().path, "/b");
    }

    let log = sukkal.log().join("\n");
    assert!(log.contains("queue p/subs, subscription") && !log.contains("cannot deliver"), "{log}");
}

macro_rules! over_each_store {
    ($($name:ident = $store:expr;)*) => {
        $(mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn an_unreadable_record_fails_only_its_queue_or_subscription() {
                fails_alone($store).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_repair_sets_unreadable_metadata_and_subscriptions_aside() {
                is_set_aside($store).await;
            }
        })*
    };
}

over_each_store! {
    redis = Store::Redis(RedisServer::start());
    cluster = Store::Cluster(RedisCluster::start());
    file = Store::File(tempfile::tempdir().unwrap(), ROW_HEAD);
    file_with_a_damaged_row = Store::File(tempfile::tempdir().unwrap(), ROW_HEAD - 2);
}
