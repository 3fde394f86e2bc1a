//! A master is lost under load, in each way in which that can happen, and its replica takes over.
//! Clients get no other error than a 503, everything works again soon, and the recorded responses
//! hold except for the last writes before the failover.
//!
//! `campaign.rs` fails over again and again, and counts what is lost.

mod campaign;
mod group;
mod history;
mod load;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::sleep;

use self::group::{Fault, SentinelGroup};
use self::history::Summary;
use self::load::{Clients, PAUSE};
use super::requests::{PROMISED, SLACK};
use support::cluster::RedisCluster;
use support::events::Events;
use support::redis::RedisServer;
use support::report;
use support::sukkal::{Api, Sukkal};
use support::waiting::{block_until, in_time, until};

const PROJECT: &str = "failovers";
/// Number of acknowledged posts before and after each failover.
const POSTS: usize = 100;

/// The outcome of one failover.
#[derive(Debug)]
struct Outcome {
    summary: Summary,
    /// Number of responses 503.
    refused: usize,
    /// From the promotion of the replica to the first write on it. With receipts, from the moment
    /// at which the new master has a replica to the first receipt.
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
    let outcome = fail_over(&sukkal, &mut group, fault, "once").await;
    report::checked("failovers", &format!("{fault:?}"), 1, format!("{outcome:?}"));
}

/// Fails over without receipts.
async fn fail_over(sukkal: &Sukkal, group: &mut SentinelGroup, fault: Fault, name: &str) -> Outcome {
    let started = Started::new(sukkal, name, None).await;
    let began = started.replicated(group.master());
    let promoted = block_in_place(|| group.fail_over(fault));
    started.check_recovery((began, promoted), group.master()).await
}

/// Clients at work, which have posted messages, and others that wait.
struct Started {
    api: Api,
    name: String,
    clients: Clients,
    waiters: Waiters,
}

impl Started {
    /// Starts the clients. Each post has the header `Durability` with this value.
    async fn new(sukkal: &Sukkal, name: &str, durability: Option<&'static str>) -> Self {
        let api = sukkal.project(PROJECT);
        let clients = Clients::start(api.clone(), name, durability).await;
        let waiters = Waiters::start(&api, name).await;
        clients.wait_for_posts(POSTS).await;
        Self { api, name: name.to_owned(), clients, waiters }
    }

    /// Waits until the replica has all that was acknowledged when this was called, and returns that
    /// time. Later writes may be lost with the master.
    fn replicated(&self, master: &RedisServer) -> u64 {
        let now = self.clients.now();
        let mut awaited = None;
        block_in_place(|| {
            block_until("the replica has the writes so far", || {
                let info = master.command(&["INFO", "replication"]);
                let (written, received) = offsets(info.as_text());
                received >= Some(*awaited.get_or_insert(written))
            });
        });
        now
    }

    /// Returns the number of messages of the feed that a server has; `None` if it cannot be
    /// reached.
    fn stored(&self, server: &RedisServer) -> Option<i64> {
        let key = format!("sukkal:{{{PROJECT}/{}-feed}}:messages", self.name);
        server.try_command(&["HLEN", &key]).ok().map(|count| count.as_int())
    }

    /// Checks what clients without receipts see after the promotion of a replica.
    async fn check_recovery(self, (began, promoted): (u64, Instant), new_master: &RedisServer) -> Outcome {
        let late_waiter = self.start_late_waiter();
        block_in_place(|| {
            let mut before = None;
            block_until("the new master stores a post", || {
                let now = self.stored(new_master);
                before = before.or(now);
                now > before
            });
        });
        self.finish(began, promoted.elapsed(), None, late_waiter).await
    }

    /// Starts a client that waits for the first message of a queue.
    fn start_late_waiter(&self) -> JoinHandle<Value> {
        start_claim(&self.api, &format!("{}-late", self.name))
    }

    /// Checks what clients see after the first acknowledged write to the new master, and all that
    /// they were told since the failover began.
    async fn finish(
        self,
        began: u64,
        recovered: Duration,
        without_replica: Option<(u64, u64)>,
        late_waiter: JoinHandle<Value>,
    ) -> Outcome {
        let Self { api, name, clients, waiters } = self;
        let recovered_at = clients.now();
        assert!(recovered < PROMISED + SLACK, "posts were accepted again after {recovered:?}");
        waiters.assert_notified(&api).await;
        post(&api, &format!("{name}-late")).await;
        assert_claimed(late_waiter, "late").await;
        clients.wait_for_posts(POSTS).await;
        let refused = clients.refused();
        let mut history = clients.stop((began, recovered_at)).await;
        history.without_replica = without_replica;
        let summary = history.check().unwrap_or_else(|violation| panic!("{name}: {violation}"));
        assert!(summary.observed > 0 && summary.claimed > 0 && summary.deleted > 0, "{summary:?}");
        Outcome { summary, refused, recovered }
    }
}

/// Returns how much a master has written, and how much of it its replica has confirmed.
fn offsets(info: &str) -> (u64, Option<u64>) {
    let number = |after: &str| {
        let digits = info.split_once(after)?.1;
        digits[..digits.find(|next: char| !next.is_ascii_digit())?].parse().ok()
    };
    (number("master_repl_offset:").expect("a master has an offset"), number(",offset="))
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
            sleep(PAUSE).await;
        }
    })
}

async fn assert_claimed(claim: JoinHandle<Value>, which: &str) {
    let claim = in_time("a message for the claim arrives", claim).await;
    let claim = claim.unwrap_or_else(|error| panic!("the {which} claim: {error}"));
    assert_eq!(claim["messages"][0]["body"], "after", "{which}: {claim}");
}

/// Posts as soon as that is possible.
async fn post(api: &Api, queue: &str) {
    let message = json!({ "messages": [{ "body": "after" }] });
    let path = format!("/v2/queues/{queue}/messages");
    until("the store is back", async || {
        api.post(&path, &message).header("Idempotency-Key", "\"after\"").send().await.unwrap().status() == 201
    })
    .await;
}

/// A master of a cluster is killed, and its replica takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_a_master_of_a_cluster_is_recovered_from() {
    let cluster = RedisCluster::start();
    let queue = format!("sukkal:{{{PROJECT}/cluster-feed}}:queue");
    let replica = cluster.add_replica(cluster.node_of(&queue));
    let sukkal = Sukkal::start(&cluster.url());
    let started = Started::new(&sukkal, "cluster", None).await;

    let began = started.replicated(cluster.node_of(&queue));
    block_in_place(|| {
        cluster.node_of(&queue).kill();
        block_until("the replica is promoted", || {
            replica.command(&["INFO", "replication"]).as_text().contains("role:master")
        });
    });
    let outcome = started.check_recovery((began, Instant::now()), &replica).await;
    report::checked("failovers", "cluster", 1, format!("{outcome:?}"));
}
