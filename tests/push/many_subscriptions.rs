//! Queues with many subscriptions that have large options.

use std::fs;

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::endpoint::{Answer, Endpoint, Received};
use super::{Bench, LOCAL};
use crate::http::answered;
use support::sukkal::{Api, Sukkal};
use support::waiting::until;

/// Size of the options of each subscription, in bytes.
const OPTIONS_BYTES: usize = 60_000;

/// Returns options with which a subscription gets only messages with this number.
fn options(number: usize) -> Value {
    json!({ "match": { "n": number }, "other": "x".repeat(OPTIONS_BYTES) })
}

/// The deliverer has loaded a subscription when it delivers a message to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_subscription_is_loaded_without_the_others() {
    let bench = Bench::redis_with(&[]);
    let endpoint = Endpoint::start();
    let sent_bytes = || {
        let info = bench.redis.as_ref().unwrap().command(&["INFO", "stats"]).as_text().to_owned();
        let line = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).unwrap();
        line.parse::<usize>().unwrap()
    };
    let subscribe = async |number: usize| {
        bench.subscribe(&endpoint.url(&format!("/{number}")), options(number)).await;
    };
    for number in 0..60 {
        subscribe(number).await;
    }
    bench.post(&[json!({ "n": 59 })]).await;
    endpoint.wait_for(1).await;

    let before = sent_bytes();
    for number in 60..70 {
        subscribe(number).await;
        bench.post(&[json!({ "n": number })]).await;
        endpoint.wait_for(number - 58).await;
    }

    let bytes = (sent_bytes() - before) / 10;
    assert!(bytes < 5 * OPTIONS_BYTES, "Redis has sent {bytes} bytes for each new subscription");
}

/// Returns the CPU time that a process has used, in nanoseconds.
fn cpu_time_ns(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("schedstat")).ok());
    stats.filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// A deliverer has loaded all options of its queue when it delivers, and keeps them for seconds.
#[tokio::test(flavor = "multi_thread")]
async fn options_that_deliverers_load_have_a_memory_budget_for_each_project() {
    let sukkal = Sukkal::start_with("memory:", &[&LOCAL[..], &[("SUKKAL_PUSH__ALLOWED_PORTS", "1-65535")]].concat());
    let endpoint = Endpoint::start();
    let [large, other] = ["p", "other"].map(|project| sukkal.project(project));
    let subscribe = async |api: &Api, queue: &str, count: usize| {
        let subscribe_one = |number: usize| {
            let subscriber = endpoint.url(&format!("/{number}"));
            let body = json!({ "subscriber": subscriber, "options": { "match": { "n": number }, "x": "x".repeat(OPTIONS_BYTES) } });
            api.post(&format!("/v2/queues/{queue}/subscriptions"), &body).send()
        };
        stream::iter(0..count)
            .map(subscribe_one)
            .buffer_unordered(8)
            .for_each(async |sent| {
                assert_eq!(sent.unwrap().status(), 201);
            })
            .await;
    };
    let post = async |api: &Api, queue: &str| {
        let message = json!({ "messages": [{ "ttl": 300, "body": { "n": 1 } }] });
        answered(api.post(&format!("/v2/queues/{queue}/messages"), &message), 201).await;
    };
    // Together more than half of 128 MiB.
    subscribe(&large, "a", 700).await;
    subscribe(&large, "b", 500).await;
    subscribe(&other, "c", 2).await;

    post(&large, "a").await;
    endpoint.wait_for(1).await;
    post(&large, "b").await;
    sukkal.logged("the options of subscriptions use up the memory").await;
    post(&other, "c").await;
    endpoint.wait_for(2).await;

    endpoint.wait_for(3).await;
}

async fn subscribe_a_hundred(api: &Api, first: usize) {
    for number in first..first + 100 {
        let body = json!({ "subscriber": format!("http://127.0.0.1:9/{number}"), "options": options(number) });
        answered(api.post("/v2/queues/q/subscriptions", &body), 201).await;
    }
}

#[tokio::test]
async fn a_new_subscription_costs_the_same_in_a_queue_with_many() {
    let sukkal = Sukkal::start_with("memory:", &[&LOCAL[..], &[("SUKKAL_PUSH__ALLOWED_PORTS", "1-65535")]].concat());
    let api = sukkal.project("p");
    let mut costs = Vec::new();
    for hundred in 0..8 {
        let before = cpu_time_ns(sukkal.id());
        subscribe_a_hundred(&api, 100 * hundred).await;
        costs.push(cpu_time_ns(sukkal.id()) - before);
    }

    assert!(costs[7] < 3 * costs[0], "each hundred has cost {costs:?} ns");
}

/// An endpoint that does not answer keeps the messages of its attempts in memory.
#[tokio::test(flavor = "multi_thread")]
async fn messages_whose_attempts_have_begun_have_a_memory_budget_for_each_project() {
    const BODY_BYTES: usize = 200_000;
    const SUBSCRIPTIONS: usize = 4;
    const ATTEMPTS: usize = 64;
    let sukkal = Sukkal::start_with("memory:", &[&LOCAL[..], &[("SUKKAL_PUSH__ALLOWED_PORTS", "1-65535")]].concat());
    let endpoint =
        Endpoint::answering(|received| if received.path == "/other" { Answer::Status(200) } else { Answer::Hang });
    let [large, other] = ["p", "other"].map(|project| sukkal.project(project));
    let subscribe = async |api: &Api, path: &str| {
        let body = json!({ "subscriber": endpoint.url(path), "options": { "concurrency": ATTEMPTS } });
        answered(api.post("/v2/queues/q/subscriptions", &body), 201).await;
    };
    let post = async |api: &Api, bytes: usize| {
        let message = json!({ "messages": [{ "ttl": 300, "body": "x".repeat(bytes) }] });
        answered(api.post("/v2/queues/q/messages", &message), 201).await;
    };
    for number in 0..SUBSCRIPTIONS {
        subscribe(&large, &format!("/{number}")).await;
    }
    subscribe(&other, "/other").await;
    for _ in 0..ATTEMPTS {
        post(&large, BODY_BYTES).await;
    }
    // A project alone may use half of 64 MiB.
    let most = (32 << 20) / BODY_BYTES;
    endpoint.wait_for(most / 2).await;

    post(&other, 1).await;
    let is_other = |received: &Received| received.path == "/other";
    until("the other project gets its message", async || endpoint.received().iter().any(is_other)).await;

    let begun = endpoint.received().len() - 1;
    assert!(begun <= most, "{begun} of {} attempts have begun", SUBSCRIPTIONS * ATTEMPTS);
}
