//! A process dies while it removes expired messages, some hundreds at a time, and then the clock of
//! the store steps back. The other messages are as expired as before.

use serde_json::{Value, json};

use super::gate::Gate;
use crate::http::answered;
use support::redis::RedisServer;
use support::sukkal::{MOVABLE_CLOCK, Sukkal};
use support::test_bed::{open_movable, queue_id, set_clock};
use support::waiting::until;

const PROJECT: &str = "expired";
/// More than one step removes.
const MESSAGES: usize = 600;
const TTL_US: i64 = 60_000_000;
/// More commands than a request for a page of such a queue sends.
const COMMANDS_MAX: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_stay_expired_if_their_removal_is_interrupted_and_the_clock_steps_back() {
    let redis = RedisServer::start();
    let store = open_movable(&redis.url());
    let mut was_interrupted = false;

    for commands in 1..COMMANDS_MAX {
        let gate = Gate::start(redis.port(), PROJECT);
        let mut first = Sukkal::start_without_janitor(&redis, &gate.url(), &[MOVABLE_CLOCK]);
        let (name, path) = (format!("q{commands}"), format!("/v2/queues/q{commands}/messages"));
        let queue = queue_id(PROJECT, &name);
        let messages = vec![json!({ "body": 1, "ttl": 60 }); MESSAGES];
        answered(first.project(PROJECT).post(&path, &json!({ "messages": messages })), 201).await;

        set_clock(&store, &queue, 3 * TTL_US).await;
        gate.hold_after(commands);
        let list = tokio::spawn(first.project(PROJECT).get(&format!("{path}?echo=true")).send());
        until("the list is held or done", async || gate.has_happened() || list.is_finished()).await;
        let is_done = list.is_finished();
        first.kill();
        set_clock(&store, &queue, 2 * TTL_US).await;

        was_interrupted |=
            redis.command(&["HEXISTS", &format!("sukkal:{{{PROJECT}/{name}}}:queue"), "x"]).as_int() == 1;
        let second = Sukkal::start_without_janitor(&redis, &redis.url(), &[MOVABLE_CLOCK]);
        let page = answered(second.project(PROJECT).get(&format!("{path}?echo=true")), 200).await.json();
        assert_eq!(page["messages"], Value::Array(Vec::new()), "after {commands} commands");
        if is_done {
            assert!(was_interrupted, "no removal was interrupted");
            return;
        }
    }
    panic!("the list sends more than {COMMANDS_MAX} commands");
}
