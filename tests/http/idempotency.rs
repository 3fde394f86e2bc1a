//! Extension (openapi.yaml, `postMessages`): a repeated post with the same `Idempotency-Key` gets
//! the first response.
//!
//! | promise | test |
//! |---|---|
//! | same ids and `Location`, nothing stored twice | `a_repeated_post_gets_the_first_response` |
//! | also after the messages were deleted or claimed | `a_repeated_post_does_not_restore_messages` |
//! | scope: client, queue and project | `a_key_is_scoped_to_client_queue_and_project` |
//! | other messages 422 | `a_key_for_another_request_is_refused` |
//! | the same messages in any form and over any transport | `the_same_messages_may_be_written_in_another_way` |
//! | posts of an earlier release | `a_post_of_an_earlier_release_can_be_repeated` |
//! | a key in quotes is the key without them | `a_key_in_quotes_equals_the_key_without_them` |
//! | 1 to 255 visible ASCII characters, else 400 | `a_malformed_key_is_refused_and_posts_nothing` |
//! | one key, else 400 | `two_keys_are_refused_and_post_nothing` |
//! | refused requests are not stored | `a_refused_request_does_not_use_up_its_key` |
//! | concurrent duplicates, through several processes | `concurrent_duplicates_are_stored_once` |
//! | a lost reply of the store | `faults::half_done::operations::a_killed_post_with_a_key_happens_once` |
//! | `idempotency_key_ttl` | `a_key_expires` |

use std::sync::Arc;

use futures::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Answer, INVALID_BODY, INVALID_REQUEST, MESSAGES, OTHER_CLIENT, Project, Server, answered, ids, new_movable_project,
    new_project, pick, refused,
};
use support::socket::Socket;
use support::sukkal::{Api, CLIENT};

fn batch() -> Value {
    json!({"messages": [{"body": "a", "ttl": 300}, {"body": "b"}]})
}

fn post(api: &Api, key: &str, document: &Value) -> RequestBuilder {
    api.post(MESSAGES, document).header("Idempotency-Key", key)
}

/// Returns the location and the document of a response to a post.
fn receipt(answer: &Answer) -> (String, Value) {
    (answer.header("location").expect("a post has a location").to_owned(), answer.json())
}

async fn posted(api: &Api, key: &str) -> (String, Value) {
    receipt(&answered(post(api, key, &batch()), 201).await)
}

#[tokio::test]
async fn a_repeated_post_gets_the_first_response() {
    let api = new_project();

    let first = posted(&api, "order-4711").await;
    api.post_bodies("q", &[json!("between")]).await;
    for _ in 0..3 {
        assert_eq!(posted(&api, "order-4711").await, first);
    }

    assert_eq!(api.feed("q", "").await, ["a", "b", "between"]);
    assert_eq!(api.stats("q").await["total"], 3);
    let found = answered(api.get(&first.0), 200).await.json();
    assert_eq!(pick(&found["messages"], "href"), *first.1["resources"].as_array().unwrap());
    let another = posted(&api, "order-4712").await;
    assert_ne!(another, first);
    assert_ne!(receipt(&answered(api.post(MESSAGES, &batch()), 201).await), another);
    assert_eq!(api.stats("q").await["total"], 7);
}

#[tokio::test]
async fn a_repeated_post_does_not_restore_messages() {
    let api = new_project();
    let first = posted(&api, "k").await;
    let posted_ids = ids(&first.1);

    answered(api.delete(&format!("{MESSAGES}/{}", posted_ids[0])), 204).await;
    let claim = api.claim(1).await;
    assert_eq!(posted(&api, "k").await, first);
    assert_eq!(api.feed("q", "").await, [""; 0]);
    assert_eq!(pick(&answered(api.get(&claim.path), 200).await.json()["messages"], "id"), [posted_ids[1].as_str()]);
    answered(api.request(Method::POST, "/v2/queues/q/purge"), 204).await;
    assert_eq!(posted(&api, "k").await, first);

    assert_eq!(api.stats("q").await["total"], 0);
}

#[tokio::test]
async fn a_post_of_delayed_messages_can_be_repeated() {
    let api = new_movable_project();
    api.create("q", &json!({"_default_message_delay": 100})).await;

    let first = posted(&api, "k").await;
    assert_eq!(posted(&api, "k").await, first);
    api.set_clock_ahead(101).await;
    assert_eq!(posted(&api, "k").await, first);

    assert_eq!(api.feed("q", "").await, ["a", "b"]);
}

#[tokio::test]
async fn a_key_is_scoped_to_client_queue_and_project() {
    let api = new_project();
    let first = posted(&api, "k").await;

    let strangers =
        [(new_project(), MESSAGES), (new_project(), MESSAGES)].map(|(stranger, path)| (stranger.client(CLIENT), path));
    let mut others = vec![(api.client(OTHER_CLIENT), MESSAGES), (api.client(CLIENT), "/v2/queues/other/messages")];
    others.extend(strangers);
    let mut seen = vec![first.clone()];
    for (caller, path) in others {
        let request = || caller.post(path, &batch()).header("Idempotency-Key", "k");
        let own = receipt(&answered(request(), 201).await);
        assert!(!seen.contains(&own), "{own:?}");
        assert_eq!(receipt(&answered(request(), 201).await), own);
        seen.push(own);
    }

    // Another spelling of the client id names the same client.
    assert_eq!(posted(&api.client(&CLIENT.replace('-', "").to_uppercase()), "k").await, first);
    assert_eq!((&api.stats("q").await["total"], &api.stats("other").await["total"]), (&json!(4), &json!(2)));
}

#[tokio::test]
async fn keys_are_compared_byte_for_byte() {
    let api = new_project();
    let long = "x".repeat(255);
    let keys = ["k", "K", "k\"", "k,k", "k;v=1", "!", "~", "%20", "../q", "{q}", &Uuid::new_v4().to_string(), &long];

    let mut seen = Vec::new();
    for key in keys {
        let own = posted(&api, key).await;
        assert!(!seen.contains(&own), "{key}");
        seen.push(own);
    }
    for (key, own) in keys.into_iter().zip(seen) {
        assert_eq!(posted(&api, key).await, own, "{key}");
    }

    assert_eq!(api.stats("q").await["total"], 2 * keys.len());
}

#[tokio::test]
async fn a_key_for_another_request_is_refused() {
    let api = new_project();
    let first = posted(&api, "k").await;
    let before = api.snapshot().await;

    for other in [
        json!({"messages": [{"body": "a", "ttl": 300}]}),
        json!({"messages": [{"body": "b"}, {"body": "a", "ttl": 300}]}),
        json!({"messages": [{"body": "a", "ttl": 301}, {"body": "b"}]}),
        json!({"messages": [{"body": "a", "ttl": 300}, {"body": "c"}]}),
        json!({"messages": [{"body": "a", "ttl": 300}, {"body": "b", "ttl": 300}]}),
        json!({"messages": [{"body": "a", "ttl": 300}, {"body": "b", "delay": 0}]}),
        json!({"messages": [{"body": "a", "ttl": 300}, {"body": "b", "tenant": "b"}]}),
        json!({"messages": [{"body": "a", "ttl": 300}, {"body": ["b"]}]}),
    ] {
        let description = refused(post(&api, "k", &other), 422, "Idempotency key reused").await;
        assert!(description.contains("a new key"), "{description}");
    }

    assert_eq!(api.snapshot().await, before);
    assert_eq!(posted(&api, "k").await, first);
}

#[tokio::test]
async fn the_same_messages_may_be_written_in_another_way() {
    const WRITTEN: [&str; 3] = [
        r#"{"messages":[{"ttl":300,"body":{"a":[1,{"c":"x","d":null}],"b":1.5}},{"body":"b"}]}"#,
        r#" { "messages" : [ {"body": {"b": 15e-1, "a": [1, {"d": null, "c": "\u0078"}]}, "ttl": 300, "other": 1},
            {"body": "b"}], "more": true } "#,
        r#"{"messages":[{"body":{"a":[1,{"c":"x","d":null}],"b":0,"b":1.5},"ttl":300},{"body":"b","body":"b"}]}"#,
    ];
    let api = new_project();

    let mut seen = Vec::new();
    for text in WRITTEN {
        let request = api.request(Method::POST, MESSAGES).header("Idempotency-Key", "k");
        let posted = answered(request.header("Content-Type", "application/json").body(text), 201).await;
        seen.push(ids(&posted.json()));
    }
    for (is_binary, text) in [(false, WRITTEN[0]), (true, WRITTEN[1])] {
        let mut body: Value = serde_json::from_str(text).unwrap();
        body["queue_name"] = "q".into();
        let mut socket = Socket::open(&api.server.sukkal.url("/v2/websocket"), &api.id).await.of_kind(is_binary);
        let headers = json!({"Client-ID": CLIENT, "X-Project-ID": api.id, "Idempotency-Key": "\"k\""});
        let (status, reply) = socket.ask_with("message_post", body, headers).await;
        assert_eq!(status, 201, "{reply}");
        seen.push(reply["message_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect());
    }

    assert_eq!(seen, vec![seen[0].clone(); 5]);
    assert_eq!(api.stats("q").await["total"], 2);
    let other = WRITTEN[0].replace("[1,", "[1.0,");
    let request = api.request(Method::POST, MESSAGES).header("Idempotency-Key", "k").body(other);
    refused(request, 422, "Idempotency key reused").await;
}

#[tokio::test]
async fn a_key_in_quotes_equals_the_key_without_them() {
    let api = new_project();

    let first = posted(&api, "order-4711").await;
    assert_eq!(posted(&api, "\"order-4711\"").await, first);
    let escaped = posted(&api, r#""a\"b""#).await;
    assert_eq!(posted(&api, r#"a"b"#).await, escaped);

    assert_eq!(api.stats("q").await["total"], 4);
}

/// It has stored a digest of 16 bytes, of the request as it was written.
#[tokio::test]
async fn a_post_of_an_earlier_release_can_be_repeated() {
    let api = new_project();
    let first = posted(&api, "k").await;
    let of_earlier_release = "local stored = redis.call('HGETALL', KEYS[1])
        return redis.call('HSET', KEYS[1], stored[1], string.rep('d', 16) .. string.sub(stored[2], 18))";
    let outcomes = format!("sukkal:{{{}/q}}:idempotency", api.id);
    api.server.redis.command(&["EVAL", of_earlier_release, "1", &outcomes]);

    assert_eq!(posted(&api, "k").await, first);
    assert_eq!(api.stats("q").await["total"], 2);
}

#[tokio::test]
async fn a_malformed_key_is_refused_and_posts_nothing() {
    let api = new_project();

    for key in ["", " ", "a b", "a\tb", "\"a", "\"\"", "\"a\";v=1", &"x".repeat(256), &"x".repeat(5000)] {
        let description = refused(post(&api, key, &batch()), 400, INVALID_REQUEST).await;
        assert!(description.contains("1 to 255"), "{description}");
    }
    let document = batch().to_string();
    let length = document.len();
    for key in [&b"caf\xc3\xa9"[..], b"\xff"] {
        let head = format!("{}Content-Length: {length}\r\nIdempotency-Key: ", api.head("POST", MESSAGES));
        let request = [head.as_bytes(), key, b"\r\n\r\n", document.as_bytes()].concat();
        api.send_raw(request).await.refusal(400, INVALID_REQUEST);
    }

    assert_eq!(api.snapshot().await, json!([]));
}

#[tokio::test]
async fn two_keys_are_refused_and_post_nothing() {
    let api = new_project();

    answered(post(&api, "first", &batch()).header("Idempotency-Key", "second"), 400).await;

    assert_eq!(api.snapshot().await, json!([]));
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_its_key() {
    let api = new_project();
    api.create("q", &json!({"_default_message_delay": 300, "_max_messages_post_size": 200})).await;

    for (document, title) in [
        (json!([]), INVALID_REQUEST),
        (json!({"messages": []}), INVALID_REQUEST),
        (json!({"messages": [{}]}), INVALID_BODY),
        (json!({"messages": [{"body": 1, "ttl": 1}]}), INVALID_REQUEST),
        (json!({"messages": [{"body": 1, "delay": "x"}]}), INVALID_BODY),
        (json!({"messages": [{"body": "x".repeat(200)}]}), INVALID_REQUEST),
    ] {
        refused(post(&api, "k", &document), 400, title).await;
    }
    let first = posted(&api, "k").await;

    assert_eq!(posted(&api, "k").await, first);
    assert_eq!(api.stats("q").await["total"], 2);
}

#[tokio::test]
async fn concurrent_duplicates_are_stored_once() {
    const AT_ONCE: usize = 16;
    let here = new_project();
    let there = Project::of(&Arc::new(Server::start(&[])), &here.id);

    for key in ["first, which makes the queue", "second", "third"].map(|key| key.replace([' ', ','], "-")) {
        let before = here.stats("q").await["total"].as_u64().unwrap();
        let posts = (0..AT_ONCE).map(|n| {
            let request = post(if n % 2 == 0 { &here } else { &there }, &key, &batch());
            tokio::spawn(async move { receipt(&answered(request, 201).await) })
        });
        let receipts: Vec<_> = join_all(posts).await.into_iter().map(Result::unwrap).collect();

        assert!(receipts.iter().all(|receipt| *receipt == receipts[0]), "{receipts:#?}");
        assert_eq!(here.stats("q").await["total"], before + 2, "{key}");
    }
}

#[tokio::test]
async fn a_key_expires() {
    let server = Arc::new(Server::start_movable(&[("SUKKAL_TRANSPORT__IDEMPOTENCY_KEY_TTL", "100")]));
    let api = Project::of(&server, &Uuid::new_v4().to_string());
    let first = posted(&api, "k").await;

    api.set_clock_ahead(50).await;
    assert_eq!(posted(&api, "k").await, first);
    // Repeating the post does not extend the life of the key.
    api.set_clock_ahead(101).await;
    assert_ne!(posted(&api, "k").await, first);
    assert_eq!(api.stats("q").await["total"], 4);
}
