//! Measures how fast waiting clients receive new messages, and what waiting clients and streams
//! cost.
//!
//! `cargo bench --bench waiting -- --write` writes `docs/waiting.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

mod client;
#[allow(dead_code, reason = "uses a part of the module")]
#[path = "../versus/processes.rs"]
mod processes;
#[path = "../prose.rs"]
mod prose;
#[allow(dead_code, reason = "uses a part of the support code of the tests")]
#[path = "../../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use tempfile::TempDir;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::client::Connection;
use self::support::redis::RedisServer;
use self::support::sukkal::Sukkal;

const WAITERS: usize = 1_000;
const QUEUES: usize = 100;
const IDLE_WAITERS: usize = 10_000;
const STREAMS: usize = 1_000;
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/waiting.md");
/// Prevents waits from timing out.
const LONG: [(&str, &str); 1] = [("SUKKAL_TRANSPORT__MAX_WAIT", "3600")];

#[derive(Parser)]
struct Options {
    /// Write docs/waiting.md
    #[arg(long)]
    write: bool,
    /// Shorter runs, for a first impression
    #[arg(long)]
    quick: bool,
    /// Added by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// A store and its servers.
struct Deployment {
    name: &'static str,
    servers: Vec<Sukkal>,
    redis: Option<RedisServer>,
    _folder: Option<TempDir>,
}

impl Deployment {
    fn redis(servers: usize) -> Self {
        let redis = RedisServer::start();
        let servers = (0..servers).map(|_| Sukkal::start_with(&redis.url(), &LONG)).collect();
        Self { name: "Redis", servers, redis: Some(redis), _folder: None }
    }

    fn embedded() -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Sukkal::start_with(&format!("embedded:{}", folder.path().display()), &LONG);
        Self { name: "embedded", servers: vec![server], redis: None, _folder: Some(folder) }
    }

    fn servers_cpu_s(&self) -> f64 {
        processes::cpu_s(&self.servers.iter().map(Sukkal::id).collect::<Vec<_>>())
    }

    fn redis_cpu_s(&self) -> f64 {
        let Some(redis) = &self.redis else {
            return 0.0;
        };
        let info = redis.command(&["INFO", "server"]).as_text().to_owned();
        let id = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().parse().unwrap();
        processes::cpu_s(&[id])
    }
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let mut text = String::from(
        "# What waiting costs\n\nWritten by `cargo bench --bench waiting -- --write`. Clients, servers and Redis share the cores of one \
         machine.\n",
    );
    wake_ups(&mut text, if options.quick { 1_000 } else { 10_000 }).await;
    idle(&mut text, Duration::from_secs(if options.quick { 5 } else { 30 })).await;
    streams(&mut text, Duration::from_secs(if options.quick { 3 } else { 15 })).await;
    println!("{text}");
    if options.write {
        std::fs::write(DOCUMENT, prose::wrap(&text)).unwrap();
    }
}

/// Measures the time from the `201` of a post on one server to the response of a waiting claim on
/// the other.
async fn wake_ups(text: &mut String, posts: usize) {
    write!(
        text,
        "\n## From a post to a waiting claim\n\n{WAITERS} claims wait on {QUEUES} queues, and {posts} messages are posted one after the \
         other. The figures are the time from the `201` to the response of a claim. It is 0 if the claim was answered first.\n\n\
         | store | p50, ms | p99, ms | longest, ms |\n|---|---|---|---|\n"
    )
    .unwrap();
    for (deployment, kind) in
        [(Deployment::redis(2), "Redis, posted at another process"), (Deployment::embedded(), "embedded")]
    {
        let (answered, mut answers) = mpsc::unbounded_channel();
        let mut waiters = JoinSet::new();
        for number in 0..WAITERS {
            let mut connection = Connection::open(&deployment.servers[0].url("")).await;
            let answered = answered.clone();
            waiters.spawn(async move {
                loop {
                    let queue = number % QUEUES;
                    let claim = format!("/v2/queues/q{queue}/claims?limit=1&wait=3600");
                    connection.request("POST", &claim, "{\"ttl\":60,\"grace\":60}").await;
                    let at = Instant::now();
                    let _receiver_is_gone = answered.send(at);
                }
            });
        }
        sleep(Duration::from_secs(2)).await;
        let mut poster = Connection::open(&deployment.servers.last().unwrap().url("")).await;
        let mut delays_ms = Vec::with_capacity(posts);
        for number in 0..posts {
            let path = format!("/v2/queues/q{}/messages", number % QUEUES);
            poster.request("POST", &path, "{\"messages\":[{\"ttl\":300,\"body\":1}]}").await;
            let stored = Instant::now();
            let at = answers.recv().await.unwrap();
            delays_ms.push(at.saturating_duration_since(stored).as_secs_f64() * 1e3);
        }
        delays_ms.sort_by(f64::total_cmp);
        let at = |percent: usize| delays_ms[(delays_ms.len() - 1) * percent / 100];
        writeln!(text, "| {kind} | {:.2} | {:.2} | {:.2} |", at(50), at(99), at(100)).unwrap();
    }
}

/// Measures waiting claims without any posts.
async fn idle(text: &mut String, time: Duration) {
    write!(
        text,
        "\n## Waiting without posts\n\n{IDLE_WAITERS} claims wait on {QUEUES} queues for {} s.\n\n\
         | store | Redis, % of a core | server, % of a core | server, KB of memory each |\n|---|---|---|---|\n",
        time.as_secs()
    )
    .unwrap();
    for deployment in [Deployment::redis(1), Deployment::embedded()] {
        let url = deployment.servers[0].url("");
        let memory = || processes::resident_bytes(&[deployment.servers[0].id()]);
        Connection::open(&url).await.request("GET", "/v2/queues", "").await;
        let before = memory();
        let mut waiters = JoinSet::new();
        let (at_once, sent) = (Arc::new(Semaphore::new(200)), Arc::new(AtomicU64::new(0)));
        for number in 0..IDLE_WAITERS {
            let (url, at_once, sent) = (url.clone(), at_once.clone(), sent.clone());
            waiters.spawn(async move {
                let permit = at_once.acquire().await.unwrap();
                let mut connection = Connection::open(&url).await;
                let claim = format!("/v2/queues/q{}/claims?limit=1&wait=3600", number % QUEUES);
                connection.send("POST", &claim, "{\"ttl\":60,\"grace\":60}").await;
                sent.fetch_add(1, Ordering::Relaxed);
                drop(permit);
                connection.response().await;
            });
        }
        while sent.load(Ordering::Relaxed) < IDLE_WAITERS as u64 {
            sleep(Duration::from_millis(100)).await;
        }
        let ids: Vec<u32> = deployment.servers.iter().map(Sukkal::id).collect();
        tokio::task::spawn_blocking(move || processes::wait_until_idle(&ids)).await.unwrap();
        let memory_each = (memory() - before) / IDLE_WAITERS as f64 / 1e3;
        let (redis_s, server_s) = (deployment.redis_cpu_s(), deployment.servers_cpu_s());
        sleep(time).await;
        let share = |since: f64, now: f64| (now - since) / time.as_secs_f64() * 100.0;
        assert_eq!(waiters.len(), IDLE_WAITERS, "no waiting claim is answered");
        writeln!(
            text,
            "| {} | {:.2} | {:.2} | {memory_each:.1} |",
            deployment.name,
            share(redis_s, deployment.redis_cpu_s()),
            share(server_s, deployment.servers_cpu_s())
        )
        .unwrap();
    }
}

/// Measures many streams of one queue.
async fn streams(text: &mut String, time: Duration) {
    write!(
        text,
        "\n## Event streams\n\n{STREAMS} streams of different clients follow one queue. Messages of 100 B are posted to it at a \
         constant rate. The table shows the delivered events, the time from the start of a post until its event arrives, and \
         the processor time for each event.\n\n| store | posted/s | delivered/s | p50, ms | p99, ms | server, µs each | Redis, µs each |\n\
         |---|---|---|---|---|---|---|\n"
    )
    .unwrap();
    for rate in [10, 40] {
        for deployment in [Deployment::redis(1), Deployment::embedded()] {
            let url = deployment.servers[0].url("");
            let start = Instant::now();
            let delivered = Arc::new(AtomicU64::new(0));
            let delays_us = Arc::new(Mutex::new(Vec::new()));
            let mut readers = JoinSet::new();
            for number in 0..STREAMS {
                let mut connection = Connection::open(&url).await;
                let (delivered, delays_us) = (delivered.clone(), delays_us.clone());
                readers.spawn(async move {
                    connection.follow("/v2/queues/q/messages", number).await;
                    loop {
                        let posted_us = connection.next_posted_us().await;
                        let now_us = u64::try_from(start.elapsed().as_micros()).unwrap();
                        delivered.fetch_add(1, Ordering::Relaxed);
                        delays_us.lock().unwrap().push(now_us.saturating_sub(posted_us));
                    }
                });
            }
            sleep(Duration::from_secs(2)).await;
            let (redis_s, server_s) = (deployment.redis_cpu_s(), deployment.servers_cpu_s());
            let mut poster = Connection::open(&url).await;
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
            let (begin, mut count) = (Instant::now(), 0_u64);
            while begin.elapsed() < time {
                ticks.tick().await;
                let now_us = start.elapsed().as_micros();
                let filler = "x".repeat(100);
                let body = format!("{{\"messages\":[{{\"ttl\":300,\"body\":[\"at\",{now_us},\"{filler}\"]}}]}}");
                poster.request("POST", "/v2/queues/q/messages", &body).await;
                count += 1;
            }
            let deadline = Instant::now() + Duration::from_secs(30);
            while delivered.load(Ordering::Relaxed) < count * STREAMS as u64 && Instant::now() < deadline {
                sleep(Duration::from_millis(10)).await;
            }
            let took_s = begin.elapsed().as_secs_f64();
            let events = delivered.load(Ordering::Relaxed);
            assert_eq!(events, count * STREAMS as u64, "every stream has every message");
            let mut delays_us = std::mem::take(&mut *delays_us.lock().unwrap());
            delays_us.sort_unstable();
            let at = |share: usize| delays_us[(delays_us.len() - 1) * share / 100] as f64 / 1e3;
            writeln!(
                text,
                "| {} | {rate} | {:.0} | {:.1} | {:.1} | {:.1} | {:.2} |",
                deployment.name,
                events as f64 / took_s,
                at(50),
                at(99),
                (deployment.servers_cpu_s() - server_s) * 1e6 / events as f64,
                (deployment.redis_cpu_s() - redis_s) * 1e6 / events as f64,
            )
            .unwrap();
        }
    }
}
