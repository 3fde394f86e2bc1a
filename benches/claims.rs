//! Measures whether the cost of a claim depends on the messages that are already claimed: claims
//! and deletes 10 messages behind 0, 1,000 and 100,000 claimed messages.
//!
//! The figures are the time in Redis (`INFO commandstats`), the latency over HTTP, and the
//! processor time of the service, which does not depend on the load of the machine. The queues are
//! measured in turn, and the figures are medians of the rounds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints for a person")]

use std::fs;
use std::path::Path;
use std::time::Instant;

use sukkal::domain::{
    Body, ClientId, ClientIdRule, Metadata, NewClaim, NewMessage, ProjectId, QueueId, Revision, Term,
};
use sukkal::storage::redis::RedisStore;
use sukkal::storage::{ClaimStore, MessageStore, Post, QueueStore};

#[allow(dead_code, clippy::panic, reason = "uses a part of the support code of the tests")]
#[path = "../tests/support/mod.rs"]
mod support;

use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

const AHEAD: [usize; 3] = [0, 1_000, 100_000];
const ROUNDS: usize = 9;
const CALLS_PER_ROUND: u32 = 200;
const CLAIMED: usize = 10;
const BATCH: usize = 500;
const BODY_BYTES: usize = 1_000;
const PROJECT: &str = "claims";

/// The average cost of a call, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    redis: f64,
    redis_behind_http: f64,
    http: f64,
    service_cpu: f64,
}

#[tokio::main]
async fn main() {
    let server = RedisServer::start();
    let store = RedisStore::open(&server.url().parse().unwrap()).unwrap();
    let sukkal = Sukkal::start(&server.url());
    let mut queues = Vec::new();
    for ahead in AHEAD {
        queues.push(prepare(&store, ahead).await);
    }

    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); AHEAD.len()];
    for _ in 0..ROUNDS {
        for (queue, costs) in queues.iter().zip(&mut costs) {
            costs.push(measure(&server, &store, &sukkal, queue).await);
        }
    }

    println!("claim {CLAIMED} + delete {CLAIMED} (1 KB), µs");
    println!(
        "| claimed ahead | in Redis | Redis, called by the service | over HTTP, one after the other | service CPU |"
    );
    println!("|---|---|---|---|---|");
    for (ahead, costs) in AHEAD.iter().zip(&costs) {
        let of = |figure: fn(&Cost) -> f64| median(costs.iter().map(figure).collect());
        println!(
            "| {ahead} | {:.1} | {:.1} | {:.0} | {:.0} |",
            of(|cost| cost.redis),
            of(|cost| cost.redis_behind_http),
            of(|cost| cost.http),
            of(|cost| cost.service_cpu)
        );
    }
}

/// Creates a queue with the given number of claimed messages.
async fn prepare(store: &RedisStore, ahead: usize) -> QueueId {
    let queue = QueueId::new(ProjectId::new(PROJECT).unwrap(), format!("ahead-{ahead}").parse().unwrap()).unwrap();
    store.create_queue(&queue, &Metadata::default()).await.unwrap();
    post(store, &queue, ahead).await;
    for _ in 0..ahead.div_ceil(BATCH) {
        claim(store, &queue, BATCH).await;
    }
    queue
}

async fn measure(server: &RedisServer, store: &RedisStore, sukkal: &Sukkal, queue: &QueueId) -> Cost {
    post(store, queue, 2 * CALLS_PER_ROUND as usize * CLAIMED).await;

    server.command(&["CONFIG", "RESETSTAT"]);
    for _ in 0..CALLS_PER_ROUND {
        let ids: Vec<_> = claim(store, queue, CLAIMED).await.iter().map(|message| message.id).collect();
        store.delete_messages(queue, &ids).await.unwrap();
    }
    let redis = time_of_scripts(server) / f64::from(CALLS_PER_ROUND);

    let api = sukkal.project(PROJECT);
    claim_and_delete(&api, queue).await;
    server.command(&["CONFIG", "RESETSTAT"]);
    let (start, cpu_before_s) = (Instant::now(), cpu_time_s(sukkal.id()));
    for _ in 1..CALLS_PER_ROUND {
        claim_and_delete(&api, queue).await;
    }
    let calls = f64::from(CALLS_PER_ROUND - 1);
    Cost {
        redis,
        redis_behind_http: time_of_scripts(server) / calls,
        http: start.elapsed().as_secs_f64() * 1e6 / calls,
        service_cpu: (cpu_time_s(sukkal.id()) - cpu_before_s) * 1e6 / calls,
    }
}

async fn claim_and_delete(api: &Api, queue: &QueueId) {
    let path = format!("/v2/queues/{}", queue.name());
    let claim = api.post(&format!("{path}/claims?limit={CLAIMED}"), &serde_json::json!({})).send().await.unwrap();
    let claim: serde_json::Value = claim.json().await.unwrap();
    let ids: Vec<_> = claim["messages"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), CLAIMED);
    let deletion = api.delete(&format!("{path}/messages?ids={}", ids.join(","))).send().await.unwrap();
    assert_eq!(deletion.status(), 204);
}

async fn claim(store: &RedisStore, queue: &QueueId, limit: usize) -> Vec<sukkal::domain::Message> {
    let new =
        NewClaim { limit, term: Term { ttl_s: 43_200, grace_s: 60 }, preferred_shards: Vec::new(), client: client() };
    store.create_claim(queue, &new).await.unwrap().expect("enough was posted").messages
}

async fn post(store: &RedisStore, queue: &QueueId, count: usize) {
    let seen: Revision = store.get_queue(queue).await.unwrap().unwrap().revision;
    let body = rmp_serde::to_vec(&"x".repeat(BODY_BYTES)).unwrap();
    let message = NewMessage { ttl_s: 86_400, delay_s: 0, body: Body::from_msgpack(body.into()), assignment: None };
    for _ in 0..count.div_ceil(BATCH) {
        let messages = vec![message.clone(); BATCH];
        store
            .post_messages(
                queue,
                &Post {
                    last_known_revision: seen,
                    client: &client(),
                    messages: &messages,
                    trace: None,
                    idempotency: None,
                },
            )
            .await
            .unwrap();
    }
}

/// Total time of scripts since the last reset, in microseconds.
fn time_of_scripts(server: &RedisServer) -> f64 {
    let stats = server.command(&["INFO", "commandstats"]).as_text().to_owned();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("scripts were called");
    let figure = line.split([',', ':']).find_map(|part| part.strip_prefix("usec=")).unwrap();
    figure.parse().unwrap()
}

/// Processor time of all threads of a process, in seconds.
fn cpu_time_s(process: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |thread: &Path| {
        let stat = fs::read_to_string(thread.join("schedstat")).unwrap();
        stat.split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    threads.map(|thread| of(&thread.unwrap().path())).sum::<f64>() / 1e9
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn client() -> ClientId {
    ClientIdRule::Uuid.parse("3381af92-2b9e-11e3-b191-71861300734c").unwrap()
}
