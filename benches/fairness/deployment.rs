//! A store with a server, and requests to it.

use serde_json::{Value, json};

use crate::client::Connection;
use crate::processes;
use crate::service::Store;
use support::sukkal::Sukkal;

pub(crate) struct Deployment {
    server: Sukkal,
    store: Store,
}

impl Deployment {
    pub(crate) fn start(store: Store) -> Self {
        Self { server: Sukkal::start(&store.url()), store }
    }

    /// The name of the store.
    pub(crate) fn name(&self) -> &'static str {
        self.store.name()
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
        self.store.cpu_s()
    }
}

/// The path of a resource of a queue.
pub(crate) fn path(queue: &str, rest: &str) -> String {
    format!("/v2/queues/{queue}{rest}")
}
