//! Measures what a project over its rate costs another one, and by how much a project may exceed the
//! quota of all its messages.
//!
//! `cargo bench --bench quotas` prints the figures of `docs/quotas.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

#[allow(dead_code, reason = "uses a part of the support code of the tests")]
#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use futures::future::join_all;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::support::redis::RedisServer;
use self::support::sukkal::{Api, Sukkal};

const MESSAGES: &str = "/v2/queues/q/messages";
const LIST: &str = "/v2/queues/q/messages?limit=10&echo=true";
const PAUSE_BETWEEN_SINGLE_REQUESTS: Duration = Duration::from_millis(5);
/// Number of connections of the project that sends too much, and requests per second of each.
const FLOODING: usize = 20;
const RATE_OF_EACH: u32 = 50;
const RATE_MAX: &str = "100";
/// The quota of messages, and the requests that fill it.
const PROCESSES: usize = 3;
const CLIENTS: usize = 16;
const QUEUES: usize = 4;
const MESSAGES_MAX: u64 = 50_000;
const BATCH: usize = 10;

#[derive(Parser)]
struct Options {
    /// Duration of each load, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Added by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let span = Duration::from_secs(Options::parse().seconds);
    println!(
        "| | p50 ms | p99 ms | Sukkal, % of a core | Redis, % of a core | requests of the other/s | of them refused |"
    );
    println!("|---|---|---|---|---|---|---|");
    isolation("alone", None, 0, span).await;
    isolation("beside a project over its rate", Some(RATE_MAX), FLOODING, span).await;
    isolation("beside the same project without a quota", None, FLOODING, span).await;
    overshoot(span).await;
}

/// Measures single requests of a project beside another one, which has this rate.
async fn isolation(name: &str, rate_max: Option<&str>, flooding: usize, span: Duration) {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_ADMIN_MODE", "true")]);
    let (busy, quiet) = (sukkal.project("busy"), sukkal.project("quiet"));
    for api in [&busy, &quiet] {
        answered(api.post(MESSAGES, &messages(100)), 201).await;
    }
    if let Some(max) = rate_max {
        let set = sukkal.project("operator").put("/v2/quotas?project_id=busy").header("X-Roles", "admin");
        answered(set.body(format!("{{\"requests_per_second\": {max}}}")), 200).await;
    }
    let (is_over, sent, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let flood = join_all((0..flooding).map(async |number| {
        // Without these delays, all connections would send at the same moments.
        let period = Duration::from_secs(1) / RATE_OF_EACH;
        sleep(period * u32::try_from(number).unwrap() / u32::try_from(flooding).unwrap()).await;
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !is_over.load(Ordering::Relaxed) {
            ticks.tick().await;
            let status = busy.get(LIST).send().await.unwrap().status();
            sent.fetch_add(1, Ordering::Relaxed);
            refused.fetch_add(u64::from(status == 503), Ordering::Relaxed);
        }
    }));
    let measure = async {
        sleep(Duration::from_secs(1)).await;
        let (sent_before, refused_before) = (sent.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
        let (cpu, redis_cpu, began) = (cpu_s(&sukkal).await, redis_cpu_s(&redis), Instant::now());
        let mut latencies = single_requests(&quiet, span).await;
        let seconds = began.elapsed().as_secs_f64();
        let (cpu, redis_cpu) = (cpu_s(&sukkal).await - cpu, redis_cpu_s(&redis) - redis_cpu);
        is_over.store(true, Ordering::Relaxed);
        latencies.sort_by(f64::total_cmp);
        let at = |share: usize| latencies[(latencies.len() - 1) * share / 100];
        let others = (sent.load(Ordering::Relaxed) - sent_before) as f64;
        let refused = (refused.load(Ordering::Relaxed) - refused_before) as f64;
        println!(
            "| {name} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} | {:.0} % |",
            at(50),
            at(99),
            100.0 * cpu / seconds,
            100.0 * redis_cpu / seconds,
            others / seconds,
            100.0 * refused / others.max(1.0)
        );
    };
    tokio::join!(flood, measure);
}

/// Sends requests one after the other. Returns their latencies in milliseconds.
async fn single_requests(api: &Api, span: Duration) -> Vec<f64> {
    let (begin, mut durations) = (Instant::now(), Vec::new());
    while begin.elapsed() < span {
        let sent = Instant::now();
        answered(api.get(LIST), 200).await;
        durations.push(sent.elapsed().as_secs_f64() * 1e3);
        sleep(PAUSE_BETWEEN_SINGLE_REQUESTS).await;
    }
    durations
}

/// Fills a project through several processes at full speed, and counts the messages above its quota.
async fn overshoot(span: Duration) {
    let redis = RedisServer::start();
    let max = MESSAGES_MAX.to_string();
    let servers = [(); PROCESSES].map(|()| Sukkal::start_with(&redis.url(), &[("SUKKAL_QUOTAS__MESSAGES", &*max)]));
    let apis: Vec<Api> = servers.iter().map(|server| server.project("p")).collect();
    let accepted = AtomicU64::new(0);
    let began = Instant::now();
    let reached = Arc::new(std::sync::Mutex::new((None, began)));
    join_all((0..CLIENTS).map(async |number| {
        let path = format!("/v2/queues/q{}/messages", number % QUEUES);
        let body = messages(BATCH);
        let mut full_since = None::<Instant>;
        // A client stops when it has been refused for five seconds.
        while full_since.is_none_or(|since| since.elapsed() < Duration::from_secs(5)) && began.elapsed() < 10 * span {
            let status = apis[number % PROCESSES].post(&path, &body).send().await.unwrap().status().as_u16();
            if status == 201 {
                let total = accepted.fetch_add(BATCH as u64, Ordering::Relaxed) + BATCH as u64;
                let mut times = reached.lock().unwrap();
                if total > MESSAGES_MAX {
                    times.0.get_or_insert_with(Instant::now);
                }
                times.1 = Instant::now();
                full_since = None;
            } else {
                assert_eq!(status, 403);
                full_since.get_or_insert_with(Instant::now);
            }
        }
    }))
    .await;
    let (reached, last) = *reached.lock().unwrap();
    let (total, reached) = (accepted.into_inner(), reached.expect("the project has reached its quota"));
    println!(
        "\n{PROCESSES} processes, {CLIENTS} clients, {BATCH} messages in each post: the quota of {MESSAGES_MAX} messages was \
         exceeded by {} messages, {:.1} s after it was reached at {:.0} messages/s",
        total - MESSAGES_MAX,
        (last - reached).as_secs_f64(),
        MESSAGES_MAX as f64 / (reached - began).as_secs_f64()
    );
}

fn messages(count: usize) -> Value {
    json!({ "messages": vec![json!({"ttl": 3_600, "body": "x".repeat(250)}); count] })
}

async fn answered(request: RequestBuilder, status: u16) -> String {
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), status);
    response.text().await.unwrap()
}

/// Returns the processor time that Sukkal has used, in seconds.
async fn cpu_s(sukkal: &Sukkal) -> f64 {
    let metrics = answered(sukkal.project("p").get("/metrics"), 200).await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
    line.unwrap().trim().parse().unwrap()
}

/// Returns the processor time that Redis has used, in seconds.
fn redis_cpu_s(redis: &RedisServer) -> f64 {
    let info = redis.command(&["INFO", "cpu"]);
    let used = |name: &str| -> f64 {
        let line = info.as_text().lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|figure| figure.trim().parse().ok()).expect("INFO has the figure")
    };
    used("used_cpu_sys:") + used("used_cpu_user:")
}
