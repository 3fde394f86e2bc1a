//! The lower bound: the cost of the same work with the stream commands of Redis. The number of
//! messages in flight is the same as with the driver of Sukkal: two connections and 64 callers.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike;
use fred::types::config::Config;
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use futures::future::join_all;
use tokio::time::Instant;

use super::contestants::sample;
use super::direct::{TASKS, outcome};
use super::results::Sample;
use crate::processes;
use crate::service::Store;

const CONNECTIONS: usize = 2;
const STREAM: &str = "stream";
const GROUP: &str = "group";
/// Number of messages in a page and in a claim.
const PAGE: &str = "10";
/// Number of messages in the stream from which pages are read.
const LISTED: usize = 10_000;
/// Number of messages in the stream from which messages are claimed. A run ends when none is left.
const TAKEN: usize = 400_000;

/// A private Redis, and connections to it.
pub(crate) struct Native {
    store: Store,
    connections: Pool,
}

impl Native {
    pub(crate) async fn start() -> Self {
        let store = Store::redis();
        let connections =
            Builder::from_config(Config::from_url(&store.url()).unwrap()).build_pool(CONNECTIONS).unwrap();
        connections.init().await.unwrap();
        Self { store, connections }
    }

    /// Runs `XADD` of one message.
    pub(crate) async fn post(&self, bytes: usize, seconds: u32) -> Sample {
        self.store.flush();
        let body = "x".repeat(bytes);
        let add = |client: Client, _| {
            let body = body.clone();
            async move {
                send(&client, vec![("XADD", words([STREAM, "*", "b", &body]))]).await;
                true
            }
        };
        self.run(1.0, seconds, add).await
    }

    /// Runs `XRANGE` of ten messages after a random one.
    pub(crate) async fn list(&self, bytes: usize, seconds: u32) -> Sample {
        self.fill(LISTED, bytes).await;
        let all = send(self.connections.next(), vec![("XRANGE", words([STREAM, "-", "+"]))]).await;
        let ids = Arc::new(ids(&all[0]));
        let range = |client: Client, _| {
            let ids = ids.clone();
            async move {
                let after = format!("({}", ids[fastrand::usize(..ids.len() - 10)]);
                send(&client, vec![("XRANGE", words([STREAM, &after, "+", "COUNT", PAGE]))]).await;
                true
            }
        };
        self.run(1.0, seconds, range).await
    }

    /// Runs `XREADGROUP` of ten messages, then `XACK` and `XDEL` of them. This counts as two
    /// requests.
    pub(crate) async fn take(&self, bytes: usize, seconds: u32) -> Sample {
        self.fill(TAKEN, bytes).await;
        send(self.connections.next(), vec![("XGROUP", words(["CREATE", STREAM, GROUP, "0"]))]).await;
        let take = |client: Client, task: usize| async move {
            let consumer = task.to_string();
            let read = words(["GROUP", GROUP, &consumer, "COUNT", PAGE, "STREAMS", STREAM, ">"]);
            let answer = send(&client, vec![("XREADGROUP", read)]).await;
            let Value::Array(streams) = &answer[0] else { return false };
            let Some(Value::Array(stream)) = streams.first() else { return false };
            let ids = ids(&stream[1]);
            let ids = || ids.iter().map(String::as_str);
            let acknowledge = words([STREAM, GROUP].into_iter().chain(ids()));
            let delete = words([STREAM].into_iter().chain(ids()));
            send(&client, vec![("XACK", acknowledge), ("XDEL", delete)]).await;
            true
        };
        self.run(2.0, seconds, take).await
    }

    async fn fill(&self, count: usize, bytes: usize) {
        const BATCH: usize = 100;
        self.store.flush();
        let body = "x".repeat(bytes);
        for _ in 0..count / BATCH {
            let add = || ("XADD", words([STREAM, "*", "b", &body]));
            send(self.connections.next(), (0..BATCH).map(|_| add()).collect()).await;
        }
    }

    /// Repeats a step until the time is over or the step finds nothing to do. A step counts as
    /// `requests` requests.
    async fn run<F>(&self, requests: f64, seconds: u32, step: impl Fn(Client, usize) -> F) -> Sample
    where
        F: Future<Output = bool>,
    {
        let redis = self.store.processes();
        let myself = [std::process::id()];
        let before = (processes::cpu_s(&myself), processes::cpu_s(&redis));
        let start = Instant::now();
        let end = start + Duration::from_secs(seconds.into());
        let tasks = (0..TASKS).map(|task| {
            let (client, step) = (self.connections.next().clone(), &step);
            async move {
                let mut taken_ms = Vec::new();
                while Instant::now() < end {
                    let start = Instant::now();
                    if !step(client.clone(), task).await {
                        break;
                    }
                    taken_ms.push(start.elapsed().as_secs_f64() * 1000.0);
                }
                taken_ms
            }
        });
        let taken_ms = join_all(tasks).await.concat();
        let mut outcome = outcome(taken_ms, start.elapsed().as_secs_f64());
        outcome.requests *= requests;
        let client_s = processes::cpu_s(&myself) - before.0;
        sample(&outcome, client_s, Some(processes::cpu_s(&redis) - before.1))
    }
}

/// Sends commands in one write, and returns their replies.
async fn send(client: &Client, commands: Vec<(&'static str, Vec<Value>)>) -> Vec<Value> {
    let pipeline = client.pipeline();
    for (name, words) in commands {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let _queued: Value = pipeline.custom(command, words).await.expect("Redis answers");
    }
    pipeline.all().await.expect("Redis answers")
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    words.into_iter().map(Value::from).collect()
}

/// Returns the ids of the entries of a stream.
fn ids(entries: &Value) -> Vec<String> {
    let Value::Array(entries) = entries else {
        panic!("no entries: {entries:?}");
    };
    let id = |entry: &Value| match entry {
        Value::Array(parts) => parts[0].as_string().expect("an id is a text"),
        other => panic!("no entry: {other:?}"),
    };
    entries.iter().map(id).collect()
}
