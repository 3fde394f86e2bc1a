//! Fail-overs: messages with a receipt are at the new master, and those without one may be lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_blocking};

use super::{
    MESSAGES, SHORT, assert_reached, assert_unknown, bodies, create_queue, post, start_replica, wait_until_in_sync,
};
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};
use support::waiting::{block_until, in_time, until};

const MASTER: &str = "mymaster";
const PRODUCERS: usize = 8;
/// Number of messages with a receipt before the master is killed.
const CONFIRMED_BEFORE: usize = 100;
const REPLICAS_1: (&str, &str) = ("Durability", "replicas=1");

/// Posts while the masters change.
#[derive(Default)]
struct Traffic {
    confirmed: AtomicUsize,
    progress: Notify,
    is_over: AtomicBool,
}

impl Traffic {
    async fn wait_for(&self, confirmed: usize) {
        let reached = async {
            while self.confirmed.load(Ordering::SeqCst) < confirmed {
                self.progress.notified().await;
            }
        };
        in_time("posts are confirmed", reached).await;
    }
}

/// Posts messages one after another until the traffic is over. Returns those with a receipt.
async fn produce(api: Api, traffic: Arc<Traffic>, producer: usize) -> Vec<String> {
    let mut confirmed = Vec::new();
    for number in 0.. {
        if traffic.is_over.load(Ordering::SeqCst) {
            break;
        }
        let body = format!("{producer}/{number}");
        let answer = post(&api, &body, &[REPLICAS_1, ("Idempotency-Key", &body)]).await;
        if answer.status == 201 {
            assert_reached(&answer, "replicas=1");
            confirmed.push(body);
            traffic.confirmed.fetch_add(1, Ordering::SeqCst);
            traffic.progress.notify_one();
        }
    }
    confirmed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_with_a_receipt_survive_the_loss_of_the_master() {
    let master = Arc::new(RedisServer::start());
    let replica = start_replica(&master);
    let sentinel = RedisServer::start_sentinel(MASTER, &master);
    let store = format!("redis-sentinel://127.0.0.1:{}/{MASTER}", sentinel.port());
    let sukkal = Sukkal::start_with(&store, &[SHORT]);
    let api = create_queue(&sukkal, json!({})).await;
    block_until("the Sentinel knows the replica", || {
        sentinel.command(&["INFO", "sentinel"]).as_text().contains("slaves=1")
    });

    let traffic = Arc::new(Traffic::default());
    let producers: JoinSet<Vec<String>> =
        (0..PRODUCERS).map(|number| produce(api.clone(), traffic.clone(), number)).collect();
    traffic.wait_for(CONFIRMED_BEFORE).await;
    let killed = master.clone();
    spawn_blocking(move || killed.kill()).await.unwrap();
    block_until("the replica is promoted", || {
        // Redis closes all client connections when it becomes a master.
        replica.try_command(&["INFO", "replication"]).is_ok_and(|info| info.as_text().contains("role:master"))
    });
    traffic.is_over.store(true, Ordering::SeqCst);
    let confirmed = producers.join_all().await.concat();

    let other = start_replica(&replica);
    until("the new master confirms posts", async || post(&api, "after", &[REPLICAS_1]).await.status == 201).await;
    drop(other);
    let there = bodies(&api).await;
    let distinct: BTreeSet<&str> = there.iter().filter_map(|body| body.as_str()).collect();
    let lost: Vec<&String> = confirmed.iter().filter(|body| !distinct.contains(body.as_str())).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), confirmed.len());
}

#[tokio::test]
async fn a_master_that_has_been_replaced_accepts_posts_without_a_receipt_and_loses_them() {
    let master = RedisServer::start();
    let replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[SHORT]);
    let api = create_queue(&sukkal, json!({})).await;
    assert_reached(&post(&api, "kept", &[REPLICAS_1]).await, "replicas=1");

    // The old master does not know yet that the replica has taken over.
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(post(&api, "lost", &[]).await.status, 201);
    assert_unknown(&post(&api, "unknown", &[REPLICAS_1]).await);
    master.command(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]);
    wait_until_in_sync(&replica, &master);

    assert_eq!(bodies(&Sukkal::start(&replica.url()).project("p")).await, ["kept"]);
    assert_eq!(post(&api, "refused", &[REPLICAS_1]).await.status, 503);
}

#[tokio::test]
async fn messages_with_a_receipt_survive_the_loss_of_a_master_of_a_cluster() {
    let cluster = RedisCluster::start();
    let master = cluster.node_of("sukkal:{p/orders}:queue");
    let replica = cluster.add_replica(master);
    for node in cluster.nodes().iter().chain([&replica]) {
        node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let sukkal = Sukkal::start(&cluster.url());
    let api = create_queue(&sukkal, json!({})).await;
    assert_reached(&post(&api, "kept", &[REPLICAS_1]).await, "replicas=1");

    master.pause();
    block_until("the replica has taken over", || {
        replica.command(&["INFO", "replication"]).as_text().contains("role:master")
    });
    until("the new master is found", async || api.get(MESSAGES).send().await.unwrap().status() == 200).await;
    assert_eq!(bodies(&api).await, ["kept"]);
    // The new master has no replica.
    let refused = post(&api, "refused", &[REPLICAS_1]).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.text.contains("their number is 0 at present"), "{refused:?}");
    assert_eq!(bodies(&api).await, ["kept"]);
}
