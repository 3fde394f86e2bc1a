//! Redis is full: operations that free memory work, and operations that need memory are refused.
//! The operator is informed.

use std::time::Duration;

use serde_json::json;
use sukkal_storage::{Maintenance, Schedule};

use super::requests::{self, DELETES, READS, Requests, WRITES, all_done, all_refused};
use super::stored::Stored;
use crate::http::{answered, ids};
use support::exposition::Exposition;
use support::redis::RedisServer;
use support::sukkal::{MOVABLE_CLOCK, Sukkal};
use support::test_bed::{open_movable, queue_id, set_clock};
use support::waiting::block_until;

const MANY: usize = 64;
const MEGABYTE: i64 = 1 << 20;

#[tokio::test]
async fn a_full_redis_accepts_reads_and_deletions_and_refuses_writes() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::prepare(&sukkal).await;

    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    all_done(&requests.send(&READS, MANY).await);
    let refused = requests.send(&WRITES, MANY).await;
    all_refused(&refused);
    for answer in refused {
        assert!(answer.body.contains("The memory of the message store is full."), "{answer:?}");
    }
    // Workers can still empty the queue.
    assert_eq!(support::plain_http::get(sukkal.url("/readyz")).await.unwrap().status(), 204);
    assert_eq!(Exposition::of(&sukkal.url("")).await.value("sukkal_store_disk_full"), Some(0.0));
    all_done(&requests.send(&DELETES, MANY).await);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);

    requests.all_work_again(&requests::all()).await;
}

#[tokio::test]
async fn deleting_frees_memory_for_posts() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let api = sukkal.project("full");
    let requests = Requests::prepare(&sukkal).await;
    let big = json!({ "messages": [{ "body": "x".repeat(100_000) }] });
    let limit = used_memory(&redis) + 8 * MEGABYTE;
    redis.command(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);

    let mut posted = Vec::new();
    loop {
        let response = api.post("/v2/queues/hoard/messages", &big).send().await.unwrap();
        if response.status() == 503 {
            break;
        }
        assert_eq!(response.status(), 201);
        posted.extend(ids(&response.json().await.unwrap()));
        assert!(posted.len() < 1000, "Redis is never full");
    }
    let half = &posted[..posted.len() / 2];
    for ids in half.chunks(20) {
        let path = format!("/v2/queues/hoard/messages?ids={}", ids.join(","));
        answered(api.delete(&path), 204).await;
    }

    requests.all_work_again(&WRITES).await;
    answered(api.post("/v2/queues/hoard/messages", &big), 201).await;
    let left = i64::try_from(posted.len() - half.len() + 1).unwrap();
    assert_eq!(Stored { redis: &redis, project: "full" }.messages("hoard"), left);
}

#[tokio::test]
async fn reading_reclaims_expired_messages_in_a_full_redis() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_without_janitor(&redis, &redis.url(), &[MOVABLE_CLOCK]);
    let api = sukkal.project("full");
    let batch = json!({ "messages": vec![json!({ "ttl": 60, "body": "short-lived" }); 1000] });
    answered(api.post("/v2/queues/q/messages", &batch), 201).await;
    set_clock(&open_movable(&redis.url()), &queue_id("full", "q"), 62_000_000).await;

    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let page = answered(api.get("/v2/queues/q/messages?echo=true"), 200).await.json();

    assert_eq!(page["messages"], json!([]));
    assert_eq!(Stored { redis: &redis, project: "full" }.messages("q"), 0);
}

/// Queues with due changes that free no memory; and a fair queue, which records the turn.
#[tokio::test]
async fn a_full_redis_serves_workers() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_without_janitor(&redis, &redis.url(), &[MOVABLE_CLOCK]);
    let api = sukkal.project("full");
    let store = open_movable(&redis.url());
    let queue = |name: &str| queue_id("full", name);
    let batch = json!({ "messages": [{ "ttl": 60, "body": 1 }] });
    let post = async |queue: &str, batch: &serde_json::Value| {
        answered(api.post(&format!("/v2/queues/{queue}/messages"), batch), 201).await;
    };
    post("claimed", &batch).await;
    let claim = api.post("/v2/queues/claimed/claims", &json!({ "ttl": 300, "grace": 300 })).send().await.unwrap();
    let claim: serde_json::Value = claim.json().await.unwrap();
    let delaying = json!({ "_default_message_delay": 600 });
    answered(api.put("/v2/queues/delayed").json(&delaying), 201).await;
    post("delayed", &json!({ "messages": [{ "ttl": 60, "body": 1, "delay": 0 }, { "ttl": 900, "body": 2 }] })).await;
    answered(api.put("/v2/queues/fair").json(&json!({ "_shards": 8 })), 201).await;
    post("fair", &json!({ "messages": [{ "body": 1 }, { "body": 2 }, { "body": 3 }] })).await;
    for due in ["claimed", "delayed"] {
        set_clock(&store, &queue(due), 62_000_000).await;
    }
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);

    let href = claim["messages"][0]["href"].as_str().unwrap();
    answered(api.delete(href), 204).await;
    let listed = api.get("/v2/queues/delayed/messages?echo=true").send().await.unwrap();
    assert_eq!(listed.json::<serde_json::Value>().await.unwrap()["messages"], json!([]));
    answered(api.delete("/v2/queues/fair/messages?pop=1"), 200).await;
}

#[tokio::test]
async fn a_full_redis_does_not_stop_the_janitor() {
    let redis = RedisServer::start();
    let store = open_movable(&redis.url());
    let sukkal = Sukkal::start_without_janitor(&redis, &redis.url(), &[MOVABLE_CLOCK]);
    let api = sukkal.project("full");
    // Entries in front of the queues to reclaim: a name whose queue was never created, a queue
    // whose index cannot be read, and one with so many deleted messages that their expirations are
    // to be removed.
    redis.command(&["ZADD", "sukkal:{full}:queues", "0", "a-ghost\x001"]);
    answered(api.put("/v2/queues/b-broken"), 201).await;
    redis.command(&["SET", "sukkal:{full/b-broken}:expirations", "no sorted set"]);
    let batch = |count: usize| json!({ "messages": vec![json!({ "ttl": 60, "body": 1 }); count] });
    for queue in ["c-deleted", "d-expired"] {
        for _ in 0..6 {
            answered(api.post(&format!("/v2/queues/{queue}/messages"), &batch(1_000)), 201).await;
        }
    }
    redis.command(&["UNLINK", "sukkal:{full/c-deleted}:messages", "sukkal:{full/c-deleted}:ready"]);
    set_clock(&store, &queue_id("full", "d-expired"), 62_000_000).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);

    let at_once = Schedule { pause: Duration::ZERO, walk: Duration::ZERO };
    store.maintain(&at_once).await.unwrap();

    let stored = Stored { redis: &redis, project: "full" };
    assert_eq!(stored.messages("d-expired"), 0);
    assert!(!stored.registered().contains("a-ghost"));
}

#[tokio::test]
async fn an_eviction_policy_is_reported_at_the_start() {
    let evicts = RedisServer::start_with(&[("maxmemory-policy", "allkeys-lru")]);

    let sukkal = Sukkal::start(&evicts.url());

    assert!(sukkal.logged("allkeys-lru").await[0].contains("WARN"));
}

#[tokio::test]
async fn a_redis_without_an_append_only_file_is_reported_at_the_start() {
    let warning = "Redis keeps no append-only file";
    for (appendonly, is_reported) in [("no", true), ("yes", false)] {
        // The other warning shows that the settings have been read.
        let redis = RedisServer::start_with(&[("appendonly", appendonly), ("maxmemory-policy", "allkeys-lru")]);
        let sukkal = Sukkal::start(&redis.url());
        sukkal.logged("Redis evicts keys").await;
        if is_reported {
            sukkal.logged(warning).await;
        }
        assert_eq!(sukkal.log().concat().contains(warning), is_reported);
    }
}

#[tokio::test]
async fn an_eviction_policy_is_reported_when_redis_comes_late() {
    let evicts = RedisServer::start_with(&[("maxmemory-policy", "volatile-ttl")]);
    evicts.kill();

    let sukkal = Sukkal::start(&evicts.url());
    answered(sukkal.project("p").get("/v2/ping"), 503).await;
    evicts.restart();

    assert!(sukkal.logged("volatile-ttl").await[0].contains("WARN"));
}

#[tokio::test]
async fn without_eviction_nothing_is_reported() {
    let redis = RedisServer::start_with(&[("appendonly", "yes")]);
    let mut sukkal = Sukkal::start(&redis.url());
    block_until("it has asked", || redis.command(&["INFO", "commandstats"]).as_text().contains("cmdstat_zrangebylex"));

    sukkal.terminate();
    sukkal.wait();

    // On a busy machine, a connection may not answer in time.
    let is_unexpected = |line: &String| line.contains("WARN") && !line.contains("does not answer and is replaced");
    assert!(!sukkal.log().iter().any(is_unexpected), "{:#?}", sukkal.log());
}

#[tokio::test]
async fn no_secret_is_shown() {
    const SECRET: &str = "open-sesame";
    let redis = RedisServer::start();
    redis.command(&["ACL", "SETUSER", "ali", "on", &format!(">{SECRET}"), "~*", "&*", "+@all"]);
    let address = format!("127.0.0.1:{}", redis.port());
    let filter = ("SUKKAL_LOG__FILTER", "trace");

    for password in [SECRET.to_owned(), format!("{SECRET}-not")] {
        let sukkal = Sukkal::start_with(&format!("redis://ali:{password}@{address}"), &[filter]);
        let requests = Requests::without_queue(&sukkal);
        let is_accepted = password == SECRET;
        let mut answers = requests.send(&READS[..3], 3).await;
        for answer in &answers {
            assert_eq!(answer.succeeded(), is_accepted, "{answer:?}");
        }
        redis.kill();
        answers.extend(requests.send(&READS[..3], 3).await);
        redis.restart();
        redis.command(&["ACL", "SETUSER", "ali", "on", &format!(">{SECRET}"), "~*", "&*", "+@all"]);

        for text in answers.into_iter().map(|answer| answer.body).chain(sukkal.log()) {
            assert!(!text.contains(SECRET), "{text}");
        }
        assert!(sukkal.log().iter().any(|line| line.contains(&address)), "the address is no secret");
    }
}

fn used_memory(redis: &RedisServer) -> i64 {
    let info = redis.command(&["INFO", "memory"]);
    let used = info.as_text().lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.expect("Redis says so").trim().parse().expect("a number")
}
