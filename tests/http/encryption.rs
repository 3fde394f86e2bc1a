//! Fact sheet 15: encryption of the messages in a queue with `_enable_encrypt_messages`.
//!
//! | row | test |
//! |---|---|
//! | bodies are encrypted before they are stored | `the_store_has_no_plain_text_of_an_encrypted_message` |
//! | (DEV) every operation decrypts; any JSON | `every_operation_returns_encrypted_bodies_decrypted` |
//! | bodies of dead letters move unchanged | `an_encrypted_message_stays_readable_as_a_dead_letter` |
//! | changing the flag | `messages_stay_readable_when_encryption_is_switched_on_or_off` |
//! | no default key: 400 | `encryption_cannot_be_enabled_on_a_server_without_a_key` |
//! | posting without a key | `a_server_without_a_key_refuses_posts_to_an_encrypted_queue` |
//! | reading without the key: 503 | `a_message_encrypted_with_another_key_is_not_lost_and_the_error_names_it` |
//! | a claim or pop of unreadable messages | `a_claim_of_unreadable_messages_is_released`, `a_pop_returns_unreadable_messages_to_the_queue` |
//! | damaged: 500 | `a_damaged_message_is_not_lost_and_the_error_names_it` |
//! | `_enable_encrypt_messages` takes booleans | `reserved_metadata.rs` |

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

const FLAG: &str = "/metadata/_enable_encrypt_messages";
const UNAVAILABLE: &str = "Service temporarily unavailable";
const INTERNAL: &str = "Internal server error";

/// Lua script that counts the stored values of the keys of a project that contain a text.
const FIND: &str = "
    local found = 0
    for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
      local kind = redis.call('TYPE', key).ok
      local parts = kind == 'hash' and redis.call('HGETALL', key) or kind == 'zset' and redis.call('ZRANGE', key, 0, -1)
        or kind == 'list' and redis.call('LRANGE', key, 0, -1) or {redis.call('GET', key)}
      for _, part in ipairs(parts) do
        found = found + (string.find(part, ARGV[2], 1, true) and 1 or 0)
      end
    end
    return found";
/// Lua script that changes the last byte of the record of a message, which is given by its index in
/// the queue.
const DAMAGE: &str = "
    local key = string.sub(redis.call('ZRANGE', KEYS[2], ARGV[1], ARGV[1])[1], 1, 12)
    local record = redis.call('HGET', KEYS[1], key)
    local last = string.char((string.byte(record, -1) + 1) % 256)
    return redis.call('HSET', KEYS[1], key, string.sub(record, 1, -2) .. last)";

/// Creates the queue `q`, which encrypts its messages, in a new project.
async fn with_encrypted_queue() -> Project {
    let api = new_project();
    api.create("q", &json!({ "_enable_encrypt_messages": true })).await;
    api
}

/// Returns the same project on another server with this key, over the same store.
fn on_server_with_key(api: &Project, key: &str) -> Project {
    Project::of(&Arc::new(Server::start(&[(KEY_OPTION, key)])), &api.id)
}

/// Counts the stored values of the project in Redis that contain the text.
fn occurrences(api: &Project, text: &str) -> i64 {
    let keys = format!("sukkal:{{{}/*", api.id);
    api.server.redis.command(&["EVAL", FIND, "0", &keys, text]).as_int()
}

/// Damages the record of a message, which is given by its index among the available messages.
pub(super) fn damage(api: &Project, queue: &str, index: &str) {
    let key = |part| format!("sukkal:{{{}/{queue}}}:{part}", api.id);
    let damaged = ["EVAL", DAMAGE, "2", &key("messages"), &key("ready"), index];
    assert_eq!(api.server.redis.command(&damaged).as_int(), 0);
}

async fn bodies(api: &Project) -> Vec<Value> {
    pick(&follow(api, &format!("{MESSAGES}?echo=true&include_claimed=true"), "messages").await.into(), "body")
}

/// Row 5-14.
#[tokio::test]
async fn the_store_has_no_plain_text_of_an_encrypted_message() {
    let (api, secret) = (with_encrypted_queue().await, Uuid::new_v4().to_string());

    api.post_bodies("plain", &[json!({ "secret": secret })]).await;
    let plain = occurrences(&api, &secret);
    answered(api.delete("/v2/queues/plain"), 204).await;
    api.post_bodies("q", &[json!(secret), json!({ "secret": secret })]).await;

    assert_eq!(plain, 1, "the search finds plain text");
    assert_eq!(occurrences(&api, &secret), 0);
    assert_eq!(bodies(&api).await, [json!(secret), json!({ "secret": secret })]);
}

/// Row 5-14.
#[tokio::test]
async fn every_operation_returns_encrypted_bodies_decrypted() {
    let sent = [json!(null), json!("caf\u{e9}"), json!({"b": [1, 2.5, {}], "a": i64::MIN}), json!("x".repeat(70_000))];
    let api = with_encrypted_queue().await;

    let ids = api.post_bodies("q", &sent).await;

    assert_eq!(bodies(&api).await, sent);
    for (id, body) in ids.iter().zip(&sent) {
        assert_eq!(answered(api.get(&format!("{MESSAGES}/{id}")), 200).await.json()["body"], *body);
    }
    let by_ids = answered(api.get(&format!("{MESSAGES}?ids={}", ids.join(","))), 200).await.json();
    assert_eq!(pick(&by_ids["messages"], "body"), sent);
    let claim = api.claim(2).await;
    assert_eq!(pick(&claim.messages, "body"), sent[..2]);
    let shown = answered(api.get(&claim.path), 200).await.json();
    assert_eq!(pick(&shown["messages"], "body"), sent[..2]);
    let popped = answered(api.delete(&format!("{MESSAGES}?pop=20")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), sent[2..]);
}

#[tokio::test]
async fn messages_stay_readable_when_encryption_is_switched_on_or_off() {
    let api = new_project();
    api.create("q", &json!({})).await;

    for (number, encrypts) in [false, true, false, true].into_iter().enumerate() {
        let patch = json!([{ "op": "replace", "path": FLAG, "value": encrypts }]);
        answered(api.patch("q", &patch), 200).await;
        api.post_bodies("q", &[json!(format!("{}-{number}", api.id))]).await;
    }
    let removal = json!([{ "op": "remove", "path": FLAG }]);
    answered(api.patch("q", &removal), 200).await;

    let sent: Vec<Value> = (0..4).map(|number| json!(format!("{}-{number}", api.id))).collect();
    assert_eq!(bodies(&api).await, sent);
    let readable = [0, 1, 2, 3].map(|number| occurrences(&api, &format!("{}-{number}", api.id)));
    assert_eq!(readable, [1, 0, 1, 0]);
    assert_eq!(pick(&api.claim(2).await.messages, "body"), sent[..2]);
    let popped = answered(api.delete(&format!("{MESSAGES}?pop=2")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), sent[2..]);
}

#[tokio::test]
async fn an_encrypted_message_stays_readable_as_a_dead_letter() {
    let (api, secret) = (new_project(), Uuid::new_v4().to_string());
    let rules = json!({ "_enable_encrypt_messages": true, "_max_claim_count": 1, "_dead_letter_queue": "dead" });
    api.create("q", &rules).await;
    api.post_bodies("q", &[json!(secret)]).await;

    answered(api.delete(&api.claim(1).await.path), 204).await;
    answered(api.post("/v2/queues/q/claims", &json!({})), 204).await;

    api.arrived("dead", 1).await;
    let dead_letters = answered(api.get("/v2/queues/dead/messages?echo=true"), 200).await.json();
    assert_eq!(pick(&dead_letters["messages"], "body"), [json!(secret)]);
    assert_eq!(occurrences(&api, &secret), 0);
}

#[tokio::test]
async fn encryption_cannot_be_enabled_on_a_server_without_a_key() {
    let api = on_server_with_key(&with_encrypted_queue().await, "");
    api.create("plain", &json!({ "k": 1 })).await;
    let before = api.snapshot().await;
    let flag = json!({ "_enable_encrypt_messages": true });

    for queue in ["new", "plain", "q"] {
        let description = refused(api.put(&format!("/v2/queues/{queue}")).json(&flag), 400, INVALID_REQUEST).await;
        assert!(description.contains("message_encryption_key"), "{description}");
    }
    let patch = json!([
        { "op": "add", "path": "/metadata/k", "value": 2 },
        { "op": "add", "path": FLAG, "value": true },
    ]);
    let description = refused(api.patch("plain", &patch), 400, INVALID_BODY).await;
    assert!(description.contains("_enable_encrypt_messages"), "{description}");

    assert_eq!(api.snapshot().await, before);
    // Values that do not enable encryption are accepted without a key.
    for value in [json!(false), Value::Null] {
        api.create(&format!("off-{value}"), &json!({ "_enable_encrypt_messages": value })).await;
    }
    let other = json!([{ "op": "add", "path": "/metadata/k", "value": 2 }]);
    assert_eq!(answered(api.patch("q", &other), 200).await.json()["_enable_encrypt_messages"], true);
}

#[tokio::test]
async fn a_server_without_a_key_refuses_posts_to_an_encrypted_queue() {
    let api = on_server_with_key(&with_encrypted_queue().await, "");

    let answer = send(api.post(MESSAGES, &json!({ "messages": [{ "body": api.id }] }))).await;

    let description = answer.refusal(503, UNAVAILABLE);
    assert!(description.contains("message_encryption_key"), "{description}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(occurrences(&api, &api.id), 0);
    assert_eq!(bodies(&api).await, [json!(null); 0]);
    assert_eq!(api.server.sukkal.logged("request failed").await.len(), 1);
}

/// Checks that every operation that returns the only message of the queue fails on this server.
async fn assert_unreadable(api: &Project, id: &str, status: u16, title: &str) {
    let by_id = [format!("{MESSAGES}?ids={id}"), format!("{MESSAGES}/{id}"), format!("{MESSAGES}?echo=true")];
    for request in by_id.iter().map(|path| api.get(path)).chain([api.post("/v2/queues/q/claims", &json!({}))]) {
        let description = refused(request, status, title).await;
        assert!(description.contains(id), "{description}");
    }
    let description = refused(api.delete(&format!("{MESSAGES}?pop=5")), status, title).await;
    assert!(description.contains(id), "{description}");
}

#[tokio::test]
async fn a_message_encrypted_with_another_key_is_not_lost_and_the_error_names_it() {
    let api = with_encrypted_queue().await;
    let ids = api.post_bodies("q", &[json!("hello")]).await;

    for key in ["", "another passphrase"] {
        let other_server = on_server_with_key(&api, key);
        assert_unreadable(&other_server, &ids[0], 503, UNAVAILABLE).await;
        let log = other_server.server.sukkal.log().join("\n");
        assert!(!log.contains("passphrase") && !log.contains("hello"), "{log}");
        let claim = api.claim(1).await;
        refused(other_server.get(&claim.path), 503, UNAVAILABLE).await;
        answered(api.delete(&claim.path), 204).await;
    }

    let found = answered(api.get(&format!("{MESSAGES}/{}", ids[0])), 200).await.json();
    assert_eq!(found["body"], "hello", "the message has kept its position");
}

#[tokio::test]
async fn a_claim_of_unreadable_messages_is_released() {
    let api = with_encrypted_queue().await;
    let sent: Vec<Value> = (0..3).map(Value::from).collect();
    let ids = api.post_bodies("q", &sent).await;
    let other_server = on_server_with_key(&api, "");

    // The first claim finds the unreadable message; later ones check for it before they claim.
    for _ in ["without a check", "with a check"] {
        let description = refused(other_server.post("/v2/queues/q/claims", &json!({})), 503, UNAVAILABLE).await;
        assert!(description.contains(&ids[0]), "{description}");
    }

    assert_eq!(pick(&api.claim(3).await.messages, "body"), sent);
}

#[tokio::test]
async fn a_pop_returns_unreadable_messages_to_the_queue() {
    let api = with_encrypted_queue().await;
    let sent: Vec<Value> = (0..7).map(Value::from).collect();
    api.create("plain", &json!({})).await;
    let ids = api.post_bodies("q", &sent).await;
    let before = api.snapshot().await;
    let other_server = on_server_with_key(&api, "");

    // The first pop finds the unreadable message; later ones check for it before they pop.
    for _ in 0..2 {
        let description = refused(other_server.delete(&format!("{MESSAGES}?pop=3")), 503, UNAVAILABLE).await;
        assert!(description.contains(&ids[0]), "{description}");
    }

    assert_eq!(bodies(&api).await, sent);
    assert_eq!(api.snapshot().await, before);
}

#[tokio::test]
async fn a_damaged_message_is_not_lost_and_the_error_names_it() {
    let api = with_encrypted_queue().await;
    let ids = api.post_bodies("q", &[json!("hello")]).await;
    damage(&api, "q", "0");

    let server = on_server_with_key(&api, KEY);
    assert_unreadable(&server, &ids[0], 500, INTERNAL).await;

    let stats = answered(api.get("/v2/queues/q/stats"), 200).await.json();
    assert_eq!(stats["messages"]["total"], 1);
    answered(server.delete(&format!("{MESSAGES}/{}", ids[0])), 204).await;
}

#[tokio::test]
async fn messages_around_a_damaged_one_stay_accessible() {
    let api = with_encrypted_queue().await;
    let ids = api.post_bodies("q", &(0..6).map(Value::from).collect::<Vec<_>>()).await;
    damage(&api, "q", "4");
    let server = on_server_with_key(&api, KEY);

    // A page ends before the damaged message. The next page returns the error. A reader can
    // continue after the damaged message.
    let page = answered(server.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&page["messages"], "body"), [0, 1, 2, 3]);
    let next = text(&page["links"][0]["href"]).to_owned();
    let description = refused(server.get(&next), 500, INTERNAL).await;
    assert!(description.contains(&ids[4]), "{description}");
    let rest = answered(server.get(&format!("{MESSAGES}?echo=true&marker={}", ids[4])), 200).await.json();
    assert_eq!(pick(&rest["messages"], "body"), [5]);

    assert_eq!(pick(&server.claim(2).await.messages, "body"), [0, 1]);
    let popped = answered(server.delete(&format!("{MESSAGES}?pop=5")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), [2, 3]);
    refused(server.post("/v2/queues/q/claims", &json!({})), 500, INTERNAL).await;
    answered(server.delete(&format!("{MESSAGES}/{}", ids[4])), 204).await;
    assert_eq!(pick(&server.claim(5).await.messages, "body"), [5]);
}

#[tokio::test]
async fn a_pop_delivers_readable_messages_and_returns_the_damaged_one() {
    let api = with_encrypted_queue().await;
    let ids = api.post_bodies("q", &(0..4).map(Value::from).collect::<Vec<_>>()).await;
    damage(&api, "q", "1");
    let server = on_server_with_key(&api, KEY);

    let popped = answered(server.delete(&format!("{MESSAGES}?pop=3")), 200).await.json();

    assert_eq!(pick(&popped["messages"], "body"), [0, 2]);
    let stats = answered(api.get("/v2/queues/q/stats"), 200).await.json()["messages"].take();
    assert_eq!(stats["total"], 2);
    for (key, id) in [("oldest", &ids[1]), ("newest", &ids[3])] {
        assert!(text(&stats[key]["href"]).ends_with(id.as_str()), "{stats}");
    }
    let refusal = refused(server.delete(&format!("{MESSAGES}?pop=3")), 500, INTERNAL).await;
    assert!(refusal.contains(&ids[1]), "{refusal}");
}

/// White space is part of a passphrase, wherever it is set.
#[tokio::test]
async fn an_old_passphrase_is_the_same_in_the_list_of_the_environment() {
    let api = new_project();
    for (queue, old) in
        [("newline", "an old passphrase with a newline\n"), ("space", " an old passphrase with a space")]
    {
        let path = format!("/v2/queues/{queue}/messages");
        let before = on_server_with_key(&api, old);
        before.create(queue, &json!({ "_enable_encrypt_messages": true })).await;
        answered(before.post(&path, &json!({ "messages": [{ "body": "hello" }] })), 201).await;

        let others = format!("a passphrase of another server,{old}");
        let options = [(KEY_OPTION, KEY), ("SUKKAL_TRANSPORT__MESSAGE_DECRYPTION_KEYS", &others)];
        let after = Project::of(&Arc::new(Server::start(&options)), &api.id);
        let list = answered(after.get(&format!("{path}?echo=true")), 200).await.json();
        assert_eq!(list["messages"][0]["body"], "hello", "{old:?}");
    }
}
