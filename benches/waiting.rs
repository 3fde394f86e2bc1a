//! Measures how fast waiting clients receive new messages, and what waiting clients and streams
//! cost. `--write` writes a section of `docs/behavior-under-load.md`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client::Connection;
use crate::fan_out::Arrivals;
use crate::report::Report;
use crate::service::Store;
use crate::statistics::percentile;
use crate::{DocumentOptions, Length, processes};
use support::sukkal::Sukkal;

const QUEUES: usize = 100;
/// Waits neither time out nor are refused.
const OPTIONS: [(&str, &str); 2] =
    [("SUKKAL_TRANSPORT__MAX_WAIT", "3600"), ("SUKKAL_TRANSPORT__MAX_WAITS_PER_PROJECT", "10000")];
const CLAIM: &str = "{\"ttl\":60,\"grace\":60}";

/// A store and its servers.
struct Deployment {
    servers: Vec<Sukkal>,
    store: Store,
}

impl Deployment {
    fn start(store: Store, servers: usize) -> Self {
        Self { servers: (0..servers).map(|_| Sukkal::start_with(&store.url(), &OPTIONS)).collect(), store }
    }

    /// Starts each store with one server. A short run has only one.
    fn start_each(length: Length) -> Vec<Self> {
        let stores = [Store::redis as fn() -> Store, Store::embedded];
        stores[..length.choose(2, 2, 1)].iter().map(|store| Self::start(store(), 1)).collect()
    }

    fn servers_cpu_s(&self) -> f64 {
        processes::cpu_s(&self.servers.iter().map(Sukkal::id).collect::<Vec<_>>())
    }
}

pub(crate) async fn run(options: &DocumentOptions, report: &mut Report) {
    let length = options.length(report);
    wake_ups(report, length).await;
    idle(report, length).await;
    streams(report, length).await;
    if options.write || report.is_short {
        report.write("behavior-under-load.md", "waiting");
    }
}

/// Measures the time from the `201` of a post on one server to the response of a waiting claim on
/// the other.
async fn wake_ups(report: &mut Report, length: Length) {
    let (claims, posts) = length.choose((1_000, 10_000), (1_000, 1_000), (100, 100));
    write!(
        report,
        "\n### From a post to a waiting claim\n\n{claims} claims wait on {QUEUES} queues, and {posts} messages are posted one after the \
         other. The figures are the time from the `201` to the response of a claim. It is 0 if the claim was answered first.\n\n\
         | store | p50, ms | p99, ms | longest, ms |\n|---|---|---|---|\n"
    )
    .unwrap();
    let mut deployments = vec![(Deployment::start(Store::redis(), 2), "Redis, posted at another process")];
    if length != Length::Short {
        deployments.push((Deployment::start(Store::embedded(), 1), "embedded"));
    }
    for (deployment, kind) in deployments {
        let (answered, mut answers) = mpsc::unbounded_channel();
        let mut waiters = JoinSet::new();
        for number in 0..claims {
            let mut connection = Connection::open(&deployment.servers[0].url("")).await;
            let answered = answered.clone();
            waiters.spawn(async move {
                loop {
                    connection.request("POST", &waiting_claim(number), CLAIM).await;
                    let at = Instant::now();
                    let _receiver_is_gone = answered.send(at);
                }
            });
        }
        sleep(settling(length)).await;
        let mut poster = Connection::open(&deployment.servers.last().unwrap().url("")).await;
        let mut delays_ms = Vec::with_capacity(posts);
        for number in 0..posts {
            let path = format!("/v2/queues/q{}/messages", number % QUEUES);
            poster.request("POST", &path, "{\"messages\":[{\"ttl\":300,\"body\":1}]}").await;
            let stored = Instant::now();
            let at = answers.recv().await.unwrap();
            delays_ms.push(at.saturating_duration_since(stored).as_secs_f64() * 1e3);
        }
        let [p50, p99, longest] = [50, 99, 100].map(|percent| percentile(&mut delays_ms, percent));
        writeln!(report, "| {kind} | {p50:.2} | {p99:.2} | {longest:.2} |").unwrap();
    }
}

/// Measures waiting claims without any posts.
async fn idle(report: &mut Report, length: Length) {
    let (claims, seconds) = length.choose((10_000, 30), (10_000, 5), (200, 1));
    write!(
        report,
        "\n### Waiting without posts\n\n{claims} claims wait on {QUEUES} queues for {seconds} s.\n\n\
         | store | Redis, % of a core | server, % of a core | server, KB of memory each |\n|---|---|---|---|\n"
    )
    .unwrap();
    for deployment in Deployment::start_each(length) {
        let url = deployment.servers[0].url("");
        let memory = || processes::resident_bytes(&[deployment.servers[0].id()]);
        Connection::open(&url).await.request("GET", "/v2/queues", "").await;
        let before = memory();
        let mut waiters = JoinSet::new();
        let (at_once, sent) = (Arc::new(Semaphore::new(200)), Arc::new(AtomicU64::new(0)));
        for number in 0..claims {
            let (url, at_once, sent) = (url.clone(), at_once.clone(), sent.clone());
            waiters.spawn(async move {
                let permit = at_once.acquire().await.unwrap();
                let mut connection = Connection::open(&url).await;
                connection.send("POST", &waiting_claim(number), CLAIM).await;
                sent.fetch_add(1, Ordering::Relaxed);
                drop(permit);
                connection.response().await;
            });
        }
        while sent.load(Ordering::Relaxed) < claims as u64 {
            sleep(Duration::from_millis(100)).await;
        }
        let ids: Vec<u32> = deployment.servers.iter().map(Sukkal::id).collect();
        tokio::task::spawn_blocking(move || processes::wait_until_idle(&ids)).await.unwrap();
        let memory_each = (memory() - before) / claims as f64 / 1e3;
        let (redis_s, server_s) = (deployment.store.cpu_s(), deployment.servers_cpu_s());
        sleep(Duration::from_secs(seconds)).await;
        let share = |since: f64, now: f64| (now - since) / seconds as f64 * 100.0;
        assert!(waiters.try_join_next().is_none(), "no waiting claim is answered");
        writeln!(
            report,
            "| {} | {:.2} | {:.2} | {memory_each:.1} |",
            deployment.store.name(),
            share(redis_s, deployment.store.cpu_s()),
            share(server_s, deployment.servers_cpu_s())
        )
        .unwrap();
    }
}

/// Measures many streams of one queue.
async fn streams(report: &mut Report, length: Length) {
    let (streams, seconds) = length.choose((1_000, 15), (1_000, 3), (50, 1));
    write!(
        report,
        "\n### Event streams\n\n{streams} streams of different clients follow one queue. Messages of 100 B are posted to it at a \
         constant rate. The table shows the delivered events, the time from the start of a post until its event arrives, and \
         the processor time for each event.\n\n| store | posted/s | delivered/s | p50, ms | p99, ms | server, µs each | Redis, µs each |\n\
         |---|---|---|---|---|---|---|\n"
    )
    .unwrap();
    for &rate in &[10, 40][..length.choose(2, 2, 1)] {
        for deployment in Deployment::start_each(length) {
            let url = deployment.servers[0].url("");
            let (arrivals, mut readers) = (Arrivals::new(), JoinSet::new());
            arrivals.follow(&mut readers, &url, "q", streams).await;
            sleep(settling(length)).await;
            let (redis_s, server_s) = (deployment.store.cpu_s(), deployment.servers_cpu_s());
            let fan_out = arrivals.post(&url, "q", rate, Duration::from_secs(seconds), streams).await;
            writeln!(
                report,
                "| {} | {rate} | {:.0} | {:.1} | {:.1} | {:.1} | {:.2} |",
                deployment.store.name(),
                fan_out.delivered_per_s,
                fan_out.p50_ms,
                fan_out.p99_ms,
                (deployment.servers_cpu_s() - server_s) * 1e6 / fan_out.delivered,
                (deployment.store.cpu_s() - redis_s) * 1e6 / fan_out.delivered,
            )
            .unwrap();
        }
    }
}

fn waiting_claim(number: usize) -> String {
    format!("/v2/queues/q{}/claims?limit=1&wait=3600", number % QUEUES)
}

/// Time in which a server processes new connections.
fn settling(length: Length) -> Duration {
    length.choose(Duration::from_secs(2), Duration::from_secs(2), Duration::from_millis(200))
}
