//! A process is told to stop while Redis does not answer: it ends in time, no message is lost, and
//! what its clients were told stays true.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::gate::Gate;
use support::exposition::Exposition;
use support::proxy::Proxy;
use support::redis::RedisServer;
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};
use support::test_bed::{TestBed, queue_id};
use support::waiting::until;

const PROJECT: &str = "stop-in-outage";
const MESSAGES: &str = "/v2/queues/q/messages";
const CLAIMS: &str = "/v2/queues/q/claims";
const POP: &str = "/v2/queues/q/messages?pop=5";
/// The drain timeout, in seconds, and an allowance for a busy machine.
const DRAIN_S: u64 = 5;
const SLACK: Duration = Duration::from_secs(3);
/// Longer than pops whose messages are not deleted, and than the claims that clients do not know.
const ENDED_US: i64 = 61_000_000;
/// Number of commands until a pop waits: a function that reads the queue, a subscription, the pop,
/// the function again, and a check whether the subscription is still at the right server.
const COMMANDS_OF_A_WAIT: usize = 5;
/// Number of claims, and of pops, that are under way.
const REQUESTS: usize = 4;

/// Redis executes the commands only after the process has ended, or it executes them but does not
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_in_an_outage_ends_in_time_and_loses_no_message() {
    for executes in [false, true] {
        let redis = RedisServer::start();
        let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
        let mut sukkal = start(&proxy.url("redis"), &[("SUKKAL_DRAIN_TIMEOUT", &DRAIN_S.to_string())]);
        let api = sukkal.project(PROJECT);
        answered(post(&api, 0..60)).await.expect("the store answers");
        let held = answered(claim(&api, 43_200)).await.expect("the store answers");
        let popped = answered(api.delete(POP)).await.expect("the store answers");

        if executes {
            proxy.hold_replies();
        } else {
            redis.pause();
        }
        let claims = join_all((0..REQUESTS).map(|_| answered(claim(&api, 60))));
        let pops = join_all((0..REQUESTS).map(|_| answered(api.delete(POP))));
        let mut requests = pin!(async { tokio::join!(claims, pops, answered(post(&api, 60..70))) });
        let are_under_way = async || metric(&sukkal, "sukkal_store_operations_in_flight").await > 8.0;
        let early = tokio::select! {
            answers = &mut requests => Some(answers),
            () = until("the requests are under way", are_under_way) => None,
        };
        let told = Instant::now();
        sukkal.terminate();
        let (claims, pops, posted) = if let Some(early) = early { early } else { requests.await };
        assert_eq!(sukkal.wait().code(), Some(0));
        assert!(told.elapsed() < Duration::from_secs(DRAIN_S) + SLACK, "it took {:?}", told.elapsed());
        let answers = [claims, pops, vec![posted]].concat();
        assert!(answers.iter().all(Option::is_none), "Redis did not answer: {answers:?}");
        if executes {
            proxy.restore();
        } else {
            redis.resume();
        }

        let next = start(&redis.url(), &[]);
        let api = next.project(PROJECT);
        end_unknown_claims(&redis).await;
        answered(post(&api, 60..70)).await.expect("the post is repeated");
        for message in held["messages"].as_array().unwrap() {
            answered(api.delete(message["href"].as_str().unwrap())).await.expect("the claim is live");
        }
        let mut received = [bodies(&held), bodies(&popped)].concat();
        loop {
            let more = bodies(&answered(api.delete(POP)).await.expect("the store answers"));
            if more.is_empty() {
                break;
            }
            received.extend(more);
        }
        received.sort_unstable();
        assert_eq!(received, (0..70).collect::<Vec<_>>(), "executed: {executes}");
    }
}

/// The client of such a pop has its messages, so they must not return.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_in_an_outage_still_deletes_the_messages_of_a_pop() {
    let redis = RedisServer::start();
    let gate = Gate::start(redis.port(), PROJECT);
    redis.record_maintenance();
    let options = [("SUKKAL_LOG__FILTER", "debug"), ("SUKKAL_JANITOR__PAUSE", "86400")];
    let (mut sukkal, next) = (start(&gate.url(), &options), start(&redis.url(), &[]));
    // After this, Redis has the functions.
    answered(sukkal.project(PROJECT).delete(POP)).await.expect("the store answers");
    gate.release();
    let waiting = tokio::spawn(answered(sukkal.project(PROJECT).delete(&format!("{POP}&wait=30"))));
    until("the pop waits", async || gate.forwarded() >= COMMANDS_OF_A_WAIT).await;

    // The pop is executed, and the deletion is not.
    gate.hold_after(1);
    answered(post(&next.project(PROJECT), 0..3)).await.expect("the store answers");
    let popped = waiting.await.unwrap().expect("the store answers");
    assert_eq!(bodies(&popped), [0, 1, 2]);
    sukkal.terminate();
    sukkal.logged("draining").await;
    let attempts = async || sukkal.logged("cannot end a claim or a pop yet").await.len();
    let before = attempts().await;
    until("the process tries again", async || attempts().await > before).await;
    gate.release();

    assert_eq!(sukkal.wait().code(), Some(0));
    end_unknown_claims(&redis).await;
    let again = answered(next.project(PROJECT).delete(POP)).await.expect("the store answers");
    assert_eq!(bodies(&again), [0; 0]);
}

fn start(store: &str, options: &[(&str, &str)]) -> Sukkal {
    Sukkal::start_with(store, &[&[MOVABLE_CLOCK], options].concat())
}

/// Returns the answer, or `None` for a 503.
async fn answered(request: RequestBuilder) -> Option<Value> {
    let response = request.send().await.expect("the service answers");
    let status = response.status();
    assert!(status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE, "{status}");
    let body = response.bytes().await.expect("the answer is complete");
    status.is_success().then(|| serde_json::from_slice(&body).unwrap_or_default())
}

/// Returns a post of these numbers, which may be repeated.
fn post(api: &Api, numbers: Range<u64>) -> RequestBuilder {
    let key = format!("\"{}\"", numbers.start);
    let messages: Vec<Value> = numbers.map(|number| json!({ "body": number })).collect();
    api.post(MESSAGES, &json!({ "messages": messages })).header("Idempotency-Key", key)
}

fn claim(api: &Api, ttl_s: u32) -> RequestBuilder {
    api.post(&format!("{CLAIMS}?limit=5"), &json!({ "ttl": ttl_s, "grace": 60 }))
}

fn bodies(answer: &Value) -> Vec<u64> {
    answer["messages"].as_array().unwrap().iter().map(|message| message["body"].as_u64().unwrap()).collect()
}

/// Waits until Redis has executed what it has received, and lets claims that no client knows
/// expire.
async fn end_unknown_claims(redis: &RedisServer) {
    redis.command(&["PING"]);
    TestBed::redis(&redis.url()).set_clock(&queue_id(PROJECT, "q"), ENDED_US).await;
}

async fn metric(sukkal: &Sukkal, name: &str) -> f64 {
    Exposition::of(&sukkal.url("")).await.value(name).unwrap_or_default()
}
