//! Redis stops for a while, or its replies are late, while clients pop, claim and redrive, and a
//! subscriber receives deliveries. Clients that get a 503 lose no message: each message is
//! delivered to one client, and none becomes a dead letter before it was delivered. The subscriber
//! gets each message at least once.
//!
//! `SUKKAL_STALLS` sets how often each store stops for each of these times.

mod clients;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::time::sleep;

use self::clients::{
    CLAIMED, DELIVERED, FAILED, FAILING, POPPED, Progress, REDRIVEN, claim_all, pop_all, post_numbers, redrive,
};
use super::lost_replies::feed;
use crate::push::LOCAL;
use crate::push::endpoint::Endpoint;
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
/// Time for which Redis stops: shorter than one attempt of a command, as long as a few, and longer
/// than all.
const STOPS: [Duration; 4] =
    [Duration::from_millis(300), Duration::from_millis(600), Duration::from_millis(1_500), Duration::from_secs(3)];

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_while_redis_stops() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &LOCAL);
    assert_nothing_is_lost("redis", &sukkal, &STOPS, || redis.pause(), || redis.resume()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_while_replies_are_late() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
    let sukkal = Sukkal::start_with(&proxy.url("redis"), &LOCAL);
    assert_nothing_is_lost("redis, late replies", &sukkal, &STOPS, || proxy.hold_replies(), || proxy.restore()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_while_the_nodes_of_a_cluster_stop() {
    let cluster = RedisCluster::start();
    let sukkal = Sukkal::start_with(&cluster.url(), &LOCAL);
    let all = |what: fn(&RedisServer)| cluster.nodes().iter().for_each(what);
    let stops = &STOPS[..3];
    assert_nothing_is_lost("cluster", &sukkal, stops, || all(RedisServer::pause), || all(RedisServer::resume)).await;
}

/// The stops are too short for a failover.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_while_a_server_behind_sentinel_stops() {
    let master = RedisServer::start();
    let sentinel = RedisServer::start_sentinel("stalls", &master);
    let sukkal = Sukkal::start_with(&format!("redis-sentinel://127.0.0.1:{}/stalls", sentinel.port()), &LOCAL);
    assert_nothing_is_lost("sentinel", &sukkal, &STOPS[..3], || master.pause(), || master.resume()).await;
}

async fn assert_nothing_is_lost(name: &str, sukkal: &Sukkal, stops: &[Duration], stop: impl Fn(), resume: impl Fn()) {
    let api = sukkal.project("stalls");
    let endpoint = Endpoint::start();
    prepare(&api, &endpoint).await;
    let progress = Progress::default();
    let is_over = || progress.is_over.load(Ordering::SeqCst);
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
    let redrive_repeatedly = async {
        while !is_over() {
            redrive(&api, &progress).await;
        }
    };
    let poppers = join_all((0..WORKERS).map(|_| pop_all(&api, &progress)));
    let claimers = |queue| join_all((0..WORKERS).map(|_| claim_all(&api, &progress, queue)));

    let ((), (), (), popped, claimed, redriven) = tokio::join!(
        disturb,
        post_numbers(&api, &progress),
        redrive_repeatedly,
        poppers,
        claimers(CLAIMED),
        claimers(REDRIVEN)
    );
    let posted = progress.posted.load(Ordering::SeqCst);
    let mut received = [popped.concat(), claimed.concat(), redriven.concat()];
    // Messages of pops and claims that were refused return when the store answers again.
    until("no message is left", async || {
        redrive(&api, &progress).await;
        received[0].extend(pop_all(&api, &progress).await);
        received[1].extend(claim_all(&api, &progress, CLAIMED).await);
        received[2].extend(claim_all(&api, &progress, REDRIVEN).await);
        received.iter().all(|numbers| numbers.len() >= posted) && are_empty(&api, &[POPPED, FAILING, FAILED]).await
    })
    .await;
    let expected: BTreeSet<u64> = (0..posted as u64).collect();
    let delivered =
        || -> BTreeSet<u64> { endpoint.received().iter().map(|received| received.body().as_u64().unwrap()).collect() };
    until("each message is delivered to the subscriber", async || delivered() == expected).await;

    for numbers in &mut received {
        numbers.sort_unstable();
        assert!(numbers.iter().eq(&expected), "each message is delivered once: {numbers:?}");
    }
    assert!(are_empty(&api, &["/v2/queues/dead"]).await, "a message has become a dead letter");
    let refused = progress.refused.load(Ordering::SeqCst);
    assert!(refused > 0, "no request has failed");
    let again = endpoint.received().len() - posted;
    report::checked("stalls", name, posted, format!("{refused} refused, {again} delivered to the subscriber again"));
}

/// Creates the queues, as soon as that is possible, and the subscription.
async fn prepare(api: &Api, endpoint: &Endpoint) {
    // A message that is claimed by nobody who knows would become a dead letter.
    let once = json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead" });
    let failing = json!({ "_max_claim_count": 1, "_dead_letter_queue": "failed" });
    for (queue, metadata) in [(CLAIMED, &once), (REDRIVEN, &once), (FAILING, &failing), (FAILED, &json!({}))] {
        until("the queue is created", async || {
            api.put(queue).json(metadata).send().await.unwrap().status().is_success()
        })
        .await;
    }
    let subscription = json!({ "subscriber": endpoint.url("/"), "ttl": 1_000_000 });
    let created = api.post(&format!("{DELIVERED}/subscriptions"), &subscription).send().await.unwrap();
    assert_eq!(created.status(), 201);
}

async fn are_empty(api: &Api, queues: &[&str]) -> bool {
    let feeds = queues.iter().map(async |queue| feed(api, &format!("{queue}/messages")).await);
    join_all(feeds).await.concat().is_empty()
}
