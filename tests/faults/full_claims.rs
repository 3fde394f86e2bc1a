//! Redis becomes full while workers hold claims: they can finish their work, claims and delays end,
//! and dead letters wait.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::half_done::work::{CLAIMS, MESSAGES, QUEUE, QueueContents, batch, drain};
use super::stored::Stored;
use crate::http::{PATCH_TYPE, answered, feed};
use support::redis::{RedisServer, Reply};
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};
use support::waiting::block_until;

const PROJECT: &str = "half-done";
/// Longer than any claim and delay here.
const ALL_EXPIRED_US: &str = "1000000000";

fn fill(redis: &RedisServer) {
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
}

fn free_memory(redis: &RedisServer) {
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
}

/// Moves the queue's clock. In a full Redis this first needs a step that frees memory.
fn advance_clock(redis: &RedisServer) {
    let clock = format!("sukkal:{{{PROJECT}/work}}:clock");
    let script = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], ARGV[1])";
    let set = redis.command(&["EVAL", script, "1", &clock, ALL_EXPIRED_US]);
    assert_eq!(set, Reply::Status("OK".to_owned()));
}

fn claim(api: &Api, limit: usize) -> RequestBuilder {
    api.post(&format!("{CLAIMS}?limit={limit}"), &json!({ "ttl": 300, "grace": 60 }))
}

async fn names(api: &Api) -> Vec<Value> {
    feed(api, "work", "&limit=20").await
}

#[tokio::test]
async fn a_worker_can_finish_its_work_in_a_full_redis() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_without_janitor(&redis, &redis.url(), &[MOVABLE_CLOCK]);
    let api = sukkal.project(PROJECT);
    let contents = QueueContents::prepare(&api).await;
    let stored = Stored { redis: &redis, project: PROJECT };
    let own = format!("{CLAIMS}/{}", contents.claim);
    // With this limit, no message becomes a dead letter here.
    let patch = r#"[{"op": "replace", "path": "/metadata/_max_claim_count", "value": 5}]"#;
    let request = api.request(Method::PATCH, QUEUE).body(patch);
    answered(request.header("Content-Type", PATCH_TYPE), 200).await;
    fill(&redis);

    // Reading.
    answered(api.get(MESSAGES), 200).await;
    answered(api.get(&contents.message("free-0")), 200).await;
    answered(api.get(&own), 200).await;
    answered(api.get(&format!("{QUEUE}/stats")), 200).await;
    // Returning one message, and claiming it again.
    answered(api.delete(&contents.held("held-0")), 204).await;
    answered(api.delete(&format!("{}?delay=60", contents.held("held-1"))), 204).await;
    stored.assert_consistent();
    assert_eq!(names(&api).await, ["tried-0", "tried-1", "tried-2", "held-0", "free-0", "free-1", "free-2"]);
    answered(claim(&api, 4), 201).await;
    assert_eq!(names(&api).await, ["free-0", "free-1", "free-2"]);
    // Renewing, deleting with a claim, releasing.
    let renewal = api.request(Method::PATCH, &own).header("Content-Type", "application/json");
    answered(renewal.body(r#"{"ttl": 600, "grace": 60}"#), 204).await;
    let claimed = answered(api.get(&own), 200).await.json();
    assert_eq!((&claimed["ttl"], claimed["messages"].as_array().unwrap().len()), (&json!(600), 1));
    let acknowledged = api.delete(&format!("{}?claim_id={}", contents.message("held-2"), contents.claim));
    answered(acknowledged, 204).await;
    answered(api.get(&contents.message("held-2")), 404).await;
    answered(api.delete(&own), 204).await;
    answered(api.get(&own), 404).await;
    stored.assert_consistent();
    // Deleting and popping.
    answered(api.delete(&contents.message("free-0")), 204).await;
    answered(api.delete(&format!("{MESSAGES}?ids={}", contents.id("free-1"))), 204).await;
    answered(api.delete(&format!("{MESSAGES}?pop=1")), 200).await;
    assert_eq!(names(&api).await, [""; 0]);
    stored.assert_consistent();
    answered(api.post(MESSAGES, &batch(&["new"], 0)), 503).await;
    // Deleting all messages.
    answered(api.request(Method::POST, &format!("{QUEUE}/purge")), 204).await;
    answered(api.delete(QUEUE), 204).await;
    stored.assert_no_queue_left();
}

#[tokio::test]
async fn a_release_in_a_full_redis_returns_all_messages_of_the_claim() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_without_janitor(&redis, &redis.url(), &[MOVABLE_CLOCK]);
    let api = sukkal.project(PROJECT);
    let contents = QueueContents::prepare(&api).await;
    fill(&redis);

    answered(api.delete(&format!("{CLAIMS}/{}", contents.claim)), 204).await;

    let free = names(&api).await;
    assert_eq!(free[3..6], ["held-0", "held-1", "held-2"]);
    Stored { redis: &redis, project: PROJECT }.assert_consistent();
}

#[tokio::test]
async fn claims_and_delays_end_in_a_full_redis() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_without_janitor(&redis, &redis.url(), &[MOVABLE_CLOCK]);
    let api = sukkal.project(PROJECT);
    QueueContents::prepare(&api).await;
    fill(&redis);

    advance_clock(&redis);

    let all = [
        "tried-0",
        "tried-1",
        "tried-2",
        "held-0",
        "held-1",
        "held-2",
        "later-0",
        "free-0",
        "free-1",
        "free-2",
        "delayed-0",
        "delayed-1",
    ];
    assert_eq!(names(&api).await, all);
    Stored { redis: &redis, project: PROJECT }.assert_consistent();
}

#[tokio::test]
async fn dead_letters_wait_while_redis_is_full_and_arrive_once_afterwards() {
    for target_exists in [false, true] {
        let redis = RedisServer::start();
        let mut sukkal = Sukkal::start_without_janitor(&redis, &redis.url(), &[MOVABLE_CLOCK]);
        let api = sukkal.project(PROJECT);
        QueueContents::prepare(&api).await;
        if target_exists {
            answered(api.put("/v2/queues/dead"), 201).await;
        }
        let stored = Stored { redis: &redis, project: PROJECT };
        fill(&redis);

        // The dead letters leave the queue and do not block other requests, and a pop finds the
        // messages behind them.
        let claimed = answered(claim(&api, 4), 201).await.json();
        assert_eq!(claimed["messages"][0]["body"], "free-0");
        advance_clock(&redis);
        answered(api.delete(&format!("{MESSAGES}?pop=4")), 200).await;
        assert_eq!(stored.outbox_length("work"), 8);
        stored.assert_consistent();
        // Neither deleting their queue nor the janitor loses them.
        answered(api.delete(QUEUE), 204).await;
        assert_eq!(stored.outbox_length("work"), 8);
        sukkal.kill();
        let sukkal = Sukkal::start_with(
            &redis.url(),
            &[MOVABLE_CLOCK, ("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")],
        );
        sukkal.logged("cannot forward dead letters of a deleted queue").await;
        assert_eq!(stored.outbox_length("work"), 8);
        assert!(stored.registered().contains("work"), "the janitor cannot find them any more");
        free_memory(&redis);

        block_until("they have arrived", || stored.outbox_length("work") == 0);
        let dead_letters = drain(&sukkal.project(PROJECT), "dead").await;
        assert_eq!(dead_letters, ["tried-0", "tried-1", "tried-2", "held-0", "held-1", "held-2", "later-0", "free-0"]);
        block_until("the name is unregistered", || !stored.registered().contains("work"));
    }
}
