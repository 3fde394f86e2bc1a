//! `Durability: fsync` over Redis with each setting, and over an embedded store.

use serde_json::json;

use super::{LONG, QUEUE, SHORT, assert_reached, assert_unknown, bodies, create_queue, post};
use crate::http::{PATCH_TYPE, answered};
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};
use support::waiting::until;

const FSYNC: (&str, &str) = ("Durability", "fsync");
const AOF: (&str, &str) = ("appendonly", "yes");

/// Posts to a queue that does not exist, which is refused and does not create it.
async fn assert_refused(api: &Api, level: &str, reason: &str) {
    let answer = post(api, "refused", &[("Durability", level)]).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.text.contains(reason), "{answer:?}");
    assert_eq!(bodies(api).await, [""; 0]);
    let queues = answered(api.get("/v2/queues"), 200).await.json();
    assert_eq!(queues["queues"], json!([]), "a refused post creates no queue");
}

/// Sets the level in the metadata of a new queue and of one that exists, which is refused and
/// changes nothing.
async fn assert_not_settable(api: &Api, level: &str, reason: &str) {
    let assert_refused = async |request: reqwest::RequestBuilder| {
        let text = answered(request, 400).await.text;
        assert!(text.contains("No post can reach _durability.") && text.contains(reason), "{text}");
    };
    let patch = json!([{ "op": "add", "path": "/metadata/_durability", "value": level }]).to_string();

    assert_refused(api.put("/v2/queues/new").json(&json!({ "_durability": level }))).await;
    answered(api.put("/v2/queues/old"), 201).await;
    let patched = api.request(reqwest::Method::PATCH, "/v2/queues/old").body(patch);
    assert_refused(patched.header("Content-Type", PATCH_TYPE)).await;

    let queues = answered(api.get("/v2/queues"), 200).await.json();
    assert_eq!(queues["queues"].as_array().map(Vec::len), Some(1), "{queues}");
    let old = answered(api.get("/v2/queues/old"), 200).await.json();
    assert_eq!(old.get("_durability"), None);
    answered(api.delete("/v2/queues/old"), 204).await;
}

#[tokio::test]
async fn redis_7_confirms_a_sync_only_if_it_syncs_every_write() {
    let redis = RedisServer::start_with(&[AOF, ("appendfsync", "always")]);
    let sukkal = Sukkal::start_with(&redis.url(), &[LONG]);
    let api = create_queue(&sukkal, json!({})).await;
    assert_reached(&post(&api, "synced", &[FSYNC]).await, "fsync");

    redis.command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    // The message is written before the new setting is found.
    assert_unknown(&post(&api, "unknown", &[FSYNC]).await);
    let refused = post(&api, "refused", &[FSYNC]).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(bodies(&api).await, ["synced", "unknown"]);
    api.delete(QUEUE).send().await.unwrap();
    assert_refused(&api, "fsync", "appendonly yes").await;
}

#[tokio::test]
async fn redis_without_a_log_cannot_confirm_a_sync() {
    for redis in [RedisServer::start(), RedisServer::start_redis_8_with(&[])] {
        let sukkal = Sukkal::start_with(&redis.url(), &[LONG]);
        assert_refused(&sukkal.project("p"), "fsync", "appendonly yes").await;
        assert_refused(&sukkal.project("p"), "fsync, replicas=1", "appendonly yes").await;
    }
}

#[tokio::test]
async fn redis_8_confirms_the_sync_that_it_does_every_second() {
    let redis = RedisServer::start_redis_8_with(&[AOF, ("appendfsync", "everysec")]);
    // Longer than the time between two syncs.
    let two_seconds = (SHORT.0, "2");
    let [patient, impatient] = [LONG, two_seconds].map(|wait| Sukkal::start_with(&redis.url(), &[wait]));
    let api = create_queue(&patient, json!({})).await;
    assert_reached(&post(&api, "synced", &[FSYNC]).await, "fsync");
    let key = ("Idempotency-Key", "order-4711");
    assert_reached(&post(&api, "order", &[FSYNC, key]).await, "fsync");
    let hasty = impatient.project("p");
    until("a short wait is enough", async || post(&hasty, "order", &[FSYNC, key]).await.status == 201).await;

    // Redis no longer syncs, so the wait ends without a sync. Then the new setting is found.
    redis.command(&["CONFIG", "SET", "appendfsync", "no"]);
    assert_unknown(&post(&hasty, "order", &[FSYNC, key]).await);
    let refused = post(&hasty, "refused", &[FSYNC]).await;
    assert_eq!(refused.status, 400, "{refused:?}");

    redis.command(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_reached(&post(&api, "order", &[FSYNC, key]).await, "fsync");
    redis.restart();
    assert_eq!(bodies(&api).await, ["synced", "order"]);
}

#[tokio::test]
async fn an_embedded_store_confirms_a_sync_if_it_syncs_every_write_and_has_no_replicas() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    {
        let sukkal = Sukkal::start(&store);
        assert_refused(&sukkal.project("p"), "replicas=1", "an embedded store has no replicas").await;
        assert_not_settable(&sukkal.project("p"), "replicas=1", "an embedded store has no replicas").await;
        let api = create_queue(&sukkal, json!({ "_durability": "fsync" })).await;
        assert_reached(&post(&api, "synced", &[]).await, "fsync");
    }
    let sukkal = Sukkal::start(&store);
    assert_eq!(bodies(&sukkal.project("p")).await, ["synced"]);
    drop(sukkal);

    for fsync in ["interval", "off"] {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("embedded:{}", folder.path().display());
        let sukkal = Sukkal::start_with(&store, &[("SUKKAL_EMBEDDED__FSYNC", fsync)]);
        assert_refused(&sukkal.project("p"), "fsync", "embedded.fsync must be group").await;
        assert_not_settable(&sukkal.project("p"), "fsync", "embedded.fsync must be group").await;
    }
    let sukkal = Sukkal::start("memory:");
    assert_refused(&sukkal.project("p"), "fsync", "needs a file").await;
}
