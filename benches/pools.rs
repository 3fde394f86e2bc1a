//! Counts the instructions that pools add to a post, a list and a claim. The service runs in
//! callgrind, so the figures do not depend on the load of the machine.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

mod callgrind;
#[path = "../tests/support/mod.rs"]
mod support;

use std::iter::repeat_n;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::callgrind::Service;
use crate::support::redis::RedisServer;
use crate::support::sukkal::{Api, POOLING, Sukkal};

/// Numbers of requests. The difference between the two runs is divided by that of the numbers, so
/// the start of the service and the search for the queue do not count.
const FEW: usize = 100;
const MANY: usize = 4_000;
const RUNS: usize = 3;
/// Number of messages in a request that prepares the queue.
const PREPARED: usize = 20;

/// What would change the counts by chance: threads that take work from each other, and maintenance,
/// which runs often compared with the requests, because callgrind is slow.
const STEADY: [(&str, &str); 2] = [("TOKIO_WORKER_THREADS", "1"), ("SUKKAL_JANITOR__PAUSE", "86400")];
/// Pause between two attempts to use the store. Few attempts disturb the count less.
const PAUSE: Duration = Duration::from_secs(1);
/// After this time, the service has done what it does once.
const SETTLED: Duration = Duration::from_secs(12);

const MESSAGES: &str = "/v2/queues/q/messages";

/// A kind of request: its name, the number of messages that the queue has before the requests, the
/// request, and the status of the response.
struct Kind {
    name: &'static str,
    prepared: usize,
    request: fn(&Api) -> RequestBuilder,
    status: u16,
}

const KINDS: [Kind; 3] = [
    Kind { name: "post of one message", prepared: 0, request: |api| api.post(MESSAGES, &messages(1)), status: 201 },
    Kind {
        name: "list of 10 messages",
        prepared: PREPARED,
        request: |api| api.get("/v2/queues/q/messages?limit=10&echo=true"),
        status: 200,
    },
    Kind {
        name: "claim of one message",
        prepared: MANY + PREPARED,
        request: |api| api.post("/v2/queues/q/claims?limit=1", &json!({ "ttl": 300, "grace": 60 })),
        status: 201,
    },
];

fn messages(count: usize) -> Value {
    let message = json!({ "body": "x".repeat(100), "ttl": 3600 });
    json!({ "messages": repeat_n(message, count).collect::<Vec<_>>() })
}

/// Returns the instructions of a service that answers this many requests to one queue, which is in
/// a pool or in the only store.
async fn instructions(kind: &Kind, is_pooled: bool, requests: usize) -> u64 {
    let (management, pool) = (RedisServer::start(), RedisServer::start());
    let environment = if is_pooled { &POOLING[..] } else { &[] };
    let preparing = Sukkal::start_with(&management.url(), environment);
    let api = preparing.project("p");
    if is_pooled {
        let document = json!({ "uri": pool.url(), "weight": 1 });
        let request = api.request(Method::PUT, "/v2/pools/only").header("X-Roles", "admin").json(&document);
        send(request, 201).await;
    }
    send(api.put("/v2/queues/q"), 201).await;
    for _ in 0..kind.prepared / PREPARED {
        send(api.post(MESSAGES, &messages(PREPARED)), 201).await;
    }
    drop(preparing);

    let service = Service::start(&management.url(), &[environment, &STEADY].concat());
    let api = Api::new(service.url.clone(), "p");
    // In callgrind, it takes a while to connect to the stores.
    while (kind.request)(&api).send().await.unwrap().status() != kind.status {
        sleep(PAUSE).await;
    }
    sleep(SETTLED).await;
    for _ in 0..requests {
        send((kind.request)(&api), kind.status).await.bytes().await.unwrap();
    }
    service.stop()
}

async fn send(request: RequestBuilder, status: u16) -> Response {
    let answer = request.send().await.expect("the service answers");
    assert_eq!(answer.status(), status, "{}", answer.url());
    answer
}

/// Returns the instructions of one request without pools and with a pool: the medians of some runs.
async fn per_request(kind: &Kind) -> [u64; 2] {
    let mut runs: [Vec<u64>; 2] = Default::default();
    for _ in 0..RUNS {
        for (is_pooled, runs) in [false, true].into_iter().zip(&mut runs) {
            let few = instructions(kind, is_pooled, FEW).await;
            runs.push((instructions(kind, is_pooled, MANY).await - few) / (MANY - FEW) as u64);
        }
    }
    runs.map(|mut runs| {
        runs.sort_unstable();
        runs[RUNS / 2]
    })
}

#[tokio::main]
async fn main() {
    println!("| request | without pools | queue in a pool | more |\n|---|---|---|---|");
    for kind in &KINDS {
        let [alone, pooled] = per_request(kind).await;
        let more = (pooled as f64 / alone as f64 - 1.0) * 100.0;
        println!("| {} | {alone} | {pooled} | {more:+.1} % |", kind.name);
    }
}
