//! Redis is full while workers are at work: they finish it, claims and delays end, and dead letters wait.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::half_done::NO_JANITOR;
use super::half_done::work::{CLAIMS, MESSAGES, QUEUE, World, batch, drain};
use super::lost_replies::feed;
use super::stored::Stored;
use crate::support::redis::{RedisServer, Reply, poll_until};
use crate::support::sukkal::{Api, Sukkal};

const PROJECT: &str = "half-done";
/// Longer than any claim and delay here.
const ALL_IS_OVER_US: &str = "1000000000";

fn fill(redis: &RedisServer) {
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
}

fn make_room(redis: &RedisServer) {
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
}

/// Moves the queue's clock; in a full Redis that takes a step that frees first.
fn pass_time(redis: &RedisServer) {
    let clock = format!("sukkal:{{{PROJECT}/work}}:clock");
    let script = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], ARGV[1])";
    let set = redis.command(&["EVAL", script, "1", &clock, ALL_IS_OVER_US]);
    assert_eq!(set, Reply::Status("OK".to_owned()));
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

fn claim(api: &Api, limit: usize) -> RequestBuilder {
    api.post(&format!("{CLAIMS}?limit={limit}"), &json!({ "ttl": 300, "grace": 60 }))
}

async fn names(api: &Api) -> Vec<String> {
    let feed = feed(api, MESSAGES).await;
    feed.into_iter().map(|(_, body)| body.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_worker_can_do_all_its_work_in_a_full_redis() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[NO_JANITOR]);
    let api = sukkal.project(PROJECT);
    let world = World::prepare(&api).await;
    let stored = Stored { redis: &redis, project: PROJECT };
    let own = format!("{CLAIMS}/{}", world.claim);
    // None of them is tried too often here, so that none becomes a dead letter.
    let patch = r#"[{"op": "replace", "path": "/metadata/_max_claim_count", "value": 5}]"#;
    let request = api.request(Method::PATCH, QUEUE).body(patch);
    let media = "application/openstack-messaging-v2.0-json-patch";
    assert_eq!(status(request.header("Content-Type", media)).await, 200);
    fill(&redis);

    // Reading.
    assert_eq!(status(api.get(MESSAGES)).await, 200);
    assert_eq!(status(api.get(&world.message("free-0"))).await, 200);
    assert_eq!(status(api.get(&own)).await, 200);
    assert_eq!(status(api.get(&format!("{QUEUE}/stats"))).await, 200);
    // Giving back one message, and what another claim gets then.
    assert_eq!(status(api.delete(&world.held("held-0"))).await, 204);
    assert_eq!(status(api.delete(&format!("{}?delay=60", world.held("held-1")))).await, 204);
    stored.all_fits_together();
    assert_eq!(names(&api).await, ["tried-0", "tried-1", "tried-2", "held-0", "free-0", "free-1", "free-2"]);
    assert_eq!(status(claim(&api, 4)).await, 201);
    assert_eq!(names(&api).await, ["free-0", "free-1", "free-2"]);
    // Renewing, acknowledging, releasing.
    let renewal = api.request(Method::PATCH, &own).header("Content-Type", "application/json");
    assert_eq!(status(renewal.body(r#"{"ttl": 600, "grace": 60}"#)).await, 204);
    let claimed: Value = api.get(&own).send().await.unwrap().json().await.unwrap();
    assert_eq!((&claimed["ttl"], claimed["messages"].as_array().unwrap().len()), (&json!(600), 1));
    let acknowledged = api.delete(&format!("{}?claim_id={}", world.message("held-2"), world.claim));
    assert_eq!(status(acknowledged).await, 204);
    assert_eq!(status(api.get(&world.message("held-2"))).await, 404);
    assert_eq!(status(api.delete(&own)).await, 204);
    assert_eq!(status(api.get(&own)).await, 404);
    stored.all_fits_together();
    // Deleting and popping.
    assert_eq!(status(api.delete(&world.message("free-0"))).await, 204);
    assert_eq!(status(api.delete(&format!("{MESSAGES}?ids={}", world.id("free-1")))).await, 204);
    assert_eq!(status(api.delete(&format!("{MESSAGES}?pop=1"))).await, 200);
    assert_eq!(names(&api).await, Vec::<String>::new());
    stored.all_fits_together();
    assert_eq!(status(api.post(MESSAGES, &batch(&["new"], 0))).await, 503);
    // All at once.
    assert_eq!(status(api.request(Method::POST, &format!("{QUEUE}/purge"))).await, 204);
    assert_eq!(status(api.delete(QUEUE)).await, 204);
    stored.no_queue_is_left();
}

#[tokio::test]
async fn a_claim_is_released_with_all_it_holds_in_a_full_redis() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[NO_JANITOR]);
    let api = sukkal.project(PROJECT);
    let world = World::prepare(&api).await;
    fill(&redis);

    assert_eq!(status(api.delete(&format!("{CLAIMS}/{}", world.claim))).await, 204);

    let free = names(&api).await;
    assert_eq!(free[3..6], ["held-0", "held-1", "held-2"]);
    Stored { redis: &redis, project: PROJECT }.all_fits_together();
}

#[tokio::test]
async fn claims_and_delays_end_in_a_full_redis() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[NO_JANITOR]);
    let api = sukkal.project(PROJECT);
    World::prepare(&api).await;
    fill(&redis);

    pass_time(&redis);

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
    Stored { redis: &redis, project: PROJECT }.all_fits_together();
}

#[tokio::test]
async fn dead_letters_wait_while_redis_is_full_and_arrive_once_when_there_is_room() {
    for target_exists in [false, true] {
        let redis = RedisServer::start();
        let mut sukkal = Sukkal::start_with(&redis.url(), &[NO_JANITOR]);
        let api = sukkal.project(PROJECT);
        World::prepare(&api).await;
        if target_exists {
            assert_eq!(status(api.put("/v2/queues/dead")).await, 201);
        }
        let stored = Stored { redis: &redis, project: PROJECT };
        fill(&redis);

        // They leave the queue, nobody waits for them, and a pop finds those behind them.
        let claimed = claim(&api, 4).send().await.unwrap();
        assert_eq!(claimed.status(), 201);
        let claimed: Value = claimed.json().await.unwrap();
        assert_eq!(claimed["messages"][0]["body"], "free-0");
        pass_time(&redis);
        assert_eq!(status(api.delete(&format!("{MESSAGES}?pop=4"))).await, 200);
        assert_eq!(stored.letters_waiting("work"), 7);
        stored.all_fits_together();
        // Nor are they lost with their queue, nor by the janitor.
        assert_eq!(status(api.delete(QUEUE)).await, 204);
        assert_eq!(stored.letters_waiting("work"), 7);
        sukkal.kill();
        let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")]);
        poll_until("the janitor has tried", || {
            sukkal.log().iter().any(|line| line.contains("dead letters of a deleted queue wait"))
        });
        assert_eq!(stored.letters_waiting("work"), 7);
        assert!(stored.registered().contains("work"), "the janitor cannot find them any more");
        make_room(&redis);

        poll_until("they have arrived", || stored.letters_waiting("work") == 0);
        let letters = drain(&sukkal.project(PROJECT), "dead").await;
        assert_eq!(letters, ["tried-0", "tried-1", "tried-2", "held-0", "held-1", "held-2", "later-0"]);
        poll_until("the name is free", || !stored.registered().contains("work"));
    }
}
