//! `Durability: replicas=N` over a master with a replica that is suspended or missing.

use serde_json::json;
use tokio::task::JoinSet;

use super::{Answer, LONG, MESSAGES, SHORT, bodies, create_queue, post, start_replica, wait_until_in_sync};
use crate::support::ports::free_port;
use crate::support::redis::{RedisServer, block_until};
use crate::support::sukkal::Sukkal;

const REPLICAS_1: (&str, &str) = ("Durability", "replicas=1");
const KEY: (&str, &str) = ("Idempotency-Key", "order-4711");
/// Maximum number of posts that wait for their durability.
const RECEIPTS_MAX: usize = 256;

fn has_blocked_clients(server: &RedisServer) -> bool {
    !server.command(&["INFO", "clients"]).as_text().contains("blocked_clients:0\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_and_its_repetitions_fail_until_the_replica_has_the_message() {
    // The releases differ in what `WAIT` waits for on a connection that has only read.
    for start in [RedisServer::start_with, RedisServer::start_redis_8_with] {
        let master = start(&[]);
        let replica = start(&[("replicaof", &format!("127.0.0.1 {}", master.port()))]);
        wait_until_in_sync(&replica);
        post_while_the_replica_is_suspended(&master, &replica).await;
    }
}

async fn post_while_the_replica_is_suspended(master: &RedisServer, replica: &RedisServer) {
    let sukkal = Sukkal::start_with(&master.url(), &[SHORT]);
    let api = create_queue(&sukkal, json!({})).await;
    post(&api, "before", &[REPLICAS_1]).await.assert_reached("replicas=1");

    replica.pause();
    post(&api, "order", &[REPLICAS_1, KEY]).await.assert_unknown();
    // A repetition stores nothing, and the replica still lacks the message.
    post(&api, "order", &[REPLICAS_1, KEY]).await.assert_unknown();
    // The same on a connection that has written nothing before.
    let other = Sukkal::start_with(&master.url(), &[SHORT]);
    post(&other.project("p"), "order", &[REPLICAS_1, KEY]).await.assert_unknown();
    let without = post(&api, "without", &[]).await;
    assert_eq!((without.status, without.durability), (201, None));

    replica.resume();
    post(&api, "order", &[REPLICAS_1, KEY]).await.assert_reached("replicas=1");
    assert_eq!(bodies(&api).await, ["before", "order", "without"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_waits_for_as_many_replicas_as_it_requires() {
    let master = RedisServer::start();
    let _replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[SHORT]);
    let api = create_queue(&sukkal, json!({})).await;

    post(&api, "one", &[REPLICAS_1]).await.assert_reached("replicas=1");
    post(&api, "two", &[("Durability", "replicas=2")]).await.assert_unknown();
    let _second = start_replica(&master);
    post(&api, "three", &[("Durability", "replicas=2")]).await.assert_reached("replicas=2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_requires_a_level_of_every_post_and_a_post_can_require_more() {
    let master = RedisServer::start_with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[SHORT]);
    let api = create_queue(&sukkal, json!({ "_durability": "replicas=1" })).await;

    post(&api, "plain", &[]).await.assert_reached("replicas=1");
    post(&api, "more", &[("Durability", "fsync")]).await.assert_reached("fsync, replicas=1");
    replica.pause();
    post(&api, "late", &[]).await.assert_unknown();
    post(&api, "less", &[("Durability", "fsync")]).await.assert_unknown();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_that_wait_for_a_replica_are_bounded_and_delay_no_other_request() {
    let master = RedisServer::start();
    let replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[LONG]);
    let api = create_queue(&sukkal, json!({})).await;
    replica.pause();

    let refused = 10;
    let mut posts = JoinSet::new();
    for _ in 0..RECEIPTS_MAX + refused {
        let request = api.post(MESSAGES, &json!({ "messages": [{ "body": "durable" }] }));
        let request = request.header(REPLICAS_1.0, REPLICAS_1.1);
        posts.spawn(async move { Answer::of(request.send().await.unwrap()).await });
    }
    for _ in 0..refused {
        let answer = posts.join_next().await.unwrap().unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.description.starts_with("The service has more requests"), "{answer:?}");
    }
    let other = post(&api, "other", &[]).await;
    assert_eq!(other.status, 201);
    assert!(posts.try_join_next().is_none(), "the other posts wait");

    replica.resume();
    while let Some(answer) = posts.join_next().await {
        answer.unwrap().assert_reached("replicas=1");
    }
    assert_eq!(bodies(&api).await.len(), RECEIPTS_MAX + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_demoted_while_a_post_waits_does_not_confirm_it() {
    let master = RedisServer::start();
    let replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[("SUKKAL_TRANSPORT__MAX_DURABILITY_WAIT", "3")]);
    let api = create_queue(&sukkal, json!({})).await;
    replica.pause();

    let waiting = {
        let api = api.clone();
        tokio::spawn(async move { post(&api, "order", &[REPLICAS_1, KEY]).await })
    };
    wait_until_a_post_waits(&master);
    master.command(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]);
    replica.resume();
    waiting.await.unwrap().assert_unknown();

    master.command(&["REPLICAOF", "NO", "ONE"]);
    wait_until_in_sync(&replica);
    post(&api, "order", &[REPLICAS_1, KEY]).await.assert_reached("replicas=1");
    assert_eq!(bodies(&api).await, ["order"]);
}

/// Waits until a post waits in Redis.
fn wait_until_a_post_waits(master: &RedisServer) {
    tokio::task::block_in_place(|| block_until("a post waits", || has_blocked_clients(master)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_while_a_post_waits_confirms_nothing() {
    let master = RedisServer::start();
    let replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[LONG]);
    let api = create_queue(&sukkal, json!({})).await;
    replica.pause();
    let waiting = {
        let api = api.clone();
        tokio::spawn(async move { post(&api, "order", &[REPLICAS_1]).await })
    };
    wait_until_a_post_waits(&master);

    // The service posts again on a new connection, where the script finds its own reply.
    master.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    wait_until_a_post_waits(&master);
    assert!(!waiting.is_finished());

    replica.resume();
    waiting.await.unwrap().assert_reached("replicas=1");
    assert_eq!(bodies(&api).await, ["order"]);
}
