//! Random documents with private keys of libraries, nested to levels at and around every limit, are
//! sent as bodies, metadata and options. The service refuses a document or keeps it: what it has
//! accepted is read back unchanged through HTTP, WebSockets and the command line.
//!
//! `SUKKAL_DOCUMENTS` sets the number of documents for each store. `SUKKAL_SEED` repeats a run.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::http::{answered, send};
use crate::migration::{assert_intact, embedded};
use crate::private_keys::{KEYS, printed};
use support::campaign;
use support::random::{Random, seed};
use support::redis::RedisServer;
use support::report::checked;
use support::socket::Socket;
use support::sukkal::{MOVABLE_CLOCK, Sukkal};

const DOCUMENTS: usize = 100;
/// Number of documents that are written before all of them are read.
const BATCH: usize = 20;
/// Numbers of levels: few, at the limit of metadata and options, and at those of parsers.
const LEVELS: [usize; 22] =
    [0, 1, 2, 3, 5, 29, 30, 31, 32, 33, 64, 118, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129];
const OPTIONS: [(&str, &str); 4] = [
    MOVABLE_CLOCK,
    ("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_PAGE", "1000"),
    ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"),
    ("SUKKAL_TRANSPORT__MAX_QUEUE_METADATA", "1000000"),
];

fn key(random: &mut Random) -> String {
    match random.below(3) {
        0 => ["", "a", "é\u{0}\"", "_k"][random.below(4)].to_owned(),
        _ => KEYS[random.below(KEYS.len())].to_owned(),
    }
}

fn scalar(random: &mut Random) -> Value {
    let texts = ["", "1", "{\"a\": [1]}", "[", "null", "\u{1F600}\u{0}"];
    match random.below(6) {
        0 => Value::Null,
        1 => json!(random.one_in(2)),
        2 => json!([0, -1, i64::MIN, i64::MAX, 128, -33][random.below(6)]),
        3 => json!([0.5, -1e300, 1e-7][random.below(3)]),
        _ => json!(texts[random.below(texts.len())]),
    }
}

/// Returns a value with this number of levels, on each of which are few others.
fn nested(random: &mut Random, levels: usize) -> Value {
    if levels == 0 {
        return scalar(random);
    }
    let mut values: Vec<Value> = (0..random.below(3)).map(|_| scalar(random)).collect();
    let inner = nested(random, levels - 1);
    values.insert(random.below(values.len() + 1), inner);
    if random.one_in(3) {
        return Value::Array(values);
    }
    Value::Object(values.into_iter().map(|value| (key(random), value)).collect())
}

/// Sends a request with a document. Returns whether the service has accepted it.
async fn is_accepted(request: RequestBuilder, document: &Value) -> bool {
    let answer = send(request).await;
    assert!([201, 400].contains(&answer.status), "{answer:?} to {document}");
    answer.status == 201
}

/// Writes the documents of a batch and reads them. Returns the number of those that were accepted.
async fn round_trip(sukkal: &Sukkal, sockets: &mut [Socket; 2], batch: usize, documents: &[Value]) -> usize {
    let (api, url) = (sukkal.project("p"), sukkal.url(""));
    let cli = |words: &[&str]| printed(&[words, &["--url", &url, "--project", "p", "--json"]].concat());
    let queue = format!("b{batch}");
    let (mut bodies, mut metadata, mut options) = (Vec::new(), Vec::new(), Vec::new());
    for (number, document) in documents.iter().enumerate() {
        let post = json!({ "messages": [{ "body": document }] });
        if is_accepted(api.post(&format!("/v2/queues/{queue}/messages"), &post), document).await {
            bodies.push(document.clone());
        }
        for socket in &mut *sockets {
            let post = json!({ "queue_name": queue, "messages": [{ "body": document, "ttl": 3600 }] });
            let status = socket.ask("message_post", post).await.0;
            assert!([201, 400].contains(&status), "{status} to {document}");
            if status == 201 {
                bodies.push(document.clone());
            }
        }
        let (name, keys) = (format!("{queue}-{number}"), json!({ "k": document }));
        if is_accepted(api.put(&format!("/v2/queues/{name}")).json(&keys), document).await {
            metadata.push((name, document.clone()));
        }
        let new = json!({ "subscriber": format!("http://127.0.0.1:1/{number}"), "ttl": 3600, "options": keys });
        if is_accepted(api.post(&format!("/v2/queues/{queue}-s/subscriptions"), &new), document).await {
            options.push(document.clone());
        }
    }

    // Bodies.
    let bodies_of = |list: &Value| -> Vec<Value> {
        list["messages"].as_array().unwrap().iter().map(|message| message["body"].clone()).collect()
    };
    let listed = answered(api.get(&format!("/v2/queues/{queue}/messages?echo=true&limit=1000")), 200).await.json();
    assert_eq!(bodies_of(&listed), bodies);
    for socket in &mut *sockets {
        let list = json!({ "queue_name": queue, "echo": true, "limit": 1000 });
        assert_eq!(bodies_of(&socket.ask("message_list", list).await.1), bodies);
    }
    let lines = cli(&["message", "ls", &queue, "--all"]);
    assert_eq!(lines.into_iter().map(|line| line["body"].clone()).collect::<Vec<_>>(), bodies);

    // Metadata.
    let prefix = format!("/v2/queues?detailed=true&limit=20&name_prefix={queue}-");
    let detailed = answered(api.get(&prefix), 200).await.json();
    for (name, document) in &metadata {
        let of_name = |entry: &&Value| entry["name"] == **name;
        let entry = detailed["queues"].as_array().unwrap().iter().find(of_name).unwrap();
        assert_eq!(entry["metadata"]["k"], *document);
        assert_eq!(answered(api.get(&format!("/v2/queues/{name}")), 200).await.json()["k"], *document);
        for socket in &mut *sockets {
            assert_eq!(socket.ask("queue_get", json!({ "queue_name": name })).await.1["k"], *document);
        }
    }
    if let Some((name, document)) = metadata.last() {
        assert_eq!(cli(&["queue", "show", name])[0]["metadata"]["k"], *document);
    }

    // Options.
    let mut listings =
        vec![answered(api.get(&format!("/v2/queues/{queue}-s/subscriptions?limit=20")), 200).await.json()];
    for socket in &mut *sockets {
        let list = json!({ "queue_name": format!("{queue}-s"), "limit": 20 });
        listings.push(socket.ask("subscription_list", list).await.1);
    }
    for listing in listings {
        let found = listing["subscriptions"].as_array().unwrap();
        assert_eq!(found.len(), options.len());
        assert!(options.iter().all(|document| found.iter().any(|one| one["options"]["k"] == *document)));
    }
    bodies.len() + metadata.len() + options.len()
}

async fn run(name: &str, store: &str) {
    let (count, mut random) = (campaign::size("SUKKAL_DOCUMENTS", DOCUMENTS), Random::new(seed(), 0, 0));
    let sukkal = Sukkal::start_with(store, &OPTIONS);
    let open = async |is_binary| Socket::open(&sukkal.url("/v2/websocket"), "p").await.of_kind(is_binary);
    let mut sockets = [open(false).await, open(true).await];
    let mut accepted = 0;
    for batch in 0..count.div_ceil(BATCH) {
        let levels = LEVELS.iter().cycle().skip(batch * BATCH).take(BATCH);
        let documents: Vec<Value> = levels.map(|levels| nested(&mut random, *levels)).collect();
        accepted += round_trip(&sukkal, &mut sockets, batch, &documents).await;
    }
    drop(sukkal);
    if !store.starts_with("memory") {
        assert_intact(store);
    }
    assert!(accepted > count, "only {accepted} were accepted");
    checked("read_back", name, accepted, "documents that were accepted as bodies, metadata or options");
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_documents_are_read_back_from_memory() {
    run("memory", "memory:").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_documents_are_read_back_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    run("file", &embedded(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_documents_are_read_back_from_redis() {
    run("redis", &RedisServer::start().url()).await;
}
