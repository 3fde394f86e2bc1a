//! The Lua functions of the service are a library in Redis, which can be lost or refused. Then the
//! same Lua runs as a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::gate::Gate;
use super::requests::{self, DELETES, READS, Requests, WRITES, all_done, all_refused};
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::Sukkal;
use support::waiting::until;

const MANY: usize = 64;
const PASSWORD: &str = "a-long-random-password";
/// What the log says when scripts replace functions.
const SCRIPTS_RUN: &str = "runs slower scripts instead";

fn has_library(redis: &RedisServer) -> bool {
    !redis.command(&["FUNCTION", "LIST"]).items().is_empty()
}

/// Fills the server first, because a process may load the library at any moment.
fn lose_library_when_full(redis: &RedisServer) {
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    redis.command(&["FUNCTION", "FLUSH"]);
}

fn has_logged_scripts(sukkal: &Sukkal) -> bool {
    sukkal.log().iter().any(|line| line.contains(SCRIPTS_RUN))
}

#[tokio::test]
async fn a_lost_library_is_loaded_again_without_an_error() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::prepare(&sukkal).await;

    redis.command(&["FUNCTION", "FLUSH"]);
    redis.command(&["SCRIPT", "FLUSH"]);
    all_done(&requests.send(&requests::all(), MANY).await);

    assert!(has_library(&redis));
    assert!(!has_logged_scripts(&sukkal));
}

/// It may be lost between its load and the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_library_that_is_lost_all_the_time_is_no_error() {
    let redis = Arc::new(RedisServer::start());
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::prepare(&sukkal).await;
    let (server, is_over) = (redis.clone(), Arc::new(AtomicBool::new(false)));
    let ends = is_over.clone();
    let flushes = thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            server.command(&["FUNCTION", "FLUSH"]);
        }
    });

    for _ in 0..5 {
        all_done(&requests.send(&requests::all(), MANY).await);
    }

    is_over.store(true, Ordering::Relaxed);
    flushes.join().unwrap();
}

#[tokio::test]
async fn a_full_server_of_a_cluster_leaves_the_functions_of_the_others_alone() {
    let cluster = RedisCluster::start();
    let sukkal = Sukkal::start(&cluster.url());
    let api = sukkal.project("faults");
    let queues: Vec<String> = (0..24).map(|number| format!("/v2/queues/q{number}")).collect();
    for queue in &queues {
        assert_eq!(api.put(queue).send().await.unwrap().status(), 201);
    }
    let (full, others) = cluster.nodes().split_first().unwrap();
    lose_library_when_full(full);
    for server in cluster.nodes() {
        server.command(&["CONFIG", "RESETSTAT"]);
    }

    for queue in &queues {
        assert_eq!(api.get(&format!("{queue}/stats")).send().await.unwrap().status(), 200);
    }

    let has_run = |server: &RedisServer, command: &str| {
        server.command(&["INFO", "commandstats"]).as_text().contains(&format!("cmdstat_{command}:"))
    };
    assert!(has_run(full, "evalsha"));
    for server in others {
        assert!(has_run(server, "fcall") && !has_run(server, "evalsha"));
    }
}

/// Loading a library needs memory, so scripts must do until there is some.
#[tokio::test]
async fn a_full_redis_that_has_lost_the_library_can_be_emptied() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::prepare(&sukkal).await;

    lose_library_when_full(&redis);
    all_done(&requests.send(&READS, MANY).await);
    all_refused(&requests.send(&WRITES, MANY).await);
    all_done(&requests.send(&DELETES, MANY).await);

    assert!(!has_library(&redis));
    assert!(has_logged_scripts(&sukkal));
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    requests.all_work_again(&requests::all()).await;
    until("the library is loaded", async || {
        all_done(&requests.send(&READS, 1).await);
        has_library(&redis)
    })
    .await;
    sukkal.logged("Redis runs the functions of Sukkal again").await;
}

#[tokio::test]
async fn a_redis_with_too_few_replicas_that_has_lost_the_library_can_be_read() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::prepare(&sukkal).await;

    redis.command(&["FUNCTION", "FLUSH"]);
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);

    all_done(&requests.send(&READS, MANY).await);
    all_refused(&requests.send(&WRITES, MANY).await);
}

#[tokio::test]
async fn a_user_who_may_not_call_functions_is_served() {
    let redis = RedisServer::start();
    let rules = ["~*", "&*", "+@all", "-fcall", "-function"];
    redis.command(&[&["ACL", "SETUSER", "ali", "on", &format!(">{PASSWORD}")], rules.as_slice()].concat());
    let sukkal = Sukkal::start(&format!("redis://ali:{PASSWORD}@127.0.0.1:{}", redis.port()));
    let requests = Requests::prepare(&sukkal).await;

    all_done(&requests.send(&requests::all(), MANY).await);

    assert!(has_logged_scripts(&sukkal));
    assert!(!has_library(&redis));
}

/// Redis refuses to call a function that writes when its memory is full. A repeated post is still
/// recognized.
#[tokio::test]
async fn a_post_whose_reply_was_lost_is_confirmed_by_a_redis_that_is_full_now() {
    let redis = RedisServer::start();
    let gate = Gate::start(redis.port(), "faults");
    let sukkal = Sukkal::start_without_janitor(&redis, &gate.url(), &[]);
    let api = sukkal.project("faults");
    let path = "/v2/queues/known/messages";
    let batch = json!({ "messages": [{ "body": "once" }] });
    assert_eq!(api.post(path, &batch).send().await.unwrap().status(), 201);

    gate.hold_reply_of(0);
    let posted = async { api.post(path, &batch).send().await.unwrap() };
    let fill = async {
        until("the post has run", async || gate.has_happened()).await;
        redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
        gate.silence_connections();
        gate.release();
    };
    let (posted, ()) = tokio::join!(posted, fill);

    assert_eq!(posted.status(), 201);
    let page: Value = api.get(&format!("{path}?echo=true")).send().await.unwrap().json().await.unwrap();
    assert_eq!(page["messages"].as_array().unwrap().len(), 2);
}
