//! `Durability: replicas=N` over a master with a replica that is suspended or missing.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{
    LONG, MESSAGES, QUEUE, SHORT, assert_reached, assert_unknown, bodies, create_queue, post, start_replica,
    wait_until_in_sync,
};
use crate::http::{Answer, PATCH_TYPE, send};
use support::ports::free_port;
use support::redis::RedisServer;
use support::sukkal::Sukkal;
use support::waiting::block_until;

const REPLICAS_1: (&str, &str) = ("Durability", "replicas=1");
const KEY: (&str, &str) = ("Idempotency-Key", "order-4711");
/// Maximum number of posts of one project that wait for their durability.
const RECEIPTS_MAX: usize = 256;
/// So many posts form two batches, of which the first is full or not.
const TWO_BATCHES: usize = 130;
/// Much shorter than the posts that wait, and longer than any other post takes.
const ANSWER_MAX: Duration = Duration::from_secs(30);

fn has_blocked_clients(server: &RedisServer) -> bool {
    !server.command(&["INFO", "clients"]).as_text().contains("blocked_clients:0\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_and_its_repetitions_fail_until_the_replica_has_the_message() {
    // The releases differ in what `WAIT` waits for on a connection that has only read.
    let [redis_7, redis_8] =
        [RedisServer::start_with, RedisServer::start_redis_8_with].map(post_while_the_replica_is_suspended);
    tokio::join!(redis_7, redis_8);
}

async fn post_while_the_replica_is_suspended(start: fn(&[(&str, &str)]) -> RedisServer) {
    let master = start(&[]);
    let replica = start(&[("replicaof", &format!("127.0.0.1 {}", master.port()))]);
    wait_until_in_sync(&master, &replica);
    let sukkal = Sukkal::start_with(&master.url(), &[SHORT]);
    let api = create_queue(&sukkal, json!({})).await;
    assert_reached(&post(&api, "before", &[REPLICAS_1]).await, "replicas=1");

    replica.pause();
    assert_unknown(&post(&api, "order", &[REPLICAS_1, KEY]).await);
    // A repetition stores nothing, and the replica still lacks the message.
    assert_unknown(&post(&api, "order", &[REPLICAS_1, KEY]).await);
    // The same on a connection that has written nothing before.
    let other = Sukkal::start_with(&master.url(), &[SHORT]);
    assert_unknown(&post(&other.project("p"), "order", &[REPLICAS_1, KEY]).await);
    let without = post(&api, "without", &[]).await;
    assert_eq!((without.status, without.header("durability")), (201, None));

    replica.resume();
    assert_reached(&post(&api, "order", &[REPLICAS_1, KEY]).await, "replicas=1");
    assert_eq!(bodies(&api).await, ["before", "order", "without"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_waits_for_as_many_replicas_as_it_requires() {
    let master = RedisServer::start();
    let _replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[SHORT]);
    let api = create_queue(&sukkal, json!({})).await;

    assert_reached(&post(&api, "one", &[REPLICAS_1]).await, "replicas=1");
    let refused = post(&api, "two", &[("Durability", "replicas=2")]).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(
        refused.header("retry-after").is_some() && refused.text.contains("their number is 1 at present"),
        "{refused:?}"
    );
    let second = start_replica(&master);
    assert_reached(&post(&api, "three", &[("Durability", "replicas=2")]).await, "replicas=2");
    drop(second);
    tokio::task::block_in_place(|| {
        block_until("the replica is gone", || {
            master.command(&["INFO", "replication"]).as_text().contains("connected_slaves:1\r\n")
        });
    });
    // A post that finds this out has been stored. The next one has not.
    assert_unknown(&post(&api, "four", &[("Durability", "replicas=2")]).await);
    let refused = post(&api, "five", &[("Durability", "replicas=2")]).await;
    assert!(refused.text.contains("their number is 1 at present"), "{refused:?}");
    assert_eq!(bodies(&api).await, ["one", "three", "four"]);
}

/// Sends as many posts of this project that require the level.
fn flood(sukkal: &Sukkal, project: &str, level: &'static str, posts: usize) -> JoinSet<Answer> {
    let api = sukkal.project(project);
    let mut answers = JoinSet::new();
    for _ in 0..posts {
        let request = api.post(MESSAGES, &json!({ "messages": [{ "body": "flood" }] })).header("Durability", level);
        answers.spawn(async move { send(request).await });
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_whose_level_is_not_reached_do_not_delay_receipts_of_other_projects() {
    let master = RedisServer::start_with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[LONG]);
    let other = create_queue(&sukkal, json!({})).await;
    for project in ["first", "second"] {
        assert_eq!(sukkal.project(project).put(QUEUE).send().await.unwrap().status(), 201);
    }

    let mut refused = flood(&sukkal, "first", "replicas=9", RECEIPTS_MAX + 50);
    for _ in 0..10 {
        assert_reached(&post(&other, "reached", &[REPLICAS_1]).await, "replicas=1");
    }
    while let Some(answer) = refused.join_next().await {
        assert_eq!(answer.unwrap().status, 503);
    }
    assert_eq!(bodies(&sukkal.project("first")).await, [""; 0]);

    replica.pause();
    let waiting = [("first", "replicas=1"), ("second", "fsync, replicas=1")]
        .map(|(project, level)| flood(&sukkal, project, level, TWO_BATCHES));
    tokio::task::block_in_place(|| {
        block_until("both levels have two batches that wait", || {
            master.command(&["INFO", "clients"]).as_text().contains("blocked_clients:4\r\n")
        });
    });
    let _fills_the_share = flood(&sukkal, "first", "replicas=1", RECEIPTS_MAX);
    let reached = timeout(ANSWER_MAX, post(&other, "synced", &[("Durability", "fsync")])).await;
    assert_reached(&reached.expect("other levels do not wait"), "fsync");
    assert!(waiting.iter().all(|answers| answers.len() == TWO_BATCHES));
    replica.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_requires_a_level_of_every_post_and_a_post_can_require_more() {
    let master = RedisServer::start_with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let replica = start_replica(&master);
    let sukkal = Sukkal::start_with(&master.url(), &[SHORT]);
    let api = create_queue(&sukkal, json!({ "_durability": "replicas=1" })).await;

    assert_reached(&post(&api, "plain", &[]).await, "replicas=1");
    assert_reached(&post(&api, "more", &[("Durability", "fsync")]).await, "fsync, replicas=1");
    replica.pause();
    assert_unknown(&post(&api, "late", &[]).await);
    assert_unknown(&post(&api, "less", &[("Durability", "fsync")]).await);
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
        posts.spawn(async move { send(request).await });
    }
    for _ in 0..refused {
        let answer = posts.join_next().await.unwrap().unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.text.contains("The service has more requests"), "{answer:?}");
    }
    let other = post(&api, "other", &[]).await;
    assert_eq!(other.status, 201);
    assert!(posts.try_join_next().is_none(), "the other posts wait");

    replica.resume();
    while let Some(answer) = posts.join_next().await {
        assert_reached(&answer.unwrap(), "replicas=1");
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
    assert_unknown(&waiting.await.unwrap());

    master.command(&["REPLICAOF", "NO", "ONE"]);
    wait_until_in_sync(&master, &replica);
    assert_reached(&post(&api, "order", &[REPLICAS_1, KEY]).await, "replicas=1");
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
    assert_reached(&waiting.await.unwrap(), "replicas=1");
    assert_eq!(bodies(&api).await, ["order"]);
}

/// The number of replicas may change, so the level is accepted.
#[tokio::test]
async fn a_queue_that_requires_more_replicas_than_there_are_gets_a_warning() {
    let master = RedisServer::start();
    let sukkal = Sukkal::start_with(&master.url(), &[LONG]);
    let api = sukkal.project("p");
    let warning = "the server of the queue has fewer replicas than \"_durability\" requires; \
        until it has them, every post is refused with 503";
    let warnings = async |request: reqwest::RequestBuilder, status: u16| {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status);
        let values = response.headers().get_all("Sukkal-Warning").iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let patch = |key: &str, value: &str| {
        let patch = json!([{ "op": "add", "path": format!("/metadata/{key}"), "value": value }]).to_string();
        let request = api.request(reqwest::Method::PATCH, QUEUE).body(patch);
        request.header("Content-Type", PATCH_TYPE)
    };

    assert_eq!(warnings(api.put(QUEUE).json(&json!({ "_durability": "replicas=1" })), 201).await, [warning]);
    assert_eq!(post(&api, "refused", &[]).await.status, 503);
    assert_eq!(warnings(patch("_durability", "replicas=2"), 200).await, [warning]);
    // Only a change is checked.
    assert_eq!(warnings(patch("team", "billing"), 200).await, [""; 0]);
    let _replica = start_replica(&master);
    assert_eq!(warnings(patch("_durability", "replicas=1"), 200).await, [""; 0]);
    assert_reached(&post(&api, "received", &[]).await, "replicas=1");
}
