//! Measures whether the cost of an operation depends on the length of the queue: posting 1, listing
//! 10 and getting 1 message in queues of 1,000 and of 1,000,000 messages.
//!
//! The figures are the time of a script in Redis (`INFO commandstats`), which does not depend on
//! the load of the machine. The queues are measured in turn, and the figures are medians of the
//! rounds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints for a person")]

use std::sync::Arc;

use sukkal::domain::{
    Body, ClientId, ClientIdRule, MessageId, Metadata, NewMessage, ProjectId, QueueId, Rank, Revision,
};
use sukkal::storage::redis::RedisStore;
use sukkal::storage::{Listing, MessageStore, Post, PostOutcome, QueueStore};

#[allow(dead_code, clippy::panic, reason = "uses a part of the support code of the tests")]
#[path = "../tests/support/mod.rs"]
mod support;

use support::redis::RedisServer;

const SMALL: usize = 1_000;
const LARGE: usize = 1_000_000;
const ROUNDS: usize = 7;
const CALLS_PER_ROUND: usize = 1_600;
const BATCH: usize = 500;
const BODY_BYTES: usize = 1_000;
const TASKS: usize = 16;

/// A queue of known length, with the ids of its messages.
struct Filled {
    queue: QueueId,
    revision: Revision,
    ids: Vec<MessageId>,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Post,
    List,
    Get,
}

#[tokio::main]
async fn main() {
    let server = RedisServer::start();
    let store = Arc::new(RedisStore::open(&server.url().parse().unwrap()).unwrap());
    let large = Arc::new(fill(&store, "large", LARGE).await);

    println!("| operation | µs at {SMALL} | µs at {LARGE} | ratio |\n|---|---|---|---|");
    for (name, operation) in
        [("post 1 (1 KB)", Operation::Post), ("list 10", Operation::List), ("get 1", Operation::Get)]
    {
        let (mut at_small, mut at_large) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // A new queue in each round, because posts make it longer.
            let small = Arc::new(fill(&store, &format!("small-{operation:?}-{round}"), SMALL).await);
            at_small.push(measure(&server, &store, &small, operation).await);
            at_large.push(measure(&server, &store, &large, operation).await);
        }
        let (at_small, at_large) = (median(at_small), median(at_large));
        println!("| {name} | {at_small:.2} | {at_large:.2} | {:.2} |", at_large / at_small);
    }
}

async fn fill(store: &RedisStore, name: &str, size: usize) -> Filled {
    let queue = QueueId::new(ProjectId::new("cost").unwrap(), name.parse().unwrap()).unwrap();
    store.create_queue(&queue, &Metadata::default()).await.unwrap();
    let revision = store.get_queue(&queue).await.unwrap().unwrap().revision;
    let mut ids = Vec::new();
    for _ in 0..size / BATCH {
        let PostOutcome::Posted(posted) = post(store, &queue, revision, &vec![message(); BATCH]).await else {
            unreachable!("no other client changes the queue");
        };
        ids.extend(posted);
    }
    Filled { queue, revision, ids }
}

/// Average time of a script in Redis, in microseconds, while several tasks call the operation.
async fn measure(server: &RedisServer, store: &Arc<RedisStore>, filled: &Arc<Filled>, operation: Operation) -> f64 {
    server.command(&["CONFIG", "RESETSTAT"]);
    let tasks = (0..TASKS).map(|task| {
        let (store, filled) = (store.clone(), filled.clone());
        tokio::spawn(async move {
            for call in 0..CALLS_PER_ROUND / TASKS {
                // The strides are coprime with the lengths, so all parts of the queue are visited.
                let id = filled.ids[(task * 7_919 + call * 104_729) % filled.ids.len()];
                perform(&store, &filled, operation, id).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    time_per_script(server.command(&["INFO", "commandstats"]).as_text())
}

async fn perform(store: &RedisStore, filled: &Filled, operation: Operation, id: MessageId) {
    match operation {
        Operation::Post => {
            post(store, &filled.queue, filled.revision, &[message()]).await;
        }
        Operation::List => {
            let after = Rank::new(id.rank().micros() - 1);
            store.list_messages(&filled.queue, &Listing { after, ..Listing::first(10) }).await.unwrap();
        }
        Operation::Get => assert_eq!(store.get_messages(&filled.queue, &[id], false).await.unwrap().len(), 1),
    }
}

async fn post(store: &RedisStore, queue: &QueueId, seen: Revision, messages: &[NewMessage]) -> PostOutcome {
    store
        .post_messages(
            queue,
            &Post { last_known_revision: seen, client: &client(), messages, trace: None, idempotency: None },
        )
        .await
        .unwrap()
}

fn time_per_script(stats: &str) -> f64 {
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("scripts were called");
    let figure = line.split(',').find_map(|part| part.strip_prefix("usec_per_call=")).unwrap();
    figure.parse().unwrap()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn client() -> ClientId {
    ClientIdRule::Uuid.parse("3381af92-2b9e-11e3-b191-71861300734c").unwrap()
}

fn message() -> NewMessage {
    let body = rmp_serde::to_vec(&"x".repeat(BODY_BYTES)).unwrap();
    NewMessage { ttl_s: 3600, delay_s: 0, body: Body::from_msgpack(body.into()), assignment: None }
}
