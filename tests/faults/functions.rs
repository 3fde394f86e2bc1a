//! The Lua functions of the service are a library in Redis, which can be lost or refused. Then the same
//! Lua runs as a script.

use serde_json::{Value, json};

use super::gate::Gate;
use super::requests::{self, DELETES, READS, Requests, WRITES, all_done, all_refused};
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

/// Loading a library needs memory, so scripts must do until there is some.
#[tokio::test]
async fn a_full_redis_that_has_lost_the_library_can_be_emptied() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let requests = Requests::prepare(&sukkal).await;

    redis.command(&["FUNCTION", "FLUSH"]);
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
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
