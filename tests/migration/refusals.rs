//! Migrations that are refused, and change nothing.

use std::collections::BTreeSet;

use serde_json::json;

use super::workload::post;
use super::{OPTIONS, command, embedded, run};
use crate::http::answered;
use support::redis::RedisServer;
use support::sukkal::Sukkal;

/// Asserts that a migration is refused for this reason, and that the keys in Redis stay the same.
fn assert_refused(redis: &RedisServer, from: &str, to: &str, reason: &str) {
    let before = keys(redis);
    let (code, text) = run(&["migrate", "--from", from, "--to", to]);
    assert!(code == Some(2) && text.contains(reason), "{code:?}: {text}");
    assert_eq!(keys(redis), before);
}

fn keys(redis: &RedisServer) -> BTreeSet<String> {
    redis.command(&["KEYS", "*"]).items().iter().map(|key| key.as_text().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_with_other_data_is_refused() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&folder, &other] {
        let mut sukkal = Sukkal::start_with(&embedded(folder.path()), &OPTIONS);
        post(&sukkal.project("p"), "q", &json!([{ "body": 1 }])).await;
        assert_used(&sukkal, folder.path());
        sukkal.kill();
    }
    let (from, other) = (embedded(folder.path()), embedded(other.path()));
    let redis = RedisServer::start();

    drop(Sukkal::start(&redis.url()).project("p").put("/v2/queues/q").send().await.unwrap());
    assert_refused(&redis, &from, &redis.url(), "Redis has data of Sukkal already");

    redis.command(&["FLUSHALL"]);
    redis.command(&["SET", "sukkal:{p/q}:queue", "of an unknown release"]);
    assert_refused(&redis, &from, &redis.url(), "Redis has data of Sukkal already");

    redis.command(&["FLUSHALL"]);
    redis.command(&["SET", "sukkal:layout", "migrating 0e984725-c51c-4bf4-9960-e1c80e27aba0"]);
    assert_refused(&redis, &from, &redis.url(), "another store is being migrated to this Redis");

    redis.command(&["FLUSHALL"]);
    redis.command(&["SET", "another program", "uses this Redis too"]);
    let mut migration = command(&["migrate", "--from", &from]);
    assert!(migration.env("SUKKAL_STORE", redis.url()).output().unwrap().status.success());
    assert_eq!(redis.command(&["GET", "another program"]).as_text(), "uses this Redis too");
    assert_refused(&redis, &other, &redis.url(), "Redis has data of Sukkal already");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_queues_in_pools_is_refused() {
    let (folder, pool, redis) = (tempfile::tempdir().unwrap(), RedisServer::start(), RedisServer::start());
    let from = embedded(folder.path());
    let pooling = ("SUKKAL_POOLING__ENABLED", "true");
    let mut sukkal = Sukkal::start_with(&from, &[&OPTIONS[..], &[pooling]].concat());
    let api = sukkal.project("p");
    let body = json!({"uri": pool.url(), "weight": 1});
    answered(api.put("/v2/pools/a").header("X-Roles", "admin").json(&body), 201).await;
    post(&api, "q", &json!([{ "body": 1 }])).await;
    sukkal.kill();

    assert_refused(&redis, &from, &redis.url(), "a store with pools cannot be migrated, and nothing was copied\n");
}

/// Asserts that a store that a service has open cannot be migrated.
fn assert_used(_service: &Sukkal, folder: &std::path::Path) {
    let redis = RedisServer::start();
    assert_refused(&redis, &embedded(folder), &redis.url(), "is in use by another process");
}

#[test]
fn only_an_embedded_store_can_be_migrated_and_only_to_redis() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let (url, file) = (redis.url(), embedded(folder.path()));
    for (from, to, reason) in [
        (url.as_str(), file.as_str(), "only an embedded store can be migrated, and only to Redis"),
        (&url, &url, "only an embedded store can be migrated, and only to Redis"),
        (&file, &file, "only an embedded store can be migrated, and only to Redis"),
        (&file, "memory:", "only an embedded store can be migrated, and only to Redis"),
        (&file, &url, "sukkal.redb: No such file"),
        ("embedded:redis://:secret@h", &url, "--from is invalid: \"embedded:\" must be followed by the path"),
        (&file, "redis://:secret@h,g", "--to is invalid: not a Redis address: several hosts need redis-cluster"),
    ] {
        assert_refused(&redis, from, to, reason);
        assert!(!run(&["migrate", "--from", from, "--to", to]).1.contains("secret"));
    }
}
