//! A real `EventSource` in Chromium, which follows a queue through restarts of the server and of
//! Redis.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use support::browser::Browser;
use support::ports::free_port;
use support::redis::RedisServer;
use support::sukkal::{Api, CLIENT, Sukkal};

const PROJECT: &str = "browser";
const MESSAGES: &str = "/v2/queues/q/messages";
/// Number of messages that the browser receives before each restart.
const PART: usize = 50;
const KEEPS_DATA: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_source_receives_every_message_once_and_in_order() {
    let redis = RedisServer::start_with(&KEEPS_DATA);
    let address: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let mut sukkal = Sukkal::start_at(&redis.url(), address);
    let api = sukkal.project(PROJECT);
    let browser = Browser::start().await;
    // Any document of the server is enough to give the stream the same origin.
    browser.open(&sukkal.url("/v2")).await;
    browser.follow(&format!("{MESSAGES}?echo=true&project_id={PROJECT}&client_id={CLIENT}")).await;
    let posting = tokio::spawn(post_all(api, 4 * PART));

    browser.wait_for_messages(PART).await;
    sukkal.terminate();
    assert!(sukkal.wait().success());
    let mut sukkal = Sukkal::start_at(&redis.url(), address);
    browser.wait_for_messages(2 * PART).await;
    redis.kill();
    redis.restart();
    browser.wait_for_messages(3 * PART).await;
    sukkal.kill();
    let _sukkal = Sukkal::start_at(&redis.url(), address);
    posting.await.unwrap();

    let seen = browser.wait_for_messages(4 * PART).await;
    assert_eq!(seen, (0..4 * PART).map(Value::from).collect::<Vec<_>>());
}

/// Posts the numbers one by one. Each post is repeated until it is stored, which happens once.
async fn post_all(api: Api, count: usize) {
    for number in 0..count {
        let message = json!({ "messages": [{ "body": number }] });
        let posted = || api.post(MESSAGES, &message).header("Idempotency-Key", number.to_string()).send();
        while !posted().await.is_ok_and(|answer| answer.status() == 201) {
            sleep(Duration::from_millis(20)).await;
        }
        sleep(Duration::from_millis(5)).await;
    }
}
