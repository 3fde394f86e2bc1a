//! The servers under test. Each has a Redis of its own. All run at the same time, and are measured
//! in turn.

use std::time::Instant;

use sukkal_storage::redis::RedisStore;

use super::results::Sample;
use crate::client::PROJECT;
use crate::service::{Process, Store};
use crate::wrk::{Load, Outcome};
use crate::{processes, zaqar};
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

pub(crate) const SUKKAL: &str = "Sukkal";
pub(crate) const SUKKAL_CLUSTER: &str = "Sukkal over a cluster of three";
pub(crate) const SUKKAL_DURABLE: &str = "Sukkal, Redis with AOF `always`";
pub(crate) const SUKKAL_EMBEDDED: &str = "Sukkal without a server, every write on disk";
pub(crate) const ZAQAR: &str = "Zaqar 23.0.1";
pub(crate) const RABBITMQ: &str = "RabbitMQ, HTTP publish";
/// The lower bound of the cost in Redis.
pub(crate) const NATIVE: &str = "Redis alone, its own stream commands";
pub(crate) const STORE: &str = "the store called directly, 64 tasks";

/// A server under test.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    /// The ids of the server's processes, without their children.
    pub(crate) service: Vec<u32>,
    /// Direct access to the store, to fill it without HTTP.
    pub(crate) driver: Option<RedisStore>,
    // The service is stopped before its store.
    process: Process,
    pub(crate) store: Store,
}

impl Contestant {
    /// The release binary with default options.
    pub(crate) fn sukkal(name: &'static str, store: Store) -> Self {
        let sukkal = Sukkal::start(&store.url());
        let url = sukkal.url("");
        Self::new(name, url, Process::Sukkal(sukkal), store)
    }

    fn new(name: &'static str, url: String, process: Process, store: Store) -> Self {
        let is_zaqar = matches!(process, Process::Zaqar(_));
        let driver = store.url().parse().ok().filter(|_| !is_zaqar).map(|url| RedisStore::open(&url).unwrap());
        Self { name, url, service: vec![process.id()], driver, process, store }
    }

    pub(crate) fn sukkal_over_redis() -> Self {
        Self::sukkal(SUKKAL, Store::redis())
    }

    pub(crate) fn sukkal_over_cluster() -> Self {
        Self::sukkal(SUKKAL_CLUSTER, Store::cluster())
    }

    /// Sukkal over a Redis that writes to disk before it acknowledges.
    pub(crate) fn sukkal_durable() -> Self {
        let options = [("appendonly", "yes"), ("appendfsync", "always")];
        Self::sukkal(SUKKAL_DURABLE, Store::Redis(RedisServer::start_with(&options)))
    }

    /// Sukkal with the embedded store, which writes to disk before it acknowledges.
    pub(crate) fn sukkal_embedded() -> Self {
        Self::sukkal(SUKKAL_EMBEDDED, Store::embedded())
    }

    pub(crate) async fn zaqar() -> Self {
        let server = RedisServer::start();
        let (process, url) = zaqar::start(&server).await;
        Self::new(ZAQAR, url, Process::Zaqar(process), Store::Redis(server))
    }

    /// Deletes all messages and creates the queues `q-0`, `q-1` and so on.
    pub(crate) async fn reset(&self, queues: usize) {
        self.store.flush();
        let api = self.api();
        for queue in 0..queues {
            let queue = format!("/v2/queues/q-{queue}");
            if let Store::Folder(_) = self.store {
                api.delete(&queue).send().await.unwrap();
            }
            let reply = api.put(&queue).send().await.unwrap();
            assert!(reply.status().is_success(), "{}: {}", self.name, reply.status());
        }
    }

    /// Kills Sukkal and starts it again on the same store. Returns the seconds until it is ready.
    pub(crate) async fn restart(&mut self) -> f64 {
        let Process::Sukkal(process) = &mut self.process else {
            panic!("{} is not ours to kill", self.name);
        };
        process.kill();
        let start = Instant::now();
        *process = Sukkal::start(&self.store.url());
        (self.url, self.service) = (process.url(""), vec![process.id()]);
        while self.api().get("/readyz").send().await.map_or(true, |reply| reply.status() != 204) {}
        start.elapsed().as_secs_f64()
    }

    /// A client that sends the headers that every request needs.
    pub(crate) fn api(&self) -> Api {
        Api::new(self.url.clone(), PROJECT)
    }

    /// Runs a load and returns its figures with the processor time of each process. Ends when the
    /// service is idle.
    pub(crate) fn run(&self, load: &Load) -> Sample {
        let redis = self.store.processes();
        let before = (processes::cpu_s(&self.service), processes::cpu_s(&redis));
        let outcome = load.send_to(&self.url);
        let service_s = processes::cpu_s(&self.service) - before.0;
        let redis_s = processes::cpu_s(&redis) - before.1;
        processes::wait_until_idle(&self.service);
        sample(&outcome, service_s, (!redis.is_empty()).then_some(redis_s))
    }
}

/// Converts an outcome to the columns of a table.
pub(crate) fn sample(outcome: &Outcome, service_s: f64, redis_s: Option<f64>) -> Sample {
    let per_request = |seconds: f64| seconds * 1e6 / outcome.requests;
    let mut sample = vec![
        ("req/s", outcome.requests / outcome.seconds),
        ("mean ms", outcome.mean_ms),
        ("p50 ms", outcome.p50_ms),
        ("p99 ms", outcome.p99_ms),
        ("max ms", outcome.max_ms),
        ("service µs", per_request(service_s)),
    ];
    sample.extend(redis_s.map(|redis_s| ("Redis µs", per_request(redis_s))));
    sample.push(("generator µs", per_request(outcome.cpu_s)));
    sample.push(("failed", outcome.refused + outcome.broken));
    sample
}
