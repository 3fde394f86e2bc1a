//! Measures what WebSockets cost: idle ones, and those that receive the messages of a queue, beside
//! event streams.
//!
//! `cargo bench --bench sockets` prints tables in Markdown.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

#[path = "waiting/client.rs"]
mod client;
#[allow(dead_code, reason = "uses a part of the module")]
#[path = "versus/processes.rs"]
mod processes;
#[allow(dead_code, reason = "uses a part of the support code of the tests")]
#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use self::client::Connection;
use self::support::redis::RedisServer;
use self::support::socket::{Received, Socket};
use self::support::sukkal::Sukkal;

const IDLE: usize = 9_000;
const READERS: usize = 1_000;
const QUEUES: usize = 100;
const PATH: &str = "/v2/websocket";
const PROJECT: &str = "waiting";
/// Time for which each load lasts.
const TIME: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() {
    let redis = RedisServer::start();
    idle(&redis).await;
    println!("\n| readers | posted/s | delivered/s | p50, ms | p99, ms | server, µs each |\n|---|---|---|---|---|---|");
    for rate in [10, 40] {
        for is_socket in [true, false] {
            fan_out(&redis, rate, is_socket).await;
        }
    }
}

/// Measures idle connections, without and with a subscription.
async fn idle(redis: &RedisServer) {
    println!("| {IDLE} idle WebSockets | server, KB of memory each | server, % of a core |\n|---|---|---|");
    for subscribes in [false, true] {
        let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_TRANSPORT__MAX_STREAMS_PER_PROJECT", "10000")]);
        let ids = [sukkal.id()];
        let before = processes::resident_bytes(&ids);
        let mut sockets = Vec::with_capacity(IDLE);
        for number in 0..IDLE {
            let mut socket = Socket::open(&sukkal.url(PATH), PROJECT).await;
            if subscribes {
                socket.subscribe(json!({ "queue_name": format!("q{}", number % QUEUES) })).await;
            }
            sockets.push(socket);
        }
        let memory_each = (processes::resident_bytes(&ids) - before) / IDLE as f64 / 1e3;
        // Each answers a ping.
        let answered = sockets.into_iter().map(|mut socket| tokio::spawn(async move { socket.receive().await }));
        let answered: Vec<_> = answered.collect();
        let cpu_s = processes::cpu_s(&ids);
        sleep(TIME).await;
        let share = (processes::cpu_s(&ids) - cpu_s) / TIME.as_secs_f64() * 100.0;
        answered.iter().for_each(tokio::task::JoinHandle::abort);
        println!("| {} | {memory_each:.1} | {share:.2} |", if subscribes { "with a subscription" } else { "without" });
    }
}

/// Measures messages that each of many readers receives.
async fn fan_out(redis: &RedisServer, rate: u32, is_socket: bool) {
    let sukkal = Sukkal::start(&redis.url());
    let (url, start) = (sukkal.url(""), Instant::now());
    let (queue, delivered) = (format!("fan-{rate}-{is_socket}"), Arc::new(AtomicU64::new(0)));
    let delays_us = Arc::new(Mutex::new(Vec::new()));
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let (delivered, delays_us) = (delivered.clone(), delays_us.clone());
        let received = move |posted_us: u64| {
            let now_us = u64::try_from(start.elapsed().as_micros()).unwrap();
            delivered.fetch_add(1, Ordering::Relaxed);
            delays_us.lock().unwrap().push(now_us.saturating_sub(posted_us));
        };
        if is_socket {
            let mut socket = Socket::open(&sukkal.url(PATH), PROJECT).await;
            socket.subscribe(json!({ "queue_name": queue })).await;
            readers.spawn(async move {
                while let Received::Text(document) = socket.receive().await {
                    received(document["body"][1].as_u64().unwrap());
                }
            });
        } else {
            let mut connection = Connection::open(&url).await;
            connection.follow(&format!("/v2/queues/{queue}/messages?since=now"), number).await;
            readers.spawn(async move {
                loop {
                    received(connection.next_posted_us().await);
                }
            });
        }
    }
    sleep(Duration::from_secs(2)).await;
    let cpu_s = processes::cpu_s(&[sukkal.id()]);
    let mut poster = Connection::open(&url).await;
    let mut ticks = interval(Duration::from_secs(1) / rate);
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < TIME {
        ticks.tick().await;
        let body = json!({ "messages": [{ "ttl": 300, "body": ["at", u64::try_from(start.elapsed().as_micros()).unwrap(), "x".repeat(100)] }] });
        poster.request("POST", &format!("/v2/queues/{queue}/messages"), &body.to_string()).await;
        count += 1;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while delivered.load(Ordering::Relaxed) < count * READERS as u64 && Instant::now() < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    let (took_s, events) = (begin.elapsed().as_secs_f64(), delivered.load(Ordering::Relaxed));
    assert_eq!(events, count * READERS as u64, "every reader has every message");
    let mut delays_us = std::mem::take(&mut *delays_us.lock().unwrap());
    delays_us.sort_unstable();
    let at = |share: usize| delays_us[(delays_us.len() - 1) * share / 100] as f64 / 1e3;
    let kind = if is_socket { "WebSockets" } else { "event streams" };
    let each_us = (processes::cpu_s(&[sukkal.id()]) - cpu_s) * 1e6 / events as f64;
    println!("| {kind} | {rate} | {:.0} | {:.1} | {:.1} | {each_us:.1} |", events as f64 / took_s, at(50), at(99));
}
