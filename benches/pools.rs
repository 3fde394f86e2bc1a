//! Counts the instructions that pools add to a post, a list and a claim.

use std::fmt::Write as _;
use std::iter::repeat_n;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::callgrind::{PAUSE, Service, per_request};
use crate::client::send;
use crate::report::Report;
use support::redis::RedisServer;
use support::sukkal::{Api, POOLING, Sukkal};

/// Numbers of requests, whose instructions are compared.
const REQUESTS: [usize; 2] = [100, 4_000];
/// Number of messages in a request that prepares the queue.
const PREPARED: usize = 20;

/// What would change the counts by chance: threads that take work from each other, and maintenance,
/// which runs often compared with the requests, because callgrind is slow.
const STEADY: [(&str, &str); 2] = [("TOKIO_WORKER_THREADS", "1"), ("SUKKAL_JANITOR__PAUSE", "86400")];
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
        prepared: REQUESTS[1] + PREPARED,
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
async fn instructions(kind: &Kind, is_pooled: bool, requests: usize, is_short: bool) -> f64 {
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

    let service = Service::start(&management.url(), &[environment, &STEADY].concat(), is_short).await;
    let api = Api::new(service.url.clone(), "p");
    // It takes a while to connect to the pool.
    while (kind.request)(&api).send().await.unwrap().status() != kind.status {
        sleep(PAUSE).await;
    }
    if !is_short {
        sleep(SETTLED).await;
    }
    for _ in 0..requests {
        send((kind.request)(&api), kind.status).await.bytes().await.unwrap();
    }
    service.stop()
}

pub(crate) async fn run(report: &mut Report) {
    if report.is_short {
        assert!(instructions(&KINDS[0], true, 1, true).await > 0.0);
        return;
    }
    writeln!(report, "| request | without pools | queue in a pool | more |\n|---|---|---|---|").unwrap();
    for kind in &KINDS {
        let count = async |is_pooled| {
            per_request(REQUESTS, async |requests| instructions(kind, is_pooled, requests, false).await).await
        };
        let (alone, pooled) = (count(false).await, count(true).await);
        let more = (pooled / alone - 1.0) * 100.0;
        writeln!(report, "| {} | {alone:.0} | {pooled:.0} | {more:+.1} % |", kind.name).unwrap();
    }
}
