//! Mails that cannot be sent yet: because the service stops, or because their subscription is
//! paused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::MailBench;
use super::server::MailServer;
use support::ports;
use support::redis::RedisServer;
use support::sukkal::MOVABLE_CLOCK;
use support::test_bed::{open_movable, queue_id, set_clock};
use support::waiting::until_some;

const COUNT: u64 = 10;
/// Longer than a delivery lease.
const LEASE_OVER_US: i64 = 41_000_000;
/// Maximum time that the service takes to stop.
const STOP_DURATION_MAX: Duration = Duration::from_secs(15);

/// Returns the bodies of the messages in all mails that have arrived, sorted.
fn bodies(server: &MailServer) -> Vec<u64> {
    let body = |mail: &Value| {
        let document: Value = serde_json::from_str(mail["text"].as_str().unwrap()).unwrap();
        document["body"].as_u64().unwrap()
    };
    let mut bodies: Vec<u64> = server.mails().iter().map(body).collect();
    bodies.sort_unstable();
    bodies
}

/// Stops a service whose mail server accepts connections and never answers, and starts another one
/// with a mail server that works. The first service waits for its attempts if `ends_in_time`, which
/// then fail. Otherwise it stops before they end.
async fn restart(store: &str, ends_in_time: bool) {
    let silent = ports::listen();
    let port = silent.local_addr().unwrap().port();
    let drain = if ends_in_time { "30" } else { "1" };
    let options = [("SUKKAL_DRAIN_TIMEOUT", drain), ("SUKKAL_MAIL__MAX_CONNECTIONS", "2"), MOVABLE_CLOCK];
    let mut bench = MailBench::with_store(store, port, &options);
    let subscription = bench.subscribe("mailto:a@trusted.example", json!({})).await;
    for number in 0..COUNT {
        bench.post(json!(number)).await;
    }
    silent.set_nonblocking(true).unwrap();
    let connection = until_some("the service connects", async || silent.accept().ok()).await;
    let mut hanging = Some((silent, connection));

    let began = Instant::now();
    bench.sukkal().terminate();
    bench.sukkal().logged("draining").await;
    if ends_in_time {
        hanging = None;
    }
    assert!(bench.process.as_mut().and_then(Arc::get_mut).unwrap().wait().success());
    assert!(began.elapsed() < STOP_DURATION_MAX, "{store}: {:?}", began.elapsed());
    drop(hanging);

    let server = MailServer::start();
    let bench = MailBench::with_store(store, server.port, &[MOVABLE_CLOCK]);
    if !ends_in_time {
        expire_delivery_lease(store, &bench, &subscription).await;
    }
    bench.wait_until(&subscription, |figures| figures["delivered"] == COUNT).await;
    assert_eq!(bodies(&server), (0..COUNT).collect::<Vec<_>>(), "{store}");
}

/// Moves the clock of the queue past the delivery lease of the first service, and makes the other
/// one read the clock: it does when a subscription changes.
async fn expire_delivery_lease(store: &str, bench: &MailBench, subscription: &str) {
    set_clock(&open_movable(store), &queue_id("p", "q"), LEASE_OVER_US).await;
    let change = bench.api.request(Method::PATCH, &format!("/v2/queues/q/subscriptions/{subscription}"));
    assert_eq!(change.json(&json!({ "ttl": 3_600 })).send().await.unwrap().status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn mails_that_hang_or_wait_when_the_service_stops_are_sent_after_its_restart() {
    let (redis, file) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let (url, embedded) = (redis.url(), format!("embedded:{}", file.path().display()));
    tokio::join!(restart(&url, false), restart(&embedded, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_subscription_gets_no_mail_until_it_is_resumed() {
    let server = MailServer::start();
    let bench = MailBench::over(&server, &[]);
    let paused = bench.subscribe("mailto:paused@trusted.example", json!({})).await;
    let other = bench.subscribe("mailto:other@trusted.example", json!({})).await;
    bench.act(&paused, "pause").await;
    bench.post(json!(1)).await;
    bench.post(json!(2)).await;

    bench.wait_until(&other, |figures| figures["delivered"] == 2).await;
    assert_eq!(bodies(&server), [1, 2]);
    assert!(server.events("recipient").iter().all(|recipient| recipient["address"] == "other@trusted.example"));

    bench.act(&paused, "resume").await;
    server.wait_for(4).await;
    assert_eq!(bodies(&server), [1, 1, 2, 2]);
}
