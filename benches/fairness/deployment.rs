//! A store with a server, and requests to it.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Connection;
use crate::processes;
use crate::support::cluster::RedisCluster;
use crate::support::redis::RedisServer;
use crate::support::sukkal::Sukkal;

pub(crate) struct Deployment {
    pub(crate) name: &'static str,
    server: Sukkal,
    store: Store,
}

enum Store {
    Redis(RedisServer),
    Cluster(RedisCluster),
    Folder(#[expect(dead_code, reason = "removes the folder when it is dropped")] TempDir),
}

impl Deployment {
    pub(crate) fn redis() -> Self {
        let redis = RedisServer::start();
        Self { name: "Redis", server: Sukkal::start(&redis.url()), store: Store::Redis(redis) }
    }

    pub(crate) fn cluster() -> Self {
        let cluster = RedisCluster::start();
        Self { name: "Redis Cluster", server: Sukkal::start(&cluster.url()), store: Store::Cluster(cluster) }
    }

    pub(crate) fn embedded() -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Sukkal::start(&format!("embedded:{}", folder.path().display()));
        Self { name: "embedded", server, store: Store::Folder(folder) }
    }

    pub(crate) async fn connect(&self, client: usize) -> Connection {
        Connection::open_as(&self.server.url(""), client).await
    }

    /// Creates a new queue with the given number of shards.
    pub(crate) async fn create(&self, queue: &str, shards: u16) {
        let mut connection = self.connect(1).await;
        connection.request("DELETE", &path(queue, ""), "").await;
        connection.request("PUT", &path(queue, ""), &json!({ "_shards": shards }).to_string()).await;
    }

    pub(crate) async fn stats(&self, queue: &str) -> Value {
        let stats = self.connect(1).await.request("GET", &path(queue, "/stats?detailed=true"), "").await;
        serde_json::from_slice(&stats).unwrap()
    }

    /// Processor time of the server, in seconds.
    pub(crate) fn service_cpu_s(&self) -> f64 {
        processes::cpu_s(&[self.server.id()])
    }

    /// Processor time of the processes of the store, in seconds.
    pub(crate) fn store_cpu_s(&self) -> f64 {
        let servers: Vec<&RedisServer> = match &self.store {
            Store::Redis(server) => vec![server],
            Store::Cluster(cluster) => cluster.nodes().iter().collect(),
            Store::Folder(_) => Vec::new(),
        };
        let id = |server: &RedisServer| {
            let info = server.command(&["INFO", "server"]).as_text().to_owned();
            info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().parse().unwrap()
        };
        processes::cpu_s(&servers.into_iter().map(id).collect::<Vec<_>>())
    }
}

/// The path of a resource of a queue.
pub(crate) fn path(queue: &str, rest: &str) -> String {
    format!("/v2/queues/{queue}{rest}")
}

/// Returns the median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
