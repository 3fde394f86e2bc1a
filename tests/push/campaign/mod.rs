//! Many subscriptions receive messages while processes are killed or told to stop and the store is
//! restarted. A checker verifies the recorded history.
//!
//! A delivery lease lasts 7 s, and ordered subscriptions wait up to 32 s longer for attempts of a
//! lost holder. The short form therefore kills all processes at once and moves the clocks of the
//! queues past both. This is safe, because no holder is alive. The long form also kills single
//! processes, whose leases expire by themselves.
//!
//! `SUKKAL_PUSHED` sets the number of deliveries and selects the long form. `SUKKAL_SEED` repeats
//! the decisions of the endpoint and the choices of the campaign, but not their timing. A history
//! that breaks a rule is written to cargo's directory for tests.

mod checker;
mod fleet;
mod history;
mod receiver;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use tokio::time::{sleep, timeout};

use self::fleet::{Deliveries, Fleet, POOLS, PROJECT, Store};
use self::history::{Affected, Disturbance, History, Subscriber};
use self::receiver::Receiver;
use crate::http::answered;
use support::cluster::RedisCluster;
use support::random::{self, Random};
use support::redis::RedisServer;
use support::sukkal::CLIENT;
use support::test_bed::ServerUrls;
use support::timeline::{save_history, start_actors};
use support::{campaign, report};

const QUEUES: usize = 10;
const SUBSCRIPTIONS_PER_QUEUE: usize = 5;
const SUBSCRIPTIONS: usize = QUEUES * SUBSCRIPTIONS_PER_QUEUE;
/// Number of deliveries of the short form.
const DELIVERIES: usize = 2_000;
/// Options of a Redis that loses no acknowledged write when it is killed.
const DURABLE: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];
/// Longest time without a first delivery of any message. It is longer than a lease and an attempt.
const STANDSTILL_MAX: Duration = Duration::from_secs(100);
/// Time in which a delivery that must not happen would be noticed.
const QUIET: Duration = Duration::from_millis(1_500);
/// Choices of the campaign.
const POSTERS: u64 = 1;
const DISTURBANCES: u64 = 2;

/// What the campaign does to the servers or to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    KillAll,
    KillAllDuringOutage,
    KillOne,
    StopOne,
    RestartStore,
    Move,
    KillAllDuringMove,
}

use Step::{KillAll, KillAllDuringMove, KillAllDuringOutage, KillOne, Move, RestartStore, StopOne};

/// The steps of the short form, which are shuffled. A node of a cluster serves only two seconds
/// after its start.
const REDIS_STEPS: [Step; 8] =
    [KillAll, KillAll, KillAll, KillAllDuringOutage, StopOne, StopOne, RestartStore, RestartStore];
const CLUSTER_STEPS: [Step; 6] = [KillAll, KillAll, KillAllDuringOutage, StopOne, StopOne, RestartStore];
/// The stops of one pool are what is special about pools.
const POOLED_STEPS: [Step; 8] = [
    KillAll,
    KillAllDuringOutage,
    KillAllDuringOutage,
    StopOne,
    RestartStore,
    RestartStore,
    RestartStore,
    RestartStore,
];
const MOVED_STEPS: [Step; 12] = [
    KillAll,
    StopOne,
    Move,
    Move,
    Move,
    Move,
    Move,
    Move,
    KillAllDuringMove,
    KillAllDuringMove,
    KillAllDuringMove,
    KillAllDuringMove,
];
const EMBEDDED_STEPS: [Step; 7] = [KillAll, KillAll, KillAll, KillAll, StopOne, StopOne, StopOne];
/// The steps of the long form, one of which is chosen at a time.
const LONG_STEPS: [Step; 7] = [KillAll, KillAllDuringOutage, KillOne, KillOne, StopOne, StopOne, RestartStore];
const LONG_MOVED_STEPS: [Step; 6] = [KillAll, KillOne, StopOne, Move, Move, KillAllDuringMove];
const LONG_EMBEDDED_STEPS: [Step; 2] = [KillAll, StopOne];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_little_is_repeated_over_redis() {
    run("redis", Store::Redis(Arc::new(RedisServer::start_with(&DURABLE))), &REDIS_STEPS, &LONG_STEPS).await;
}

/// One pool at a time is down. The subscribers of the queues in the other pool get their messages
/// meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_little_is_repeated_in_pools_that_stop_and_return() {
    run("pooled", Store::pooled().await, &POOLED_STEPS, &LONG_STEPS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_little_is_repeated_while_queues_move() {
    run("moves", Store::pooled().await, &MOVED_STEPS, &LONG_MOVED_STEPS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_little_is_repeated_over_a_cluster() {
    run("cluster", Store::Cluster(Arc::new(RedisCluster::start_with(&DURABLE))), &CLUSTER_STEPS, &LONG_STEPS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_little_is_repeated_in_an_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).unwrap();
    run("embedded", Store::Embedded(store), &EMBEDDED_STEPS, &LONG_EMBEDDED_STEPS).await;
}

/// Runs a campaign over a store, and checks its history.
async fn run(name: &str, store: Store, steps: &[Step], long_steps: &[Step]) {
    let (seed, started) = (random::seed(), Instant::now());
    let pushed = campaign::long_size("SUKKAL_PUSHED");
    let (is_long, count) = (pushed.is_some(), pushed.unwrap_or(DELIVERIES).div_ceil(SUBSCRIPTIONS));
    let receiver = Receiver::start(seed, is_long, started);
    let deliveries =
        Deliveries { so_far: Box::new(receiver.delivered_in_pools()), at_the_end: count * SUBSCRIPTIONS / POOLS };
    let mut fleet = Fleet::start(store, started, deliveries).await;
    let (subscriptions, ids) = subscribe(&fleet, &receiver).await;

    let finished = Arc::new(AtomicBool::new(false));
    let posters = start_actors(QUEUES, |queue| {
        post(fleet.urls.clone(), Random::new(seed, POSTERS, queue), queue, count, is_long)
    });
    let disturber = tokio::spawn({
        let (steps, long_steps, finished) = (steps.to_vec(), long_steps.to_vec(), finished.clone());
        async move {
            let mut random = Random::new(seed, DISTURBANCES, 0);
            if is_long {
                while !finished.load(Ordering::SeqCst) {
                    sleep(Duration::from_millis(random.within(2_000..=30_000))).await;
                    fleet.disturb(*random.choose(&long_steps).unwrap(), &mut random).await;
                }
            } else {
                let mut steps = steps;
                while !steps.is_empty() {
                    sleep(Duration::from_millis(random.within(200..=1_200))).await;
                    fleet.disturb(steps.swap_remove(random.below(steps.len())), &mut random).await;
                }
            }
            fleet
        }
    });
    let mut posted = vec![Vec::new(); QUEUES];
    for (queue, ids) in posters.join_all().await {
        posted[queue] = ids;
    }
    wait_for_deliveries(&receiver, count * SUBSCRIPTIONS).await;
    finished.store(true, Ordering::SeqCst);
    let fleet = disturber.await.unwrap();
    sleep(QUIET).await;
    let history =
        History { subscriptions, posted, requests: receiver.requests(), disturbances: fleet.disturbances.clone() };

    let summary = checker::check(&history).unwrap_or_else(|violation| {
        let file = format!("push-{name}-{seed}.txt");
        let path = save_history(Path::new(env!("CARGO_TARGET_TMPDIR")), &file, |to| history.dump(to));
        panic!("{violation}\nthe history is in {}", path.display());
    });
    check_figures(&fleet, &history, &ids).await;
    let is_pool = |disturbance: &Disturbance| matches!(disturbance.affected, Affected::Pool(_));
    let pool_was_down = fleet.disturbances.iter().any(is_pool);
    assert!(fleet.went_on > 0 || !pool_was_down, "nothing was delivered while a pool was down");
    report::checked("push", name, summary.deliveries, format!("{summary}, seed {seed}"));
}

/// Returns the queue of a subscription.
fn queue_of(subscription: usize) -> usize {
    subscription % QUEUES
}

/// Creates the subscriptions, and returns them with their ids. Half of them are ordered.
async fn subscribe(fleet: &Fleet, receiver: &Receiver) -> (Vec<Subscriber>, Vec<String>) {
    let api = fleet.servers[0].project(PROJECT);
    let (mut subscriptions, mut ids) = (Vec::new(), Vec::new());
    for number in 0..SUBSCRIPTIONS {
        let subscription =
            Subscriber { queue: queue_of(number), is_ordered: (number / QUEUES + number).is_multiple_of(2) };
        // No message is given up.
        let policy = json!({ "retries_with_no_delay": 1_000_000 });
        let options = json!({ "ordered": subscription.is_ordered, "_retry_policy": policy });
        let document = json!({ "subscriber": receiver.url(number), "ttl": 1_000_000, "options": options });
        let path = format!("/v2/queues/{}/subscriptions", fleet::queue_name(subscription.queue));
        let created = answered(api.post(&path, &document), 201).await.json();
        ids.push(created["subscription_id"].as_str().unwrap().to_owned());
        subscriptions.push(subscription);
    }
    (subscriptions, ids)
}

/// Posts the messages of one queue, and returns the queue and the ids of the messages. Each post
/// is repeated until it succeeds, and the next one follows. So the feed has the messages in this
/// order.
async fn post(
    urls: Arc<ServerUrls>,
    mut random: Random,
    queue: usize,
    count: usize,
    is_long: bool,
) -> (usize, Vec<String>) {
    let http = support::plain_http::builder().timeout(Duration::from_secs(5)).build().unwrap();
    let (batch_max, pause_ms_max) = if is_long { (20, 100) } else { (4, 1_000) };
    let mut ids = Vec::new();
    while ids.len() < count {
        sleep(Duration::from_millis(random.within(0..=pause_ms_max))).await;
        let batch = usize::try_from(random.within(1..=batch_max)).unwrap().min(count - ids.len());
        let messages: Vec<Value> =
            (ids.len()..ids.len() + batch).map(|number| json!({ "body": number, "ttl": 1_000_000 })).collect();
        let key = format!("{queue}-{}", ids.len());
        let posted: Value = loop {
            let url = format!("{}/v2/queues/{}/messages", urls.choose(&mut random), fleet::queue_name(queue));
            let request = http.post(url).header("Client-ID", CLIENT).header("X-Project-ID", PROJECT);
            let request = request.header("Idempotency-Key", &key).json(&json!({ "messages": messages }));
            match request.send().await {
                Ok(response) if response.status() == 201 => {
                    if let Ok(posted) = response.json().await {
                        break posted;
                    }
                }
                Ok(response) => assert!(response.status().is_server_error(), "{response:?}"),
                Err(_no_answer) => {}
            }
            sleep(Duration::from_millis(random.within(5..=50))).await;
        };
        let id_of = |href: &Value| href.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        ids.extend(posted["resources"].as_array().unwrap().iter().map(id_of));
    }
    (queue, ids)
}

/// Waits until each subscription has got each message. If there is no progress, the checker says
/// which are lost.
async fn wait_for_deliveries(receiver: &Receiver, count: usize) {
    let mut delivered = receiver.delivered();
    let mut before = *delivered.borrow();
    while before < count {
        let progress = timeout(STANDSTILL_MAX, delivered.wait_for(|now| *now > before)).await;
        match progress {
            Ok(now) => before = *now.unwrap(),
            Err(_standstill) => return,
        }
    }
}

/// Checks the figures of all subscriptions after the campaign.
async fn check_figures(fleet: &Fleet, history: &History, ids: &[String]) {
    let api = fleet.servers[0].project(PROJECT);
    for (number, (id, subscription)) in ids.iter().zip(&history.subscriptions).enumerate() {
        let queue = fleet::queue_name(subscription.queue);
        let path = format!("/v2/queues/{queue}/subscriptions/{id}?with_delivery=true");
        let document: Value = api.get(&path).send().await.unwrap().json().await.unwrap();
        let figures = &document["delivery"];
        let zero = json!(0);
        let of_figures = ["missed", "given_up", "retrying"].map(|name| &figures[name]);
        assert_eq!(of_figures, [&zero; 3], "subscription {number}: {document}");
        let acknowledged = |of: usize| {
            let requests = history.requests.iter().filter(|request| request.subscription == of);
            requests.filter(|request| request.acknowledged().is_some()).count() as u64
        };
        let delivered = figures["delivered"].as_u64().unwrap();
        let messages = history.posted[subscription.queue].len() as u64;
        assert!((messages..=acknowledged(number)).contains(&delivered), "subscription {number}: {document}");
    }
}
