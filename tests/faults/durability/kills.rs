//! What Redis and a store in memory keep without receipts when a process is killed.

use serde_json::json;

use super::{MESSAGES, bodies, create_queue, post};
use crate::http::ok;
use support::redis::RedisServer;
use support::sukkal::Sukkal;
use support::waiting::{block_until, until};

#[tokio::test]
async fn a_killed_service_loses_nothing_over_redis() {
    let redis = RedisServer::start();
    let mut sukkal = Sukkal::start(&redis.url());
    let api = create_queue(&sukkal, json!({})).await;
    assert_eq!(post(&api, "kept", &[]).await.status, 201);
    sukkal.kill();

    assert_eq!(bodies(&Sukkal::start(&redis.url()).project("p")).await, ["kept"]);
}

#[tokio::test]
async fn a_store_in_memory_ends_with_its_process() {
    let mut sukkal = Sukkal::start("memory:");
    let api = create_queue(&sukkal, json!({})).await;
    assert_eq!(post(&api, "lost", &[]).await.status, 201);
    sukkal.kill();

    assert_eq!(bodies(&Sukkal::start("memory:").project("p")).await, [""; 0]);
}

#[tokio::test]
async fn redis_without_persistence_loses_everything() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let api = create_queue(&sukkal, json!({})).await;
    assert_eq!(post(&api, "lost", &[]).await.status, 201);
    redis.restart();

    let queues = ok(Sukkal::start(&redis.url()).project("p").get("/v2/queues")).await;
    assert_eq!(queues["queues"], json!([]));
}

#[tokio::test]
async fn redis_keeps_what_it_has_written_when_it_is_killed() {
    let redis = RedisServer::start_with(&[("appendonly", "yes"), ("appendfsync", "everysec")]);
    let sukkal = Sukkal::start(&redis.url());
    let api = create_queue(&sukkal, json!({})).await;
    assert_eq!(post(&api, "kept", &[]).await.status, 201);
    // Redis postpones the write to the file while a sync is running.
    block_until("Redis has written its log", || {
        redis.command(&["INFO", "persistence"]).as_text().contains("aof_buffer_length:0\r\n")
    });
    redis.restart();

    until("the store is back", async || api.get(MESSAGES).send().await.unwrap().status() == 200).await;
    assert_eq!(bodies(&api).await, ["kept"]);
}
