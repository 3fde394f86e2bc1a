//! `Durability`: a post is answered when it has reached what it requires. Otherwise the response is
//! `503`, and a retry with the same key posts nothing twice.

mod fail_over;
mod fsync;
mod kills;
mod replicas;
mod table;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::http::{Answer, answered, feed, send};
use support::redis::{RedisServer, Reply};
use support::sukkal::{Api, Sukkal};
use support::waiting::block_until;

const QUEUE: &str = "/v2/queues/orders";
const MESSAGES: &str = "/v2/queues/orders/messages";
/// Maximum time that a post waits, in seconds: long enough for a busy machine, and short if a test
/// waits for the end of it.
const LONG: (&str, &str) = ("SUKKAL_TRANSPORT__MAX_DURABILITY_WAIT", "60");
const SHORT: (&str, &str) = ("SUKKAL_TRANSPORT__MAX_DURABILITY_WAIT", "1");

/// Asserts that the messages are posted and have reached the level.
fn assert_reached(answer: &Answer, level: &str) {
    assert_eq!((answer.status, answer.header("durability")), (201, Some(level)), "{answer:?}");
}

/// Asserts that the response says that the messages may exist, without having reached the level.
fn assert_unknown(answer: &Answer) {
    assert_eq!((answer.status, answer.header("durability")), (503, None), "{answer:?}");
    assert!(answer.text.contains("The messages may exist"), "{answer:?}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
}

/// Posts a message with these headers.
async fn post(api: &Api, body: &str, headers: &[(&str, &str)]) -> Answer {
    let request = api.post(MESSAGES, &json!({ "messages": [{ "body": body }] }));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    send(request).await
}

/// Returns the bodies of all messages, in their order.
async fn bodies(api: &Api) -> Vec<Value> {
    feed(api, "orders", "&limit=20").await
}

/// Starts a replica of the server, and waits until it is in sync.
fn start_replica(master: &RedisServer) -> RedisServer {
    let replica = RedisServer::start_with(&[("replicaof", &format!("127.0.0.1 {}", master.port()))]);
    wait_until_in_sync(master, &replica);
    replica
}

/// Waits until the replica receives what is written to the master, and the master counts on it.
fn wait_until_in_sync(master: &RedisServer, replica: &RedisServer) {
    const PROBE: &str = "probe";

    let value = Uuid::new_v4().to_string();
    master.command(&["SET", PROBE, &value]);
    block_until("the replica is in sync", || {
        replica.command(&["GET", PROBE]) == Reply::Bulk(Some(value.clone().into()))
    });
    let online = format!("port={},state=online", replica.port());
    block_until("the replica is online", || master.command(&["INFO", "replication"]).as_text().contains(&online));
    master.command(&["DEL", PROBE]);
}

/// Creates the queue, so that no post has to.
async fn create_queue(sukkal: &Sukkal, metadata: Value) -> Api {
    let api = sukkal.project("p");
    answered(api.put(QUEUE).json(&metadata), 201).await;
    api
}
