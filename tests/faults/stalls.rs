//! Redis stops for a while, or its replies are late, while workers pop and claim. Clients that get a 503 lose
//! no message: each message is delivered to one client, and none becomes a dead letter before it was
//! delivered.
//!
//! `SUKKAL_STALLS` sets how often each store stops for each of these times.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::lost_replies::feed;
use support::cluster::RedisCluster;
use support::proxy::Proxy;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};
use support::waiting::until;
use support::{campaign, report};

/// Number of workers of each kind.
const WORKERS: usize = 8;
/// Number of messages that are delivered between two stops.
const DELIVERED_BETWEEN: usize = 20;
/// Maximum number of messages in a queue that workers have not received.
const WAITING_MAX: usize = 100;
/// Time for which Redis stops: shorter than one attempt of a command, as long as a few, and longer than all.
const STOPS: [Duration; 4] =
    [Duration::from_millis(300), Duration::from_millis(600), Duration::from_millis(1_500), Duration::from_secs(3)];
const POPPED: &str = "/v2/queues/popped";
const CLAIMED: &str = "/v2/queues/claimed";

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_while_redis_stops() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    assert_nothing_is_lost("redis", &sukkal, &STOPS, || redis.pause(), || redis.resume()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_while_replies_are_late() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
    let sukkal = Sukkal::start(&proxy.url("redis"));
    assert_nothing_is_lost("redis, late replies", &sukkal, &STOPS, || proxy.hold_replies(), || proxy.restore()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_while_the_nodes_of_a_cluster_stop() {
    let cluster = RedisCluster::start();
    let sukkal = Sukkal::start(&cluster.url());
    let all = |what: fn(&RedisServer)| cluster.nodes().iter().for_each(what);
    let stops = &STOPS[..3];
    assert_nothing_is_lost("cluster", &sukkal, stops, || all(RedisServer::pause), || all(RedisServer::resume)).await;
}

/// The stops are too short for a failover.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_while_a_server_behind_sentinel_stops() {
    let master = RedisServer::start();
    let sentinel = RedisServer::start_sentinel("stalls", &master);
    let sukkal = Sukkal::start(&format!("redis-sentinel://127.0.0.1:{}/stalls", sentinel.port()));
    assert_nothing_is_lost("sentinel", &sukkal, &STOPS[..3], || master.pause(), || master.resume()).await;
}

/// What the workers have done.
#[derive(Default)]
struct Progress {
    posted: AtomicUsize,
    /// Number of messages that were received, from both queues.
    received: AtomicUsize,
    refused: AtomicUsize,
    is_over: AtomicBool,
}

/// Returns the answer, or `None` for a 503.
async fn answered(progress: &Progress, request: reqwest::RequestBuilder) -> Option<(StatusCode, Value)> {
    let response = request.send().await.expect("the service answers");
    let status = response.status();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        progress.refused.fetch_add(1, Ordering::SeqCst);
        return None;
    }
    assert!(status.is_success(), "{status}");
    let body = response.bytes().await.expect("the answer is complete");
    Some((status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() }))
}

fn bodies(messages: &Value) -> Vec<u64> {
    messages.as_array().unwrap().iter().map(|message| message["body"].as_u64().unwrap()).collect()
}

/// Posts the same numbers to both queues. A post that gets a 503 is repeated with its key.
async fn post_numbers(api: &Api, progress: &Progress) {
    let mut number = 0;
    while !progress.is_over.load(Ordering::SeqCst) {
        if 2 * number > progress.received.load(Ordering::SeqCst) + WAITING_MAX {
            sleep(Duration::from_millis(5)).await;
            continue;
        }
        let messages =
            json!({ "messages": (number..number + 10).map(|number| json!({ "body": number })).collect::<Vec<_>>() });
        for queue in [POPPED, CLAIMED] {
            let post = || {
                let request = api.post(&format!("{queue}/messages"), &messages);
                request.header("Idempotency-Key", format!("\"{number}\""))
            };
            while answered(progress, post()).await.is_none() {}
        }
        number += 10;
        progress.posted.store(number, Ordering::SeqCst);
    }
}

async fn pop_all(api: &Api, progress: &Progress) -> Vec<u64> {
    let mut received = Vec::new();
    loop {
        let was_over = progress.is_over.load(Ordering::SeqCst);
        let pop = api.request(Method::DELETE, &format!("{POPPED}/messages?pop=2"));
        let Some((_, answer)) = answered(progress, pop).await else { continue };
        let popped = bodies(&answer["messages"]);
        if popped.is_empty() && was_over {
            return received;
        }
        progress.received.fetch_add(popped.len(), Ordering::SeqCst);
        received.extend(popped);
    }
}

/// Claims messages, renews the claim and deletes them, and repeats what gets a 503.
async fn claim_all(api: &Api, progress: &Progress) -> Vec<u64> {
    let mut received = Vec::new();
    let term = json!({ "ttl": 43_200, "grace": 60 });
    loop {
        let was_over = progress.is_over.load(Ordering::SeqCst);
        let claim = api.post(&format!("{CLAIMED}/claims?limit=2"), &term);
        let Some((status, answer)) = answered(progress, claim).await else { continue };
        if status == StatusCode::NO_CONTENT {
            if was_over {
                return received;
            }
            continue;
        }
        let claimed = bodies(&answer["messages"]);
        let hrefs = answer["messages"].as_array().unwrap().iter().map(|message| message["href"].as_str().unwrap());
        let claim = hrefs.clone().next().unwrap().split("claim_id=").nth(1).unwrap();
        let renew = || api.request(Method::PATCH, &format!("{CLAIMED}/claims/{claim}")).json(&term);
        while answered(progress, renew()).await.is_none() {}
        for href in hrefs {
            while answered(progress, api.delete(href)).await.is_none() {}
        }
        progress.received.fetch_add(claimed.len(), Ordering::SeqCst);
        received.extend(claimed);
    }
}

async fn assert_nothing_is_lost(name: &str, sukkal: &Sukkal, stops: &[Duration], stop: impl Fn(), resume: impl Fn()) {
    let api = sukkal.project("stalls");
    // A message that is claimed by nobody who knows would become a dead letter.
    let once = json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead" });
    until("the queue is created", async || api.put(CLAIMED).json(&once).send().await.unwrap().status() == 201).await;
    let progress = Progress::default();
    let disturb = async {
        for time in stops.repeat(campaign::size("SUKKAL_STALLS", 1)) {
            let before = progress.received.load(Ordering::SeqCst);
            until("messages are delivered", async || {
                progress.received.load(Ordering::SeqCst) >= before + DELIVERED_BETWEEN
            })
            .await;
            stop();
            sleep(time).await;
            resume();
        }
        progress.is_over.store(true, Ordering::SeqCst);
    };
    let poppers = join_all((0..WORKERS).map(|_| pop_all(&api, &progress)));
    let claimers = join_all((0..WORKERS).map(|_| claim_all(&api, &progress)));

    let ((), (), popped, claimed) = tokio::join!(disturb, post_numbers(&api, &progress), poppers, claimers);
    let mut received = [popped.concat(), claimed.concat()];
    // Messages of pops and claims that were refused return when the store answers again.
    until("no message is left", async || {
        received[0].extend(pop_all(&api, &progress).await);
        received[1].extend(claim_all(&api, &progress).await);
        feed(&api, &format!("{POPPED}/messages")).await.is_empty()
            && received.iter().all(|numbers| numbers.len() >= progress.posted.load(Ordering::SeqCst))
    })
    .await;

    let expected: Vec<u64> = (0..progress.posted.load(Ordering::SeqCst) as u64).collect();
    for numbers in &mut received {
        numbers.sort_unstable();
        assert_eq!(*numbers, expected, "each message is delivered once");
    }
    assert!(feed(&api, "/v2/queues/dead/messages").await.is_empty(), "a message has become a dead letter");
    let refused = progress.refused.load(Ordering::SeqCst);
    assert!(refused > 0, "no request has failed");
    report::checked("stalls", name, expected.len(), format!("{refused} refused"));
}
