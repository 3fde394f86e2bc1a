//! Deliveries of a queue that encrypts its messages.

use serde_json::json;

use super::endpoint::Endpoint;
use super::{Bench, failing_first, id};
use support::redis::child_command;
use support::sukkal::MOVABLE_CLOCK;

const KEY: &str = "SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY";
const MARK: &str = "a text that no other value contains";
/// A policy whose first retry comes long after the message, unless the clock of the queue is moved
/// by
/// [`LATE_S`].
const LATE: &str = r#"{"retries_with_no_delay": 0, "minimum_delay": 60, "maximum_delay": 70}"#;
const LATE_S: i64 = 100;

/// Lua script that counts the values of a hash, and those that contain a text.
const COUNT: &str = "
    local found = 0
    local values = redis.call('HVALS', KEYS[1])
    for _, value in ipairs(values) do
      found = found + (string.find(value, ARGV[1], 1, true) and 1 or 0)
    end
    return {#values, found}";

/// Returns a server with a key, over Redis, with the encrypting queue `q`.
async fn with_key(key: &str) -> Bench {
    let bench = Bench::redis_with(&[(KEY, key)]);
    let encrypts = json!({"_enable_encrypt_messages": true});
    assert_eq!(bench.api.put("/v2/queues/q").json(&encrypts).send().await.unwrap().status(), 201);
    bench
}

/// Returns the number of retries that Redis has, and the number of those that contain the text.
fn stored_retries(bench: &Bench, text: &str) -> (i64, i64) {
    let redis = bench.redis.as_ref().unwrap();
    let counts = redis.command(&["EVAL", COUNT, "1", "sukkal:{p/q}:retries", text]);
    (counts.items()[0].as_int(), counts.items()[1].as_int())
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_sealed_in_retries_and_open_in_notifications() {
    let bench = with_key("one").await;
    let endpoint = failing_first(vec![500]);
    let policy: serde_json::Value = serde_json::from_str(LATE).unwrap();
    let options = json!({"_retry_policy": policy, "match": {"kind": "a"}});
    let created = bench.subscribe(&endpoint.url("/"), options).await;

    bench.post(&[json!({"kind": "b"}), json!({"kind": "a", "text": MARK})]).await;

    bench.wait_until(&id(&created), |figures| figures["retrying"] == 1).await;
    assert_eq!(stored_retries(&bench, MARK), (1, 0));
    bench.set_clock_ahead(&id(&created), LATE_S).await;
    let body = json!({"kind": "a", "text": MARK});
    assert_eq!(endpoint.bodies(2).await, [body.clone(), body]);
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 1 && figures["retrying"] == 0).await;
    assert_eq!(stored_retries(&bench, ""), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_encrypted_anew_with_the_messages() {
    let mut bench = with_key("one").await;
    let endpoint = failing_first(vec![500]);
    let policy: serde_json::Value = serde_json::from_str(LATE).unwrap();
    let created = bench.subscribe(&endpoint.url("/"), json!({"_retry_policy": policy})).await;
    bench.post(&[json!("a")]).await;
    bench.wait_until(&id(&created), |figures| figures["retrying"] == 1).await;

    let store = bench.redis.as_ref().unwrap().url();
    let mut rekey = child_command(support::sukkal::binary());
    rekey.args(["rekey", "--store", &store]).envs([
        MOVABLE_CLOCK,
        (KEY, "two"),
        ("SUKKAL_TRANSPORT__MESSAGE_DECRYPTION_KEYS", "one"),
    ]);
    let output = rekey.output().unwrap();
    bench.restart(&[(KEY, "two")]).await;

    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("queues: 1, encrypted messages: 2, encrypted anew: 2\n"), "{output:?}");
    assert_eq!(output.status.code(), Some(0));
    bench.set_clock_ahead(&id(&created), LATE_S).await;
    assert_eq!(endpoint.bodies(2).await, ["a", "a"].map(|body| json!(body)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_another_key_pauses_the_subscription_and_skips_nothing() {
    let mut bench = with_key("one").await;
    let endpoint = failing_first(vec![500]);
    let policy: serde_json::Value = serde_json::from_str(LATE).unwrap();
    let created = bench.subscribe(&endpoint.url("/"), json!({"_retry_policy": policy, "ordered": true})).await;
    let new_endpoint = Endpoint::start();
    let new = bench.subscribe(&new_endpoint.url("/"), json!({})).await;
    let subscriptions = [id(&created), id(&new)];
    bench.act(&subscriptions[1], "pause", &json!({})).await;
    bench.post(&[json!(0)]).await;
    bench.wait_until(&subscriptions[0], |figures| figures["retrying"] == 1).await;
    bench.act(&subscriptions[0], "pause", &json!({})).await;
    bench.post(&[json!(1), json!(2)]).await;

    // One subscription begins with a retry, and the other one with a message of the feed.
    bench.restart(&[(KEY, "two")]).await;
    bench.set_clock_ahead(&subscriptions[0], LATE_S).await;
    for id in &subscriptions {
        bench.act(id, "resume", &json!({})).await;
        let figures = bench.wait_until(id, |figures| figures["state"] == "paused").await;
        let reason = figures["reason"].as_str().unwrap();
        assert!(reason.contains("is encrypted with another key than this server's"), "{reason}");
        assert_eq!(
            (&figures["missed"], &figures["given_up"], &figures["delivered"]),
            (&json!(0), &json!(0), &json!(0))
        );
    }
    assert_eq!((endpoint.received().len(), new_endpoint.received().len()), (1, 0));

    bench.restart(&[(KEY, "one")]).await;
    for id in &subscriptions {
        bench.act(id, "resume", &json!({})).await;
        let figures = bench.wait_until(id, |figures| figures["delivered"] == 3).await;
        assert_eq!((&figures["missed"], &figures["given_up"], &figures["retrying"]), (&json!(0), &json!(0), &json!(0)));
    }
    assert_eq!(endpoint.bodies(4).await, [0, 0, 1, 2].map(|number| json!(number)));
    let mut bodies = new_endpoint.bodies(3).await;
    bodies.sort_by_key(serde_json::Value::as_u64);
    assert_eq!(bodies, [0, 1, 2].map(|number| json!(number)));
}
