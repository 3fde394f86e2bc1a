//! Fact sheet 15, encryption: what a queue with `_enable_encrypt_messages` keeps, and who can read it.
//!
//! | row | test |
//! |---|---|
//! | bodies are encrypted before they are stored | `no_plain_text_of_an_encrypted_message_is_in_the_store` |
//! | (DEV) decrypted everywhere; any JSON | `an_encrypted_body_comes_back_wherever_it_is_handed_out` |
//! | bodies of dead letters move unchanged | `a_dead_letter_of_an_encrypted_message_is_readable` |
//! | flipping the flag | `messages_stay_readable_when_the_flag_flips` |
//! | no default key: 400 | `a_server_without_a_key_lets_no_queue_begin_to_encrypt` |
//! | posting without a key | `a_server_without_a_key_stores_nothing_in_a_queue_that_encrypts` |
//! | reading without the key: 503 | `what_takes_another_key_is_refused_by_name_and_never_lost` |
//! | a claim or pop in vain | `a_claim_that_cannot_be_read_is_released`, `a_pop_that_cannot_read_puts_back` |
//! | damaged: 500 | `a_damaged_message_is_refused_by_name_and_never_lost` |
//! | `_enable_encrypt_messages` takes booleans | `reserved_metadata.rs` |

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

const PATH: &str = "/v2/queues/q/messages";
const FLAG: &str = "/metadata/_enable_encrypt_messages";
const UNAVAILABLE: &str = "Service temporarily unavailable";
const INTERNAL: &str = "Internal server error";

/// How many values in a project's keys hold a text.
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
/// Changes the last byte of the record of a queue's so manieth message.
const DAMAGE: &str = "
    local key = string.sub(redis.call('ZRANGE', KEYS[2], ARGV[1], ARGV[1])[1], 1, 12)
    local record = redis.call('HGET', KEYS[1], key)
    local last = string.char((string.byte(record, -1) + 1) % 256)
    return redis.call('HSET', KEYS[1], key, string.sub(record, 1, -2) .. last)";

/// A queue `q` that encrypts, and its tenant.
async fn encrypting() -> Tenant {
    let api = tenant();
    api.create("q", &json!({ "_enable_encrypt_messages": true })).await;
    api
}

/// The same tenant on another server over the same store.
fn on_server_with(api: &Tenant, key: &str) -> Tenant {
    Tenant::of(&Arc::new(Stage::start(&[(KEY_OPTION, key)])), &api.project)
}

/// In how many places of the project's keys in Redis the text stands.
fn places(api: &Tenant, text: &str) -> i64 {
    let keys = format!("sukkal:{{{}/*", api.project);
    api.stage.redis.command(&["EVAL", FIND, "0", &keys, text]).as_int()
}

/// Damages the record of a queue's message, by its place among those that are available.
pub(super) fn damage(api: &Tenant, queue: &str, place: &str) {
    let key = |part| format!("sukkal:{{{}/{queue}}}:{part}", api.project);
    let damaged = ["EVAL", DAMAGE, "2", &key("messages"), &key("ready"), place];
    assert_eq!(api.stage.redis.command(&damaged).as_int(), 0);
}

async fn bodies(api: &Tenant) -> Vec<Value> {
    pick(&follow(api, &format!("{PATH}?echo=true&include_claimed=true"), "messages").await.into(), "body")
}

/// Row 5-14.
#[tokio::test]
async fn no_plain_text_of_an_encrypted_message_is_in_the_store() {
    let (api, secret) = (encrypting().await, Uuid::new_v4().to_string());

    api.post_bodies("plain", &[json!({ "secret": secret })]).await;
    let plain = places(&api, &secret);
    answered(api.delete("/v2/queues/plain"), 204).await;
    api.post_bodies("q", &[json!(secret), json!({ "secret": secret })]).await;

    assert_eq!(plain, 1, "the search finds what is there");
    assert_eq!(places(&api, &secret), 0);
    assert_eq!(bodies(&api).await, [json!(secret), json!({ "secret": secret })]);
}

/// Row 5-14.
#[tokio::test]
async fn an_encrypted_body_comes_back_wherever_it_is_handed_out() {
    let sent = [json!(null), json!("caf\u{e9}"), json!({"b": [1, 2.5, {}], "a": i64::MIN}), json!("x".repeat(70_000))];
    let api = encrypting().await;

    let ids = api.post_bodies("q", &sent).await;

    assert_eq!(bodies(&api).await, sent);
    for (id, body) in ids.iter().zip(&sent) {
        assert_eq!(answered(api.get(&format!("{PATH}/{id}")), 200).await.json()["body"], *body);
    }
    let by_ids = answered(api.get(&format!("{PATH}?ids={}", ids.join(","))), 200).await.json();
    assert_eq!(pick(&by_ids["messages"], "body"), sent);
    let claim = api.claim(2).await;
    assert_eq!(pick(&claim.messages, "body"), sent[..2]);
    let shown = answered(api.get(&claim.path), 200).await.json();
    assert_eq!(pick(&shown["messages"], "body"), sent[..2]);
    let popped = answered(api.delete(&format!("{PATH}?pop=20")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), sent[2..]);
}

#[tokio::test]
async fn messages_stay_readable_when_the_flag_flips() {
    let api = tenant();
    api.create("q", &json!({})).await;

    for (number, encrypts) in [false, true, false, true].into_iter().enumerate() {
        let patch = json!([{ "op": "replace", "path": FLAG, "value": encrypts }]);
        answered(api.patch("q", &patch), 200).await;
        api.post_bodies("q", &[json!(format!("{}-{number}", api.project))]).await;
    }
    let removal = json!([{ "op": "remove", "path": FLAG }]);
    answered(api.patch("q", &removal), 200).await;

    let sent: Vec<Value> = (0..4).map(|number| json!(format!("{}-{number}", api.project))).collect();
    assert_eq!(bodies(&api).await, sent);
    let readable = [0, 1, 2, 3].map(|number| places(&api, &format!("{}-{number}", api.project)));
    assert_eq!(readable, [1, 0, 1, 0]);
    assert_eq!(pick(&api.claim(2).await.messages, "body"), sent[..2]);
    let popped = answered(api.delete(&format!("{PATH}?pop=2")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), sent[2..]);
}

#[tokio::test]
async fn a_dead_letter_of_an_encrypted_message_is_readable() {
    let (api, secret) = (tenant(), Uuid::new_v4().to_string());
    let rules = json!({ "_enable_encrypt_messages": true, "_max_claim_count": 1, "_dead_letter_queue": "dead" });
    api.create("q", &rules).await;
    api.post_bodies("q", &[json!(secret)]).await;

    answered(api.delete(&api.claim(1).await.path), 204).await;
    answered(api.post("/v2/queues/q/claims", &json!({})), 204).await;

    let letters = answered(api.get("/v2/queues/dead/messages?echo=true"), 200).await.json();
    assert_eq!(pick(&letters["messages"], "body"), [json!(secret)]);
    assert_eq!(places(&api, &secret), 0);
}

#[tokio::test]
async fn a_server_without_a_key_lets_no_queue_begin_to_encrypt() {
    let api = on_server_with(&encrypting().await, "");
    api.create("plain", &json!({ "k": 1 })).await;
    let before = api.everything().await;
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

    assert_eq!(api.everything().await, before);
    // What does not begin it is no business of the key's.
    for value in [json!(false), Value::Null] {
        api.create(&format!("off-{value}"), &json!({ "_enable_encrypt_messages": value })).await;
    }
    let other = json!([{ "op": "add", "path": "/metadata/k", "value": 2 }]);
    assert_eq!(answered(api.patch("q", &other), 200).await.json()["_enable_encrypt_messages"], true);
}

#[tokio::test]
async fn a_server_without_a_key_stores_nothing_in_a_queue_that_encrypts() {
    let api = on_server_with(&encrypting().await, "");

    let answer = send(api.post(PATH, &json!({ "messages": [{ "body": api.project }] }))).await;

    let description = answer.refusal(503, UNAVAILABLE);
    assert!(description.contains("message_encryption_key"), "{description}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(places(&api, &api.project), 0);
    assert_eq!(bodies(&api).await, [json!(null); 0]);
    let failures = api.stage.sukkal.log().iter().filter(|line| line.contains("request failed")).count();
    assert_eq!(failures, 1);
}

/// Tries all that hands out the queue's only message, on a server that cannot open it.
async fn hands_out_nothing(api: &Tenant, id: &str, status: u16, title: &str) {
    let by_id = [format!("{PATH}?ids={id}"), format!("{PATH}/{id}"), format!("{PATH}?echo=true")];
    for request in by_id.iter().map(|path| api.get(path)).chain([api.post("/v2/queues/q/claims", &json!({}))]) {
        let description = refused(request, status, title).await;
        assert!(description.contains(id), "{description}");
    }
    let description = refused(api.delete(&format!("{PATH}?pop=5")), status, title).await;
    assert!(description.contains(id), "{description}");
}

#[tokio::test]
async fn what_takes_another_key_is_refused_by_name_and_never_lost() {
    let api = encrypting().await;
    let ids = api.post_bodies("q", &[json!("hello")]).await;

    for key in ["", "another passphrase"] {
        let stranger = on_server_with(&api, key);
        hands_out_nothing(&stranger, &ids[0], 503, UNAVAILABLE).await;
        let log = stranger.stage.sukkal.log().join("\n");
        assert!(!log.contains("passphrase") && !log.contains("hello"), "{log}");
        let claim = api.claim(1).await;
        refused(stranger.get(&claim.path), 503, UNAVAILABLE).await;
        answered(api.delete(&claim.path), 204).await;
    }

    let found = answered(api.get(&format!("{PATH}/{}", ids[0])), 200).await.json();
    assert_eq!(found["body"], "hello", "it has not even moved");
}

#[tokio::test]
async fn a_claim_that_cannot_be_read_is_released() {
    let api = encrypting().await;
    let sent: Vec<Value> = (0..3).map(Value::from).collect();
    let ids = api.post_bodies("q", &sent).await;
    let stranger = on_server_with(&api, "");

    // The first that this process ever meets: it has had no reason to look before.
    for _ in ["unsuspecting", "wary"] {
        let description = refused(stranger.post("/v2/queues/q/claims", &json!({})), 503, UNAVAILABLE).await;
        assert!(description.contains(&ids[0]), "{description}");
    }

    assert_eq!(pick(&api.claim(3).await.messages, "body"), sent);
}

#[tokio::test]
async fn a_pop_that_cannot_read_puts_back() {
    let api = encrypting().await;
    let sent: Vec<Value> = (0..7).map(Value::from).collect();
    api.create("plain", &json!({})).await;
    let ids = api.post_bodies("q", &sent).await;
    let before = api.everything().await;
    let stranger = on_server_with(&api, "");

    // The first that this process ever meets: it has had no reason to look before.
    for _ in 0..2 {
        let description = refused(stranger.delete(&format!("{PATH}?pop=3")), 503, UNAVAILABLE).await;
        assert!(description.contains(&ids[0]), "{description}");
    }

    assert_eq!(bodies(&api).await, sent);
    assert_eq!(api.everything().await, before);
}

#[tokio::test]
async fn a_damaged_message_is_refused_by_name_and_never_lost() {
    let api = encrypting().await;
    let ids = api.post_bodies("q", &[json!("hello")]).await;
    damage(&api, "q", "0");

    let server = on_server_with(&api, KEY);
    hands_out_nothing(&server, &ids[0], 500, INTERNAL).await;

    let stats = answered(api.get("/v2/queues/q/stats"), 200).await.json();
    assert_eq!(stats["messages"]["total"], 1);
    answered(server.delete(&format!("{PATH}/{}", ids[0])), 204).await;
}

#[tokio::test]
async fn one_damaged_message_stops_nobody_before_it() {
    let api = encrypting().await;
    let ids = api.post_bodies("q", &(0..6).map(Value::from).collect::<Vec<_>>()).await;
    damage(&api, "q", "4");
    let server = on_server_with(&api, KEY);

    // A page ends before it, and its reader is told; then goes on behind it.
    let page = answered(server.get(&format!("{PATH}?echo=true")), 200).await.json();
    assert_eq!(pick(&page["messages"], "body"), [0, 1, 2, 3]);
    let next = text(&page["links"][0]["href"]).to_owned();
    let description = refused(server.get(&next), 500, INTERNAL).await;
    assert!(description.contains(&ids[4]), "{description}");
    let rest = answered(server.get(&format!("{PATH}?echo=true&marker={}", ids[4])), 200).await.json();
    assert_eq!(pick(&rest["messages"], "body"), [5]);

    assert_eq!(pick(&server.claim(2).await.messages, "body"), [0, 1]);
    let popped = answered(server.delete(&format!("{PATH}?pop=5")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "body"), [2, 3]);
    refused(server.post("/v2/queues/q/claims", &json!({})), 500, INTERNAL).await;
    answered(server.delete(&format!("{PATH}/{}", ids[4])), 204).await;
    assert_eq!(pick(&server.claim(5).await.messages, "body"), [5]);
}

#[tokio::test]
async fn a_pop_hands_out_what_it_can_and_puts_back_the_rest() {
    let api = encrypting().await;
    let ids = api.post_bodies("q", &(0..4).map(Value::from).collect::<Vec<_>>()).await;
    damage(&api, "q", "1");
    let server = on_server_with(&api, KEY);

    let popped = answered(server.delete(&format!("{PATH}?pop=3")), 200).await.json();

    assert_eq!(pick(&popped["messages"], "body"), [0, 2]);
    let stats = answered(api.get("/v2/queues/q/stats"), 200).await.json()["messages"].take();
    assert_eq!(stats["total"], 2);
    for (end, id) in [("oldest", &ids[1]), ("newest", &ids[3])] {
        assert!(text(&stats[end]["href"]).ends_with(id.as_str()), "{stats}");
    }
    let refusal = refused(server.delete(&format!("{PATH}?pop=3")), 500, INTERNAL).await;
    assert!(refusal.contains(&ids[1]), "{refusal}");
}
