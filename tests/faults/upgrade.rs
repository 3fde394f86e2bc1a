//! `sukkal upgrade`: processes of two releases share a Redis on the layout of the earlier one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use support::redis::{RedisServer, child_command};
use support::sukkal::{Api, Sukkal, binary};
use support::waiting::until;

const LAYOUT: &str = "sukkal:layout";
/// Length of the entry of a claimed message in layout 3, in bytes.
const ENTRY_BYTES: usize = 65;
/// Length of a claim of one message in layout 3 without its client, in bytes.
const CLAIM_BYTES: usize = 22 + ENTRY_BYTES;

/// A process of the release before damages data of layout 4.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_release_before_keeps_its_layout_until_it_is_upgraded() {
    let redis = RedisServer::start();
    redis.command(&["SET", LAYOUT, "3"]);
    let (sukkal, other) = (Sukkal::start(&redis.url()), Sukkal::start(&redis.url()));
    let api = sukkal.project("p");
    let before = claim_one(&api, "before").await;
    let (entry_bytes, claim_bytes) = sizes(&redis, "before");
    let client_bytes = claim_bytes - CLAIM_BYTES;
    assert_eq!(entry_bytes, ENTRY_BYTES);

    let upgrade = || finished(&["upgrade", "--store", &redis.url()]);
    assert_eq!(upgrade(), (Some(0), "the store is upgraded\n".to_owned()));
    assert_eq!(upgrade(), (Some(0), "the store has the layout of this release already\n".to_owned()));

    // Both processes notice it, and use what is stored in the form before.
    for (at, process) in [&sukkal, &other].into_iter().enumerate() {
        let queue = format!("after-{at}");
        until("the process writes the new layout", async || {
            let claim = claim_one(&process.project("p"), &queue).await;
            // The time of the first claim; a key instead of an entry.
            let is_new = sizes(&redis, &queue) == (ENTRY_BYTES + 6, CLAIM_BYTES + client_bytes + 12 - ENTRY_BYTES);
            let released = process.project("p").delete(&claim).send().await.unwrap();
            assert_eq!(released.status(), 204);
            is_new
        })
        .await;
    }
    let renewed = api.request(Method::PATCH, &before).json(&json!({"ttl": 300})).send().await.unwrap();
    assert_eq!(renewed.status(), 204);
    let held: Value = other.project("p").get(&before).send().await.unwrap().json().await.unwrap();
    let message = held["messages"][0]["href"].as_str().expect("the claim holds the message");
    assert_eq!(api.delete(message).send().await.unwrap().status(), 204);
    let checked = finished(&["check", "--store", &redis.url()]);
    assert_eq!(checked.0, Some(0), "{}", checked.1);
}

#[test]
fn a_store_is_not_upgraded_while_a_process_of_the_release_before_uses_it() {
    let redis = RedisServer::start();
    redis.command(&["SET", LAYOUT, "3"]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // All that such a process shows of itself.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                redis.command(&["PUBLISH", "sukkal:deliveries", " 0 019ab3a6-5c2e-714b-9d11-000000000003"]);
                thread::sleep(Duration::from_millis(200));
            }
        });

        let (code, said) = finished(&["upgrade", "--store", &redis.url()]);

        is_over.store(true, Ordering::Relaxed);
        assert!(code == Some(1) && said.contains("a process of an earlier release uses it"), "{code:?} {said}");
    });
    assert_eq!(redis.command(&["GET", LAYOUT]).as_text(), "3");
}

/// Runs a command to its end. Returns its exit code and what it printed.
fn finished(arguments: &[&str]) -> (Option<i32>, String) {
    let output = child_command(binary()).args(arguments).output().expect("the binary under test starts");
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).expect("text"))
}

/// Claims one message of a queue, and returns the path of the claim.
async fn claim_one(api: &Api, queue: &str) -> String {
    let posted = api.post(&format!("/v2/queues/{queue}/messages"), &json!({"messages": [{"body": 1}]}));
    assert_eq!(posted.send().await.unwrap().status(), 201);
    let claimed = api.post(&format!("/v2/queues/{queue}/claims?limit=1"), &json!({})).send().await.unwrap();
    assert_eq!(claimed.status(), 201);
    claimed.headers()["location"].to_str().unwrap().to_owned()
}

/// Returns the lengths of the first message in flight of a queue and of its first claim.
fn sizes(redis: &RedisServer, queue: &str) -> (usize, usize) {
    let key = |name: &str| format!("sukkal:{{p/{queue}}}:{name}");
    let entries = redis.command(&["ZRANGE", &key("in_flight"), "0", "0"]);
    // The longest value of a claim is not the number of its messages.
    let claims = redis.command(&["HVALS", &key("claims")]);
    let claim_bytes = claims.items().iter().map(|value| value.as_bytes().len()).max();
    (entries.items()[0].as_bytes().len(), claim_bytes.expect("there is a claim"))
}
