//! A master is lost under load, in each way in which that can happen, and its replica takes over.
//! Clients get no other error than a 503, everything works again soon, and the recorded responses
//! hold except for the last writes before the failover.
//!
//! `SUKKAL_FAILOVERS` sets the number of failovers of the campaign, which counts what is lost.

mod group;
mod history;
mod load;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::timeout;

use self::group::{Fault, SentinelGroup};
use self::history::Summary;
use self::load::Clients;
use super::requests::{HANG_TIMEOUT, PROMISED, SLACK};
use crate::support::cluster::RedisCluster;
use crate::support::events::Events;
use crate::support::redis::{RedisServer, block_until};
use crate::support::sukkal::{Api, Sukkal};

const PROJECT: &str = "failovers";
/// Number of acknowledged posts before and after each failover.
const POSTS: usize = 100;
/// A healthy replica has a write earlier than this, in microseconds.
const REPLICATED_WITHIN_US: u64 = 500_000;
const CAMPAIGN: usize = 3;

/// The outcome of one failover.
#[derive(Debug)]
struct Outcome {
    summary: Summary,
    /// From the promotion of the replica to the first write on it.
    recovered: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_master_is_recovered_from() {
    fail_over_once(Fault::Crash).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_the_operator_orders_is_followed_while_the_old_master_answers() {
    fail_over_once(Fault::Command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed_while_the_old_master_is_cut_off_only_from_the_others() {
    fail_over_once(Fault::Partition).await;
}

async fn fail_over_once(fault: Fault) {
    let mut group = SentinelGroup::start();
    let sukkal = Sukkal::start(&group.url());
    fail_over(&sukkal, &mut group, fault, "once", None).await;
}

/// The number of lost messages depends on Redis alone, so it is printed and not checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_failovers_lose_only_the_last_writes_before_each() {
    campaign(None).await;
}

/// Fails over again and again, by crashes and by orders. Each post has the header `Durability` with
/// this value. Returns the number of acknowledged messages that were lost.
async fn campaign(durability: Option<&'static str>) -> usize {
    let mut group = SentinelGroup::start();
    let sukkal = Sukkal::start(&group.url());
    let (mut lost, mut acknowledged, mut slowest) = ([0, 0], 0, Duration::ZERO);
    let failovers = match std::env::var("SUKKAL_FAILOVERS") {
        Ok(text) => text.parse().expect("SUKKAL_FAILOVERS is a number"),
        Err(_) => CAMPAIGN,
    };
    for number in 0..failovers {
        let fault = if number % 2 == 0 { Fault::Crash } else { Fault::Command };
        let outcome = fail_over(&sukkal, &mut group, fault, &format!("round-{number}"), durability).await;
        block_in_place(|| group.rejoin(fault));
        lost[number % 2] += outcome.summary.lost;
        acknowledged += outcome.summary.acknowledged;
        slowest = slowest.max(outcome.recovered);
    }
    println!(
        "failovers: {failovers} with durability {durability:?}: of {acknowledged} acknowledged messages, {} were lost \
         by crashes and {} by orders; slowest recovery {slowest:?}",
        lost[0], lost[1]
    );
    lost[0] + lost[1]
}

async fn fail_over(
    sukkal: &Sukkal,
    group: &mut SentinelGroup,
    fault: Fault,
    name: &str,
    durability: Option<&'static str>,
) -> Outcome {
    let api = sukkal.project(PROJECT);
    let clients = Clients::start(api.clone(), name, durability).await;
    let waiters = Waiters::start(&api, name).await;
    clients.wait_for_posts(POSTS).await;

    let began = clients.now();
    let promoted = block_in_place(|| group.fail_over(fault));
    let outcome = check_recovery(&api, clients, waiters, name, (began, promoted), group.master()).await;
    println!("failover by {fault:?}: {outcome:?}");
    outcome
}

/// Checks what clients see after the promotion of a replica.
async fn check_recovery(
    api: &Api,
    clients: Clients,
    waiters: Waiters,
    name: &str,
    (began, promoted): (u64, Instant),
    new_master: &RedisServer,
) -> Outcome {
    let late_waiter = start_claim(api, &format!("{name}-late"));
    let key = format!("sukkal:{{{PROJECT}/{name}-feed}}:messages");
    let stored = || new_master.try_command(&["HLEN", &key]).ok().map(|count| count.as_int());
    block_in_place(|| {
        let mut before = None;
        block_until("the new master stores a post", || {
            let now = stored();
            before = before.or(now);
            now > before
        });
    });
    let (recovered, recovered_at) = (promoted.elapsed(), clients.now());
    assert!(recovered < PROMISED + SLACK, "the new master was used {recovered:?} after its promotion");

    waiters.assert_notified(api).await;
    post(api, &format!("{name}-late")).await;
    assert_claimed(late_waiter, "late").await;
    clients.wait_for_posts(POSTS).await;
    println!("{name}: {} requests were refused, recovered after {recovered:?}", clients.refused());
    let history = clients.stop((began.saturating_sub(REPLICATED_WITHIN_US), recovered_at)).await;
    let summary = history.check().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(summary.observed > 0 && summary.claimed > 0 && summary.deleted > 0, "{summary:?}");
    Outcome { summary, recovered }
}

/// A claim and an event stream that wait for the first message of a queue.
struct Waiters {
    queue: String,
    claim: JoinHandle<Value>,
    events: Events,
}

impl Waiters {
    async fn start(api: &Api, name: &str) -> Self {
        let queue = format!("{name}-quiet");
        let feed = format!("/v2/queues/{queue}/messages?echo=true&include_claimed=true");
        let events = Events::open(api.get(&feed)).await;
        Self { claim: start_claim(api, &queue), queue, events }
    }

    async fn assert_notified(mut self, api: &Api) {
        post(api, &self.queue).await;
        assert_claimed(self.claim, "early").await;
        assert_eq!(self.events.bodies(1).await, ["after"]);
    }
}

/// Claims the first message of a queue. Tries again if the store is not available at first.
fn start_claim(api: &Api, queue: &str) -> JoinHandle<Value> {
    let (api, path) = (api.clone(), format!("/v2/queues/{queue}/claims?wait=30"));
    tokio::spawn(async move {
        loop {
            let response = api.post(&path, &json!({})).send().await.expect("the server answers");
            match response.status().as_u16() {
                201 => return response.json().await.expect("a claim is JSON"),
                status => assert_eq!(status, 503),
            }
        }
    })
}

async fn assert_claimed(claim: JoinHandle<Value>, which: &str) {
    let claim = claim.await.unwrap_or_else(|error| panic!("the {which} claim: {error}"));
    assert_eq!(claim["messages"][0]["body"], "after", "{which}: {claim}");
}

/// Posts as soon as that is possible.
async fn post(api: &Api, queue: &str) {
    let message = json!({ "messages": [{ "body": "after" }] });
    let path = format!("/v2/queues/{queue}/messages");
    let posted = async {
        while api.post(&path, &message).header("Idempotency-Key", "\"after\"").send().await.unwrap().status() != 201 {}
    };
    timeout(HANG_TIMEOUT, posted).await.expect("the store is back");
}

/// A master of a cluster is killed, and its replica takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_a_master_of_a_cluster_is_recovered_from() {
    let cluster = RedisCluster::start();
    let queue = format!("sukkal:{{{PROJECT}/cluster-feed}}:queue");
    let replica = RedisCluster::add_replica(cluster.node_of(&queue));
    let sukkal = Sukkal::start(&cluster.url());
    let api = sukkal.project(PROJECT);
    let clients = Clients::start(api.clone(), "cluster", None).await;
    let waiters = Waiters::start(&api, "cluster").await;
    clients.wait_for_posts(POSTS).await;

    let began = clients.now();
    block_in_place(|| {
        cluster.node_of(&queue).kill();
        block_until("the replica is promoted", || {
            replica.command(&["INFO", "replication"]).as_text().contains("role:master")
        });
    });
    let promoted = (began, Instant::now());
    let outcome = check_recovery(&api, clients, waiters, "cluster", promoted, &replica).await;
    println!("failover in a cluster: {outcome:?}");
}
