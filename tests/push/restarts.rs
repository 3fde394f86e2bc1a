//! Deliveries after the loss of the process that had the delivery lease: it has crashed, or was
//! stopped by a signal and goes on later.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::endpoint::{Answer, Endpoint};
use super::{LOCAL, figures, id, numbers, subscribe_to};
use crate::http::post_as;
use support::proxy::Proxy;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};
use support::waiting::{block_until, until};

/// Options of processes that find the leases of lost ones without the janitor.
const WITHOUT_JANITOR: [(&str, &str); 3] =
    [LOCAL[0], ("SUKKAL_JANITOR__PAUSE", "3600"), ("SUKKAL_LOG__FILTER", "info,sukkal::push=debug")];
/// Longest pause of deliveries after the loss of a process.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Longest duration of an attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(30);

async fn post(api: &Api, body: u64) {
    post_as(api, "q", &[json!(body)]).await;
}

async fn subscribe(api: &Api, endpoint: &Endpoint, options: Value) -> String {
    id(&subscribe_to(api, "q", &endpoint.url("/"), options).await)
}

/// Waits until this number of processes receives signals.
fn wait_for_receivers(redis: &RedisServer, count: i64) {
    let receivers = || redis.command(&["PUBSUB", "NUMSUB", "sukkal:deliveries"]).items()[1].as_int();
    block_until("the processes receive signals", || receivers() == count);
}

/// Starts a process over Redis.
fn start(redis: &RedisServer, count: i64) -> Sukkal {
    start_at(&redis.url(), redis, count)
}

/// Starts a process that connects to Redis at this address.
fn start_at(url: &str, redis: &RedisServer, count: i64) -> Sukkal {
    let sukkal = Sukkal::start_with(url, &WITHOUT_JANITOR);
    wait_for_receivers(redis, count);
    sukkal
}

/// A lease lasts for 7 s.
#[tokio::test(flavor = "multi_thread")]
async fn the_only_process_over_a_file_delivers_at_once_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().join("data").display());
    let (mut sukkal, endpoint) = (Sukkal::start_with(&store, &WITHOUT_JANITOR), Endpoint::start());
    subscribe(&sukkal.project("p"), &endpoint, json!({})).await;
    post(&sukkal.project("p"), 1).await;
    endpoint.wait_for(1).await;

    sukkal.kill();
    let crashed_at = Instant::now();
    let sukkal = Sukkal::start_with(&store, &WITHOUT_JANITOR);
    post(&sukkal.project("p"), 2).await;

    until("the second message is delivered", async || endpoint.received().iter().any(|received| received.body() == 2))
        .await;
    assert!(crashed_at.elapsed() < Duration::from_secs(6), "{:?}", crashed_at.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_process_over_redis_delivers_soon_after_a_crash() {
    let redis = RedisServer::start();
    let (mut sukkal, endpoint) = (start(&redis, 1), Endpoint::start());
    subscribe(&sukkal.project("p"), &endpoint, json!({})).await;
    post(&sukkal.project("p"), 1).await;
    endpoint.wait_for(1).await;

    sukkal.kill();
    let crashed_at = Instant::now();
    wait_for_receivers(&redis, 0);
    let sukkal = start(&redis, 1);
    let started_at = Instant::now();
    post(&sukkal.project("p"), 2).await;

    let received = endpoint.wait_for(2).await;
    let (pause, started_after) = (received.last().unwrap().at - crashed_at, started_at - crashed_at);
    assert!(pause <= PAUSE_MAX + started_after, "{pause:?}, started after {started_after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_ordered_subscriptions_wait_until_no_attempt_of_a_lost_process_can_run() {
    let redis = RedisServer::start();
    let (first, parallel) = (start(&redis, 1), Endpoint::start());
    let (end, is_over) = watch::channel(false);
    let ordered = Endpoint::answering(move |received| match received.body().as_u64() {
        Some(0) => Answer::Status(204),
        _ => Answer::When(is_over.clone(), 204),
    });
    subscribe(&first.project("p"), &parallel, json!({})).await;
    let subscription = subscribe(&first.project("p"), &ordered, json!({"ordered": true})).await;
    post(&first.project("p"), 0).await;
    ordered.wait_for(1).await;
    post(&first.project("p"), 1).await;
    let first_attempt = ordered.wait_for(2).await.pop().unwrap();
    let second = start(&redis, 2);
    let api = second.project("p");
    // The attempt keeps the lease. Meanwhile, the other process receives heartbeats of the first
    // one.
    sleep(Duration::from_secs(2)).await;

    first.pause();
    let stopped_at = Instant::now();
    post(&api, 2).await;

    let last = parallel.wait_for(3).await.pop().unwrap();
    assert_eq!(last.body(), 2);
    let pause = last.at - stopped_at;
    assert!(pause <= PAUSE_MAX, "{pause:?}");
    let held = figures(&api, "q", &subscription).await;
    let reason = "The process that delivered is lost, and its last request may still run.";
    assert_eq!((&held["state"], &held["reason"]), (&json!("held"), &json!(reason)));
    assert!(held["until"].is_string(), "{held}");
    let again = ordered.wait_for(3).await.pop().unwrap();
    let apart = again.at - first_attempt.at;
    assert!(apart >= ATTEMPT_MAX && apart < ATTEMPT_MAX + Duration::from_secs(20), "{apart:?}");

    // The first process goes on in the middle of an attempt of the second one.
    first.resume();
    first.logged("another process has taken a delivery lease").await;
    assert_eq!(ordered.received().len(), 3);
    end.send_replace(true);
    assert_eq!(ordered.bodies(4).await, [0, 1, 1, 2].map(|number| json!(number)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_is_longer_than_a_lease_repeats_no_attempt() {
    let redis = RedisServer::start();
    let (end, is_over) = watch::channel(false);
    let endpoint = Endpoint::answering(move |_| Answer::When(is_over.clone(), 204));
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
    let start = |count| start_at(&proxy.url("redis"), &redis, count);
    let first = start(1);
    let api = first.project("p");
    let subscription = subscribe(&api, &endpoint, json!({})).await;
    post(&api, 0).await;
    endpoint.wait_for(1).await;
    let _second = start(2);

    proxy.refuse();
    proxy.cut();
    end.send_replace(true);
    sleep(Duration::from_secs(10)).await;
    proxy.restore();

    until("a message is posted", async || {
        let messages = json!({ "messages": [{ "body": 1 }] });
        api.post("/v2/queues/q/messages", &messages).send().await.unwrap().status() == 201
    })
    .await;
    until("both messages are delivered", async || figures(&api, "q", &subscription).await["delivered"] == 2).await;
    assert_eq!(endpoint.bodies(2).await, numbers(0, 2));
}
