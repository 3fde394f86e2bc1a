//! Many clients fill one queue to its limits through several servers, while its messages are
//! popped, claimed, deleted and expire, its number of shards changes, and it is purged. At no time
//! may the queue have more than its limits. At the end, the counts of the store equal a full count.
//!
//! `SUKKAL_QUOTA_SECONDS` sets how long they work. `SUKKAL_SEED` repeats their choices, but not
//! their timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sukkal_domain::{ProjectId, QueueId, Scope};
use sukkal_storage::{Driver, Listing, Maintenance, QueueUsage, stored_bytes};
use tokio::time::sleep;

use crate::http::{PATCH_TYPE, answered, ok, send};
use support::random::{self, Random};
use support::sukkal::Api;
use support::test_bed::{Home, Server, TestBed, queue_id};
use support::timeline::start_actors;
use support::{campaign, campaigns, report};

const SERVERS: usize = 3;
const CLIENTS: usize = 16;
const SECONDS: usize = 5;
const PROJECT: &str = "campaign";
const QUEUE: &str = "/v2/queues/q";
const MESSAGES_MAX: u64 = 60;
const BYTES_MAX: u64 = 60_000;
/// Messages of about 1,000 bytes on average, so that now one limit is reached first, now the other.
const LENGTH_MAX: usize = 2_000;
const BATCH_MAX: usize = 10;
/// The clock moves further than the shortest time to live, in seconds, and never as far as the
/// other.
const CLOCK_STEP_S: i64 = 70;
const TTLS_S: [u32; 2] = [60, 1_000_000];
/// Choices of the clients.
const ROLE: u64 = 1;

campaigns! {
    a_queue_never_exceeds_its_limits: run("redis", &Home::redis());
    a_queue_never_exceeds_its_limits_in_a_cluster: run("cluster", &Home::cluster());
    a_queue_never_exceeds_its_limits_in_a_file: run("embedded", &Home::file());
}

/// What the clients have done.
#[derive(Debug, Default)]
struct Tally {
    posted: AtomicU64,
    too_many: AtomicU64,
    too_large: AtomicU64,
    removed: AtomicU64,
    expired_at_least_once: AtomicBool,
}

/// What all actors share.
#[derive(Clone)]
struct Context {
    seed: u64,
    bed: TestBed,
    apis: Arc<[Api]>,
    tally: Arc<Tally>,
    is_over: Arc<AtomicBool>,
}

async fn run(name: &str, home: &Home) {
    let (messages, bytes) = (MESSAGES_MAX.to_string(), BYTES_MAX.to_string());
    let limits =
        [("SUKKAL_QUOTAS__MESSAGES_PER_QUEUE", messages.as_str()), ("SUKKAL_QUOTAS__BYTES_PER_QUEUE", bytes.as_str())];
    let servers: Vec<Server> = (0..SERVERS).map(|_| home.bed().serve(&limits)).collect();
    let seed = random::seed();
    let context = Context {
        seed,
        bed: home.bed(),
        apis: servers.iter().map(|server| server.project(PROJECT)).collect(),
        tally: Arc::default(),
        is_over: Arc::default(),
    };
    answered(servers[0].project(PROJECT).put(QUEUE), 201).await;

    let clients = start_actors(CLIENTS, |number| context.clone().work(number));
    let clock = tokio::spawn(context.clone().move_clock());
    let audit = tokio::spawn(context.clone().audit());
    sleep(length()).await;
    context.is_over.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let offset_s = clock.await.expect("the clock was moved");
    let observations = audit.await.expect("no limit was exceeded");

    // Only messages remain that do not expire during the count.
    context.set_clock(offset_s + CLOCK_STEP_S).await;
    let usage = context.checked_usage().await;
    let tally = &context.tally;
    let all = [&tally.posted, &tally.too_many, &tally.too_large, &tally.removed];
    assert!(all.iter().all(|count| count.load(Ordering::Relaxed) > 0), "the run lacks some kinds of events: {tally:?}");
    assert!(tally.expired_at_least_once.load(Ordering::Relaxed), "nothing has expired");
    context.check_that_freed_space_can_be_used(&servers[0].project(PROJECT)).await;
    drop(servers);
    if let Home::Embedded(store, _) = home {
        assert_eq!(store.check().await.expect("the store answers").findings, [""; 0]);
    }
    report::checked("quotas", name, observations, format!("{tally:?}, at the end {usage:?}, seed {seed}"));
}

impl Context {
    fn store(&self) -> &dyn Driver {
        self.bed.store()
    }

    /// Sends requests until the campaign is over.
    async fn work(self, number: usize) {
        let mut random = Random::new(self.seed, ROLE, number);
        while !self.is_over.load(Ordering::Relaxed) {
            let api = random.choose(&self.apis).expect("there are servers").clone();
            match random.below(100) {
                0 => drop(
                    answered(api.post(&format!("{QUEUE}/purge"), &json!({"resource_types": ["messages"]})), 204).await,
                ),
                1 => self.change_shards(&api, &mut random).await,
                2..=14 => {
                    let limit = random.within(1..=5);
                    // A pop is attempted once, so a busy machine may refuse it.
                    let popped = send(api.delete(&format!("{QUEUE}/messages?pop={limit}"))).await;
                    assert!([200, 503].contains(&popped.status), "{popped:?}");
                    self.count_removed(popped.json()["messages"].as_array().map_or(0, Vec::len));
                }
                15..=29 => self.claim(&api, &mut random).await,
                30..=34 => self.delete_listed(&api).await,
                _ => self.post(&api, &mut random).await,
            }
        }
    }

    async fn post(&self, api: &Api, random: &mut Random) {
        let messages: Vec<Value> = (0..random.within(1..=BATCH_MAX as u64))
            .map(|_| {
                let ttl = random.choose(&TTLS_S);
                let tenant = format!("tenant-{}", random.below(5));
                json!({"ttl": ttl, "body": "x".repeat(random.below(LENGTH_MAX)), "tenant": tenant})
            })
            .collect();
        let answer = send(api.post(&format!("{QUEUE}/messages"), &json!({ "messages": messages }))).await;
        let counter = match answer.status {
            201 => &self.tally.posted,
            403 if answer.text.contains("messages_per_queue") => &self.tally.too_many,
            403 if answer.text.contains("bytes_per_queue") => &self.tally.too_large,
            _ => panic!("{answer:?}"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Claims messages. Then deletes some of them, and releases the claim or lets it expire.
    async fn claim(&self, api: &Api, random: &mut Random) {
        let limit = random.within(1..=8);
        let term = json!({"ttl": 60, "grace": 60});
        let claim = ok(api.post(&format!("{QUEUE}/claims?limit={limit}"), &term)).await;
        for message in claim["messages"].as_array().into_iter().flatten() {
            if random.one_in(3) {
                continue;
            }
            // The claim may have expired, because the clock has moved.
            let status = send(api.delete(message["href"].as_str().expect("it has a path"))).await.status;
            assert!([204, 400, 403].contains(&status), "{status}");
            self.count_removed(usize::from(status == 204));
        }
        if let Some(id) = claim["id"].as_str().filter(|_| random.one_in(2)) {
            answered(api.delete(&format!("{QUEUE}/claims/{id}")), 204).await;
        }
    }

    async fn delete_listed(&self, api: &Api) {
        let listed = answered(api.get(&format!("{QUEUE}/messages?echo=true&limit=3")), 200).await.json();
        let ids: Vec<&str> =
            listed["messages"].as_array().into_iter().flatten().filter_map(|message| message["id"].as_str()).collect();
        if !ids.is_empty() {
            answered(api.delete(&format!("{QUEUE}/messages?ids={}", ids.join(","))), 204).await;
            self.count_removed(ids.len());
        }
    }

    async fn change_shards(&self, api: &Api, random: &mut Random) {
        let change = json!([{"op": "add", "path": "/metadata/_shards", "value": random.choose(&[1, 4, 16])}]);
        let request = api.request(reqwest::Method::PATCH, QUEUE);
        let request = request.header("Content-Type", PATCH_TYPE);
        answered(request.body(change.to_string()), 200).await;
    }

    fn count_removed(&self, count: usize) {
        self.tally.removed.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Moves the clock of the queue forward again and again. Returns how far it is ahead.
    async fn move_clock(self) -> i64 {
        let mut offset_s = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let before = self.usage().await.messages;
            offset_s += CLOCK_STEP_S;
            self.set_clock(offset_s).await;
            self.store().get_stats(&queue(), false).await.expect("the store answers");
            if self.usage().await.messages < before {
                self.tally.expired_at_least_once.store(true, Ordering::Relaxed);
            }
            sleep(Duration::from_millis(200)).await;
        }
        offset_s
    }

    async fn set_clock(&self, offset_s: i64) {
        self.bed.set_clock(&queue(), offset_s * 1_000_000).await;
    }

    /// Measures the queue all the time. Returns how often.
    async fn audit(self) -> usize {
        let mut observations = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let usage = self.usage().await;
            assert!(usage.messages <= MESSAGES_MAX && usage.bytes <= BYTES_MAX, "{usage:?}");
            observations += 1;
        }
        observations
    }

    async fn usage(&self) -> QueueUsage {
        let project = ProjectId::new(PROJECT).expect("it is short");
        self.store().measure_queues(&project, None, 10).await.expect("the store answers").usage
    }

    /// Returns what the store has counted, and compares it with a full count.
    async fn checked_usage(&self) -> QueueUsage {
        let stats = self.store().get_stats(&queue(), false).await.expect("the store answers");
        let scope = Scope { claimed: true, delayed: true };
        let listing = Listing { scope, ..Listing::first(1 + usize::try_from(MESSAGES_MAX).expect("it is small")) };
        let messages = self.store().list_messages(&queue(), &listing).await.expect("the store answers").messages;
        let bytes = stored_bytes(messages.iter().map(|message| &message.body), None);
        let usage = self.usage().await;
        assert_eq!((usage.messages, usage.bytes), (messages.len() as u64, bytes));
        assert_eq!(stats.total, usage.messages);
        usage
    }

    /// Fills the queue, then removes one message at a time and posts another one in its place.
    async fn check_that_freed_space_can_be_used(&self, api: &Api) {
        let path = format!("{QUEUE}/messages");
        let post = || send(api.post(&path, &json!({"messages": [{"ttl": 1_000_000, "body": "x"}]})));
        while post().await.status == 201 {}
        let full = self.checked_usage().await;
        for _ in 0..5 {
            assert_eq!(post().await.status, 403);
            let popped = answered(api.delete(&format!("{path}?pop=1")), 200).await;
            if popped.json()["messages"] == json!([]) {
                // Claims hold all messages.
                answered(api.post(&format!("{QUEUE}/purge"), &json!({"resource_types": ["messages"]})), 204).await;
            }
            assert_eq!(post().await.status, 201);
            while post().await.status == 201 {}
        }
        let usage = self.checked_usage().await;
        assert!(usage.messages == MESSAGES_MAX || usage.bytes + 16 > BYTES_MAX, "{usage:?} after {full:?}");
    }
}

fn queue() -> QueueId {
    queue_id(PROJECT, "q")
}

fn length() -> Duration {
    Duration::from_secs(campaign::size("SUKKAL_QUOTA_SECONDS", SECONDS) as u64)
}
