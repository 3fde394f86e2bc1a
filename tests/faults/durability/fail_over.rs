//! Fail-overs: messages with a receipt are at the new master, and those without one may be lost.

use serde_json::json;

use super::{
    MESSAGES, SHORT, assert_reached, assert_unknown, bodies, create_queue, post, start_replica, wait_until_in_sync,
};
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::Sukkal;
use support::waiting::{block_until, until};

const REPLICAS_1: (&str, &str) = ("Durability", "replicas=1");

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
