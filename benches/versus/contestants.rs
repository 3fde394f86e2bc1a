//! The servers under test. Each has a Redis of its own. All run at the same time, and are measured in
//! turn.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Instant;

use crate::results::Sample;
use crate::support::cluster::RedisCluster;
use crate::support::redis::{RedisServer, child_command, spawn};
use crate::support::sukkal::{Api, Sukkal};
use crate::wrk::{Load, Outcome};
use crate::{PROJECT, processes, zaqar};
use sukkal::storage::redis::RedisStore;
use tempfile::TempDir;

pub(crate) const SUKKAL: &str = "Sukkal";
pub(crate) const SUKKAL_CLUSTER: &str = "Sukkal over a cluster of three";
pub(crate) const SUKKAL_DURABLE: &str = "Sukkal, Redis with AOF `always`";
pub(crate) const SUKKAL_EMBEDDED: &str = "Sukkal without a server, every write on disk";
pub(crate) const STUB: &str = "stub: the same server, nothing stored";
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
    pub(crate) backend: Backend,
    /// Direct access to the store, to fill it without HTTP.
    pub(crate) store: Option<RedisStore>,
    running: Running,
}

/// The process of the server.
pub(crate) enum Running {
    Sukkal(Sukkal),
    /// A variant of Sukkal, which can simply be killed.
    Variant(Child),
    Zaqar(Child),
}

/// The store of a contestant.
pub(crate) enum Backend {
    Redis(Arc<RedisServer>),
    Cluster(RedisCluster),
    Folder(TempDir),
}

impl Drop for Running {
    fn drop(&mut self) {
        match self {
            Self::Sukkal(_) => {}
            Self::Variant(process) => {
                let _dead_already = process.kill();
                let _reaped = process.wait();
            }
            Self::Zaqar(process) => zaqar::stop(process),
        }
    }
}

impl Backend {
    /// The URI of the store for Sukkal.
    fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Folder(folder) => format!("embedded:{}", folder.path().display()),
        }
    }

    fn servers(&self) -> Vec<&RedisServer> {
        match self {
            Self::Redis(server) => vec![server],
            Self::Cluster(cluster) => cluster.nodes().iter().collect(),
            Self::Folder(_) => Vec::new(),
        }
    }

    /// Returns a figure of `INFO`, summed over all Redis servers.
    pub(crate) fn info(&self, section: &str, name: &str) -> f64 {
        let of = |server: &RedisServer| info(server, section, name).parse::<f64>().unwrap();
        self.servers().into_iter().map(of).sum()
    }

    /// Size of the files of an embedded store, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let Self::Folder(folder) = self else {
            return 0;
        };
        fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }

    /// Empties a Redis.
    pub(crate) fn flush(&self) {
        for server in self.servers() {
            server.command(&["FLUSHALL", "SYNC"]);
        }
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        self.servers().into_iter().map(|server| info(server, "server", "process_id").parse().unwrap()).collect()
    }
}

/// Returns one field of `INFO` of a server.
pub(crate) fn info(server: &RedisServer, section: &str, name: &str) -> String {
    let reply = server.command(&["INFO", section]);
    let of = |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    reply.as_text().lines().find_map(|line| of(line.trim())).unwrap_or_else(|| panic!("INFO has no {name}"))
}

impl Contestant {
    /// The release binary with default options.
    pub(crate) fn sukkal(name: &'static str, backend: Backend) -> Self {
        let url = backend.url();
        let process = Sukkal::start(&url);
        Self {
            name,
            url: process.url(""),
            service: vec![process.id()],
            backend,
            store: url.parse().ok().map(|url| RedisStore::open(&url).unwrap()),
            running: Running::Sukkal(process),
        }
    }

    pub(crate) fn sukkal_over_redis() -> Self {
        Self::sukkal(SUKKAL, Backend::Redis(Arc::new(RedisServer::start())))
    }

    pub(crate) fn sukkal_over_cluster() -> Self {
        Self::sukkal(SUKKAL_CLUSTER, Backend::Cluster(RedisCluster::start()))
    }

    /// Sukkal over a Redis that writes to disk before it acknowledges.
    pub(crate) fn sukkal_durable() -> Self {
        let options = [("appendonly", "yes"), ("appendfsync", "always")];
        Self::sukkal(SUKKAL_DURABLE, Backend::Redis(Arc::new(RedisServer::start_with(&options))))
    }

    /// Sukkal with the embedded store, which writes to disk before it acknowledges.
    pub(crate) fn sukkal_embedded() -> Self {
        // Not below /tmp, which may be in memory.
        Self::sukkal(SUKKAL_EMBEDDED, Backend::Folder(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()))
    }

    /// A variant of Sukkal that posts in another way (see `ways`).
    pub(crate) fn variant(name: &'static str, way: &str) -> Self {
        let server = Arc::new(RedisServer::start());
        let mut command = child_command(std::env::current_exe().unwrap());
        command.args(["--serve", way, "--store", &server.url()]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = spawn(command).expect("this program starts");
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self {
            name,
            url: format!("http://{}", address.trim()),
            service: vec![process.id()],
            store: Some(RedisStore::open(&server.url().parse().unwrap()).unwrap()),
            backend: Backend::Redis(server),
            running: Running::Variant(process),
        }
    }

    pub(crate) fn stub() -> Self {
        Self::variant(STUB, "stub")
    }

    pub(crate) async fn zaqar() -> Self {
        let server = Arc::new(RedisServer::start());
        let (process, url) = zaqar::start(&server).await;
        Self {
            name: ZAQAR,
            url,
            service: vec![process.id()],
            backend: Backend::Redis(server),
            store: None,
            running: Running::Zaqar(process),
        }
    }

    /// Deletes all messages and creates the queues `q-0`, `q-1` and so on.
    pub(crate) async fn reset(&self, queues: usize) {
        self.backend.flush();
        let api = self.api();
        for queue in 0..queues {
            let queue = format!("/v2/queues/q-{queue}");
            if let Backend::Folder(_) = self.backend {
                api.delete(&queue).send().await.unwrap();
            }
            let reply = api.put(&queue).send().await.unwrap();
            assert!(reply.status().is_success(), "{}: {}", self.name, reply.status());
        }
    }

    /// Kills Sukkal and starts it again on the same store. Returns the seconds until it is ready.
    pub(crate) async fn restart(&mut self) -> f64 {
        let Running::Sukkal(process) = &mut self.running else {
            panic!("{} is not ours to kill", self.name);
        };
        process.kill();
        let start = Instant::now();
        *process = Sukkal::start(&self.backend.url());
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
        let redis = self.backend.processes();
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
    sample.push(("failed", outcome.failed));
    sample
}
