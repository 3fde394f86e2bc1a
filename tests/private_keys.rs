//! Keys that have a meaning inside a library are ordinary keys in the data of clients: what the
//! service accepts is read back unchanged by every route, transport and tool.

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::http::{PATCH_TYPE, answered};
use crate::migration::{assert_intact, embedded, migrate};
use crate::push::LOCAL;
use crate::push::endpoint::Endpoint;
use support::redis::{RedisServer, child_command};
use support::socket::Socket;
use support::sukkal::{MOVABLE_CLOCK, Sukkal, binary};

/// The keys of `serde_json`, `sonic_rs`, `rmp_serde`, `toml`, `serde_saphyr` and `serde`.
pub(crate) const KEYS: [&str; 16] = [
    "$serde_json::private::RawValue",
    "$serde_json::private::Number",
    "$sonic_rs::private::Value",
    "$sonic_rs::private::JsonNumber",
    "$sonic_rs::LazyValue",
    "$sonic::OwnedLv",
    "_ExtStruct",
    "$__toml_private_datetime",
    "$__toml_private_Datetime",
    "$__serde_spanned_private_value",
    "$__serde_spanned_private_Spanned",
    "__serde_saphyr_private_spanned",
    "__yaml_anchor",
    "__yaml_tagged",
    "__yaml_spanned",
    "__field0",
];

/// An object with this key alone has had a meaning; others are near it.
fn documents(key: &str) -> [Value; 6] {
    let nested = (0..9).fold(json!("[[[]]]"), |inner, _| json!({ key: inner }));
    [
        json!({ key: "1" }),
        json!({ key: "{\"a\": [[1]]}" }),
        json!({ key: "not JSON", "a": 1 }),
        json!({ key: 5 }),
        json!({ key: [[1], null] }),
        json!({ "deep": [nested] }),
    ]
}

/// All documents, in an object for each key.
fn metadata() -> Map<String, Value> {
    KEYS.iter().enumerate().map(|(number, key)| (format!("k{number}"), json!(documents(key)))).collect()
}

/// Runs a command, and returns the lines of JSON that it prints.
pub(crate) fn printed(arguments: &[&str]) -> Vec<Value> {
    let output = child_command(binary()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// Stores each document in each place, and reads it in each way.
async fn round_trip(store: &str) {
    // Commands of the tests of migrations use such stores.
    let sukkal = Sukkal::start_with(store, &[&[MOVABLE_CLOCK][..], &LOCAL].concat());
    let (api, endpoint) = (sukkal.project("p"), Endpoint::start());
    let documents: Vec<Value> = KEYS.iter().flat_map(|key| documents(key)).collect();
    let bodies: Vec<Value> = documents.iter().map(|document| json!({ "type": "a", "x": document })).collect();
    let count = documents.len();

    answered(api.put("/v2/queues/q").json(&metadata()), 201).await;
    for (number, document) in documents.iter().enumerate() {
        let change = json!([{ "op": "add", "path": format!("/metadata/p{number}"), "value": document }]);
        let patch = api.request(Method::PATCH, "/v2/queues/q").header("Content-Type", PATCH_TYPE);
        answered(patch.body(change.to_string()), 200).await;
    }
    let options = json!({ "match": { "type": "a" }, "o": documents });
    let subscription = json!({ "subscriber": endpoint.url("/"), "ttl": 3600, "options": options });
    answered(api.post("/v2/queues/q/subscriptions", &subscription), 201).await;
    let mut sockets = Vec::new();
    for is_binary in [false, true] {
        sockets.push(Socket::open(&sukkal.url("/v2/websocket"), "p").await.of_kind(is_binary));
    }
    for body in &bodies {
        answered(api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": body }] })), 201).await;
        for socket in &mut sockets {
            let post = json!({ "queue_name": "q", "messages": [{ "body": body, "ttl": 3600 }] });
            assert_eq!(socket.ask("message_post", post).await.0, 201);
        }
    }
    let posted: Vec<&Value> = bodies.iter().flat_map(|body| [body; 3]).collect();

    // Metadata and options.
    let mut stored = metadata();
    stored.extend(documents.iter().enumerate().map(|(number, document)| (format!("p{number}"), document.clone())));
    let holds = |shown: &Value| stored.iter().all(|(key, value)| shown[key] == *value);
    assert!(holds(&answered(api.get("/v2/queues/q"), 200).await.json()));
    assert!(holds(&answered(api.get("/v2/queues?detailed=true"), 200).await.json()["queues"][0]["metadata"]));
    let subscriptions = answered(api.get("/v2/queues/q/subscriptions"), 200).await.json();
    assert_eq!(subscriptions["subscriptions"][0]["options"], options);
    for socket in &mut sockets {
        assert!(holds(&socket.ask("queue_get", json!({ "queue_name": "q" })).await.1));
        let listed = socket.ask("subscription_list", json!({ "queue_name": "q" })).await.1;
        assert_eq!(listed["subscriptions"][0]["options"], options);
    }
    let url = sukkal.url("");
    let cli = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        printed(&[&words[..], &["--url", &url, "--project", "p", "--json"]].concat())
    };
    assert!(holds(&cli("queue show q")[0]["metadata"]));

    // Messages.
    let bodies_of = |list: &Value| -> Vec<Value> {
        list["messages"].as_array().unwrap().iter().map(|message| message["body"].clone()).collect()
    };
    let mut listed = Vec::new();
    let mut path = "/v2/queues/q/messages?echo=true&limit=20".to_owned();
    while listed.len() < posted.len() {
        let page = answered(api.get(&path), 200).await.json();
        listed.extend(bodies_of(&page));
        page["links"][0]["href"].as_str().unwrap().clone_into(&mut path);
    }
    assert_eq!(listed.iter().collect::<Vec<_>>(), posted);
    for socket in &mut sockets {
        let page = socket.ask("message_list", json!({ "queue_name": "q", "echo": true, "limit": 10 })).await.1;
        assert_eq!(bodies_of(&page), listed[..10]);
    }
    for words in ["message ls q --all", &format!("message tail q --all --limit {}", 3 * count)] {
        let lines: Vec<Value> = cli(words).into_iter().map(|line| line["body"].clone()).collect();
        assert_eq!(lines, listed, "{words}");
    }
    let delivered = endpoint.bodies(posted.len()).await;
    assert!(posted.iter().all(|body| delivered.contains(body)));
    assert_eq!(bodies_of(&cli("claim take q --limit 10")[0]), listed[..10]);
    let claimed = answered(api.post("/v2/queues/q/claims?limit=10", &json!({})), 201).await.json();
    assert_eq!(bodies_of(&claimed), listed[10..20]);
    let popped = answered(api.delete("/v2/queues/q/messages?pop=10"), 200).await.json();
    assert_eq!(bodies_of(&popped), listed[20..30]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_libraries_are_ordinary_keys_over_redis() {
    let redis = RedisServer::start();

    round_trip(&redis.url()).await;

    assert_intact(&redis.url());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_libraries_are_ordinary_keys_over_a_file_and_after_a_migration() {
    let (folder, redis) = (tempfile::tempdir().unwrap(), RedisServer::start());
    let store = embedded(folder.path());

    round_trip(&store).await;

    assert_intact(&store);
    migrate(&store, &redis.url());
    assert_intact(&redis.url());
    let migrated = Sukkal::start_with(&redis.url(), &[MOVABLE_CLOCK]);
    let shown = answered(migrated.project("p").get("/v2/queues/q"), 200).await.json();
    assert!(metadata().iter().all(|(key, value)| shown[key] == *value));
}

/// Of equal keys, the last value counts, as for any other key.
#[tokio::test]
async fn equal_keys_beside_a_key_of_a_library_are_accepted() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project("p");
    for key in KEYS {
        let text = format!(r#"{{"{key}": "x", "a": 1, "a": 2}}"#);

        answered(api.put("/v2/queues/q").body(text.clone()), 201).await;
        let post = api.request(Method::POST, "/v2/queues/m/messages").header("Content-Type", "application/json");
        answered(post.body(format!(r#"{{"messages": [{{"body": {text}}}]}}"#)), 201).await;

        let shown = answered(api.get("/v2/queues/q"), 200).await.json();
        assert_eq!((&shown[key], &shown["a"]), (&json!("x"), &json!(2)));
        let popped = answered(api.delete("/v2/queues/m/messages?pop=1"), 200).await.json();
        assert_eq!(popped["messages"][0]["body"], json!({ key: "x", "a": 2 }));
        answered(api.delete("/v2/queues/q"), 204).await;
    }
}
