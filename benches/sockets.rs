//! Measures what WebSockets cost: idle ones, and those that receive the messages of a queue, beside
//! event streams.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::PROJECT;
use crate::fan_out::Arrivals;
use crate::processes;
use crate::report::Report;
use support::redis::RedisServer;
use support::socket::{Received, Socket};
use support::sukkal::Sukkal;

const QUEUES: usize = 100;
const PATH: &str = "/v2/websocket";

pub(crate) async fn run(report: &mut Report) {
    let redis = RedisServer::start();
    let (sockets, readers, seconds) = if report.is_short { (100, 50, 1) } else { (9_000, 1_000, 15) };
    let time = Duration::from_secs(seconds);
    idle(report, &redis, sockets, time).await;
    writeln!(
        report,
        "\n| readers | posted/s | delivered/s | p50, ms | p99, ms | server, µs each |\n|---|---|---|---|---|---|"
    )
    .unwrap();
    for &rate in &[10, 40][..if report.is_short { 1 } else { 2 }] {
        for is_socket in [true, false] {
            fan_out(report, &redis, (rate, is_socket), readers, time).await;
        }
    }
}

/// Measures idle connections, without and with a subscription.
async fn idle(report: &mut Report, redis: &RedisServer, count: usize, time: Duration) {
    writeln!(report, "| {count} idle WebSockets | server, KB of memory each | server, % of a core |\n|---|---|---|")
        .unwrap();
    for subscribes in [false, true] {
        let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_TRANSPORT__MAX_STREAMS_PER_PROJECT", "10000")]);
        let ids = [sukkal.id()];
        let before = processes::resident_bytes(&ids);
        let mut sockets = Vec::with_capacity(count);
        for number in 0..count {
            let mut socket = Socket::open(&sukkal.url(PATH), PROJECT).await;
            if subscribes {
                socket.subscribe(json!({ "queue_name": format!("q{}", number % QUEUES) })).await;
            }
            sockets.push(socket);
        }
        let memory_each = (processes::resident_bytes(&ids) - before) / count as f64 / 1e3;
        // Each answers a ping.
        let mut answering = JoinSet::new();
        for mut socket in sockets {
            answering.spawn(async move { socket.receive().await });
        }
        let cpu_s = processes::cpu_s(&ids);
        sleep(time).await;
        let share = (processes::cpu_s(&ids) - cpu_s) / time.as_secs_f64() * 100.0;
        assert!(answering.try_join_next().is_none(), "no connection ends");
        let kind = if subscribes { "with a subscription" } else { "without" };
        writeln!(report, "| {kind} | {memory_each:.1} | {share:.2} |").unwrap();
    }
}

/// Measures messages that each of many readers receives.
async fn fan_out(
    report: &mut Report,
    redis: &RedisServer,
    (rate, is_socket): (u32, bool),
    readers: usize,
    time: Duration,
) {
    let sukkal = Sukkal::start(&redis.url());
    let (url, queue) = (sukkal.url(""), format!("fan-{rate}-{is_socket}"));
    let (arrivals, mut reading) = (Arrivals::new(), JoinSet::new());
    if is_socket {
        for _ in 0..readers {
            let (arrivals, mut socket) = (arrivals.clone(), Socket::open(&sukkal.url(PATH), PROJECT).await);
            socket.subscribe(json!({ "queue_name": queue })).await;
            reading.spawn(async move {
                while let Received::Text(document) = socket.receive().await {
                    arrivals.record(document["body"][1].as_u64().unwrap());
                }
            });
        }
    } else {
        arrivals.follow(&mut reading, &url, &queue, readers).await;
    }
    sleep(time / 8).await;
    let cpu_s = processes::cpu_s(&[sukkal.id()]);
    let fan_out = arrivals.post(&url, &queue, rate, time, readers).await;
    let each_us = (processes::cpu_s(&[sukkal.id()]) - cpu_s) * 1e6 / fan_out.delivered;
    writeln!(
        report,
        "| {} | {rate} | {:.0} | {:.1} | {:.1} | {each_us:.1} |",
        if is_socket { "WebSockets" } else { "event streams" },
        fan_out.delivered_per_s,
        fan_out.p50_ms,
        fan_out.p99_ms
    )
    .unwrap();
}
