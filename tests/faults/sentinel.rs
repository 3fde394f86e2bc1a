//! A Sentinel group: its master is found, and found again after a fail-over.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::redis::{RedisServer, block_until};
use crate::support::sukkal::{Api, Sukkal};

/// Much longer than a fail-over takes.
const TIMEOUT: Duration = Duration::from_secs(30);
const MASTER: &str = "mymaster";
const FEED: &str = "/v2/queues/feed/messages";

async fn post(api: &Api, body: &str) -> u16 {
    let messages = json!({ "messages": [{ "body": body }] });
    api.post(FEED, &messages).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_fail_over_is_followed() {
    let master = RedisServer::start();
    let replica = RedisServer::start_with(&[("replicaof", &format!("127.0.0.1 {}", master.port()))]);
    let sentinel = RedisServer::start_sentinel(MASTER, &master);
    let sukkal = Sukkal::start(&format!("redis-sentinel://127.0.0.1:{}/{MASTER}", sentinel.port()));
    let api = sukkal.project("p");
    assert_eq!(post(&api, "before").await, 201);
    block_until("the Sentinel knows the replica", || {
        let known = sentinel.command(&["INFO", "sentinel"]);
        known.as_text().contains("slaves=1")
    });
    assert_eq!(master.command(&["WAIT", "1", "5000"]).as_int(), 1);

    master.kill();
    block_until("the replica is promoted", || {
        // Redis closes all client connections when it becomes a master.
        replica.try_command(&["INFO", "replication"]).is_ok_and(|info| info.as_text().contains("role:master"))
    });
    let posted = async {
        // The Sentinel may still name the old master for a moment.
        while post(&api, "after").await != 201 {}
    };
    timeout(TIMEOUT, posted).await.expect("the new master is found");

    let page: Value = api.get(&format!("{FEED}?echo=true")).send().await.unwrap().json().await.unwrap();
    let bodies = page["messages"].as_array().unwrap().iter().map(|message| &message["body"]);
    let mut bodies: Vec<&Value> = bodies.collect();
    // A post with the response 503 may have been executed.
    bodies.dedup();
    assert_eq!(bodies, ["before", "after"]);
}
