//! Measures deliveries to a fast subscriber on this machine, and what subscriptions cost.
//!
//! `cargo bench --bench push -- --write` writes `docs/push-figures.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

mod endpoint;
#[allow(dead_code, reason = "uses a part of the module")]
#[path = "../versus/processes.rs"]
mod processes;
#[path = "../prose.rs"]
mod prose;
#[allow(dead_code, reason = "uses a part of the support code of the tests")]
#[path = "../../tests/support/mod.rs"]
mod support;
#[allow(dead_code, reason = "uses a part of the module")]
#[path = "../versus/zaqar.rs"]
mod zaqar;

use std::fmt::Write as _;
use std::process::Child;
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use self::endpoint::Endpoint;
use self::support::redis::RedisServer;
use self::support::sukkal::{Api, Sukkal};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/push-figures.md");
const LOCAL: [(&str, &str); 2] =
    [("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"), ("SUKKAL_PUSH__MAX_SUBSCRIPTIONS_PER_QUEUE", "2000")];
const MESSAGES_PER_POST: usize = 20;
/// Longer than a deliverer keeps its lease without work.
const UNTIL_IDLE: Duration = Duration::from_secs(7);

#[derive(Parser)]
struct Options {
    /// Write docs/push-figures.md
    #[arg(long)]
    write: bool,
    /// Shorter runs, for a first impression
    #[arg(long)]
    quick: bool,
    /// Added by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// A service and its store.
struct Deployment {
    name: &'static str,
    api: Api,
    service: u32,
    redis: Option<RedisServer>,
    _sukkal: Option<Sukkal>,
    zaqar: Option<Child>,
    _folder: Option<TempDir>,
}

impl Drop for Deployment {
    fn drop(&mut self) {
        if let Some(zaqar) = &mut self.zaqar {
            let _has_ended = zaqar.kill();
        }
    }
}

impl Deployment {
    fn redis() -> Self {
        let redis = RedisServer::start();
        let sukkal = Sukkal::start_with(&redis.url(), &LOCAL);
        Self::of("Sukkal over Redis", sukkal, Some(redis), None)
    }

    fn embedded() -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let sukkal = Sukkal::start_with(&format!("embedded:{}", folder.path().display()), &LOCAL);
        Self::of("Sukkal, embedded", sukkal, None, Some(folder))
    }

    fn of(name: &'static str, sukkal: Sukkal, redis: Option<RedisServer>, folder: Option<TempDir>) -> Self {
        let (api, service) = (Api::new(sukkal.url(""), "push"), sukkal.id());
        Self { name, api, service, redis, _sukkal: Some(sukkal), zaqar: None, _folder: folder }
    }

    async fn zaqar() -> Self {
        let redis = RedisServer::start();
        let (process, url) = zaqar::start_notifying(&redis).await;
        let (api, service) = (Api::new(url, "push"), process.id());
        Self {
            name: "Zaqar 23.0.1",
            api,
            service,
            redis: Some(redis),
            _sukkal: None,
            zaqar: Some(process),
            _folder: None,
        }
    }

    /// Returns the processor time of the service and of its store, in microseconds.
    fn cpu_us(&self) -> (f64, f64) {
        let store = self.redis.as_ref().map_or(0.0, |redis| {
            let info = redis.command(&["INFO", "server"]).as_text().to_owned();
            let id = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().parse().unwrap();
            processes::cpu_s(&[id])
        });
        (processes::cpu_s(&[self.service]) * 1e6, store * 1e6)
    }

    async fn subscribe(&self, queue: &str, url: &str, options: Value) -> String {
        let document = json!({ "subscriber": url, "ttl": 86_400, "options": options });
        let path = format!("/v2/queues/{queue}/subscriptions");
        let response = self.api.post(&path, &document).send().await.unwrap();
        assert_eq!(response.status(), 201, "{}", response.text().await.unwrap());
        let created: Value = response.json().await.unwrap();
        created["subscription_id"].as_str().unwrap().to_owned()
    }

    async fn post(&self, queue: &str, count: usize) {
        let messages = vec![json!({ "body": "x".repeat(100), "ttl": 86_400 }); count];
        let path = format!("/v2/queues/{queue}/messages");
        let response = self.api.post(&path, &json!({ "messages": messages })).send().await.unwrap();
        assert_eq!(response.status(), 201);
    }
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let scale = if options.quick { 1 } else { 10 };
    let mut text = String::from(
        "# Figures of push\n\nWritten by `cargo bench --bench push -- --write`. The endpoint is on the same machine, \
         and answers at once. It shares the cores with the service and Redis.\n",
    );
    throughput(&mut text, scale).await;
    println!("{text}");
    let shown = text.len();
    latency(&mut text, 200 * scale).await;
    posts(&mut text, 200 * scale).await;
    memory(&mut text).await;
    isolation(&mut text, scale).await;
    println!("{}", &text[shown..]);
    if options.write {
        std::fs::write(DOCUMENT, prose::wrap(&text)).unwrap();
    }
}

/// Measures how fast messages of one queue are delivered.
async fn throughput(text: &mut String, scale: usize) {
    text.push_str(
        "\n## Throughput\n\nMessages of 100 bytes are posted to one queue, twenty in a request. The time is from the first post to \
         the last notification. The processor time includes the posts.\n\n\
         | service | subscriptions | deliveries | deliveries/s | service, µs/delivery | Redis, µs/delivery |\n|---|---|---|---|---|---|\n",
    );
    for subscriptions in [1, 1_000] {
        for number in 0..3 {
            let deployment = match number {
                0 => Deployment::redis(),
                1 => Deployment::embedded(),
                _ => Deployment::zaqar().await,
            };
            let messages = if subscriptions == 1 { 1_000 * scale } else { 2 * scale };
            // Zaqar takes long for a thousand subscriptions.
            let messages = if number == 2 { messages / scale } else { messages };
            let endpoint = Endpoint::start().await;
            for subscription in 0..subscriptions {
                let url = format!("{}/{subscription}", endpoint.url);
                deployment.subscribe("q", &url, json!({"concurrency": 64})).await;
            }
            let (began, cpu) = (Instant::now(), deployment.cpu_us());
            for _ in 0..messages.div_ceil(MESSAGES_PER_POST) {
                deployment.post("q", MESSAGES_PER_POST.min(messages)).await;
            }
            let expected = messages * subscriptions;
            let mut last = (endpoint.received(), Instant::now());
            while endpoint.received() < expected && last.1.elapsed() < Duration::from_secs(20) {
                sleep(Duration::from_millis(1)).await;
                if endpoint.received() > last.0 {
                    last = (endpoint.received(), Instant::now());
                }
            }
            let took = last.1.duration_since(began).as_secs_f64();
            sleep(Duration::from_millis(300)).await;
            let after = deployment.cpu_us();
            let count = endpoint.received() as f64;
            writeln!(
                text,
                "| {} | {subscriptions} | {count} | {:.0} | {:.0} | {:.0} |",
                deployment.name,
                count / took,
                (after.0 - cpu.0) / count,
                (after.1 - cpu.1) / count,
            )
            .unwrap();
        }
    }
}

/// Measures the time from the response to a post to the notification.
async fn latency(text: &mut String, posts: usize) {
    write!(
        text,
        "\n## From the 201 to the endpoint\n\nOne subscription, {posts} messages one after the other. The time is 0 if the notification \
         comes before the response.\n\n| service | p50, ms | p99, ms |\n|---|---|---|\n"
    )
    .unwrap();
    for number in 0..3 {
        let deployment = match number {
            0 => Deployment::redis(),
            1 => Deployment::embedded(),
            _ => Deployment::zaqar().await,
        };
        let mut endpoint = Endpoint::start().await;
        deployment.subscribe("q", &endpoint.url, json!({})).await;
        let mut times = Vec::new();
        for _ in 0..posts {
            deployment.post("q", 1).await;
            let answered = Instant::now();
            times.push(endpoint.next().await.saturating_duration_since(answered).as_secs_f64() * 1e3);
            sleep(Duration::from_millis(2)).await;
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        writeln!(text, "| {} | {:.2} | {:.2} |", deployment.name, at(0.5), at(0.99)).unwrap();
    }
}

/// Measures what a post costs in a queue whose subscriptions are paused.
async fn posts(text: &mut String, posts: usize) {
    write!(
        text,
        "\n## What subscriptions cost a post\n\nProcessor time of {posts} posts of one message, one after the other. The subscriptions are \
         paused, so that only the post and its signal are measured.\n\n\
         | service | subscriptions | service, µs/post | Redis, µs/post |\n|---|---|---|---|\n"
    )
    .unwrap();
    for number in 0..2 {
        for subscriptions in [0, 1, 100, 1_000] {
            let deployment = if number == 0 { Deployment::redis() } else { Deployment::embedded() };
            for subscription in 0..subscriptions {
                let id = deployment.subscribe("q", &format!("http://127.0.0.1:9999/{subscription}"), json!({})).await;
                let path = format!("/v2/queues/q/subscriptions/{id}/pause");
                assert!(deployment.api.post(&path, &json!({})).send().await.unwrap().status().is_success());
            }
            deployment.post("q", 1).await;
            sleep(Duration::from_secs(1)).await;
            let before = deployment.cpu_us();
            for _ in 0..posts {
                deployment.post("q", 1).await;
            }
            let after = deployment.cpu_us();
            let per_post = |before: f64, after: f64| (after - before) / posts as f64;
            let (service, redis) = (per_post(before.0, after.0), per_post(before.1, after.1));
            writeln!(text, "| {} | {subscriptions} | {service:.0} | {redis:.0} |", deployment.name).unwrap();
        }
    }
}

/// Measures the memory of subscriptions without messages.
async fn memory(text: &mut String) {
    const SUBSCRIPTIONS: usize = 1_000;
    write!(
        text,
        "\n## Memory of an idle subscription\n\n{SUBSCRIPTIONS} subscriptions of ten queues.\n\n\
         | service | service, bytes | Redis, bytes |\n|---|---|---|\n"
    )
    .unwrap();
    for number in 0..2 {
        let deployment = if number == 0 { Deployment::redis() } else { Deployment::embedded() };
        let figures = || {
            let store = deployment.redis.as_ref().map_or(0.0, |redis| {
                let info = redis.command(&["INFO", "memory"]).as_text().to_owned();
                let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
                used.trim().parse::<f64>().unwrap()
            });
            (processes::resident_bytes(&[deployment.service]), store)
        };
        // The first ones warm up the caches of the process.
        for warm in 0..SUBSCRIPTIONS {
            deployment.subscribe("warm", &format!("http://127.0.0.1:9999/{warm}"), json!({})).await;
        }
        sleep(UNTIL_IDLE).await;
        let before = figures();
        for subscription in 0..SUBSCRIPTIONS {
            let queue = format!("q{}", subscription % 10);
            deployment.subscribe(&queue, &format!("http://127.0.0.1:9999/{subscription}"), json!({})).await;
        }
        sleep(UNTIL_IDLE).await;
        let after = figures();
        let per_subscription = |before: f64, after: f64| ((after - before) / SUBSCRIPTIONS as f64).max(0.0);
        let (service, redis) = (per_subscription(before.0, after.0), per_subscription(before.1, after.1));
        writeln!(text, "| {} | {service:.0} | {redis:.0} |", deployment.name).unwrap();
    }
}

/// Measures how dead subscribers affect the others.
async fn isolation(text: &mut String, scale: usize) {
    const PER_QUEUE: usize = 10;
    let (queues, dead) = (100 * scale, 10 * scale);
    write!(
        text,
        "\n## Dead subscribers\n\n{} subscriptions on {queues} queues. One message is posted to each queue, one after the other, three \
         times. {dead} of the subscribers are dead: they accept connections and never answer. The time is from the 201 to each \
         notification of the others.\n\n| service | dead subscribers | deliveries | p50, ms | p99, ms |\n|---|---|---|---|---|\n",
        PER_QUEUE * queues
    )
    .unwrap();
    for number in 0..2 {
        for dead in [0, dead] {
            let deployment = if number == 0 { Deployment::redis() } else { Deployment::embedded() };
            let (mut endpoint, silent) =
                (Endpoint::start().await, tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
            let silent_url = format!("http://{}", silent.local_addr().unwrap());
            tokio::spawn(async move {
                let mut connections = Vec::new();
                while let Ok((stream, _)) = silent.accept().await {
                    connections.push(stream);
                }
            });
            for queue in 0..queues {
                for subscription in 0..PER_QUEUE {
                    let is_dead = subscription == 0 && queue < dead;
                    let url = if is_dead { &silent_url } else { &endpoint.url };
                    deployment.subscribe(&format!("q{queue}"), &format!("{url}/{subscription}"), json!({})).await;
                }
            }
            sleep(UNTIL_IDLE).await;
            let mut times = Vec::new();
            for _ in 0..3 {
                for queue in 0..queues {
                    deployment.post(&format!("q{queue}"), 1).await;
                    let answered = Instant::now();
                    let healthy = if queue < dead { PER_QUEUE - 1 } else { PER_QUEUE };
                    for _ in 0..healthy {
                        times.push(endpoint.next().await.saturating_duration_since(answered).as_secs_f64() * 1e3);
                    }
                }
            }
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            let (name, count) = (deployment.name, times.len());
            writeln!(text, "| {name} | {dead} | {count} | {:.2} | {:.2} |", at(0.5), at(0.99)).unwrap();
        }
    }
}
