//! A server over its own store, with the data that the most expensive requests need: large queues,
//! and a clock that can be advanced.

use std::time::Duration;

use futures::future::join_all;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use support::redis::RedisServer;
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};
use support::test_bed::{open_movable, queue_id, set_clock};
use support::waiting::block_until;

/// The project of the most expensive requests.
const PROJECT: &str = "worst";
/// The janitor makes one round, and then pauses for longer than a case takes.
const OPTIONS: [(&str, &str); 2] =
    [("SUKKAL_JANITOR__PAUSE", "86400"), ("SUKKAL_LOG__FILTER", "warn,sukkal::app=info,sukkal::janitor=debug")];
/// Number of connections that fill a queue.
const CONNECTIONS: usize = 8;
/// Number of messages, and number of bytes, of one request that fills a queue.
const MESSAGES_PER_POST: usize = 1_000;
const BYTES_PER_POST: usize = 200_000;

/// A server and its store. Both end when this is dropped.
pub(crate) struct Stage {
    pub(crate) sukkal: Sukkal,
    pub(crate) redis: Option<RedisServer>,
    _folder: Option<TempDir>,
}

impl Stage {
    /// Starts a server over Redis.
    pub(crate) fn over_redis() -> Self {
        let redis = RedisServer::start();
        Self { sukkal: start(&redis.url()), redis: Some(redis), _folder: None }
    }

    /// Starts a server with an embedded store.
    pub(crate) fn embedded() -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { sukkal: start(&format!("embedded:{}", folder.path().display())), redis: None, _folder: Some(folder) }
    }

    /// Returns the client that sends the most expensive requests.
    pub(crate) fn api(&self) -> Api {
        self.sukkal.project(PROJECT)
    }

    /// Creates a queue with this metadata.
    pub(crate) async fn create(&self, queue: &str, metadata: &Value) {
        ok(self.api().put(&format!("/v2/queues/{queue}")).json(metadata)).await;
    }

    /// Posts a message `count` times, from several connections at once.
    pub(crate) async fn fill(&self, queue: &str, count: usize, message: &Value) {
        let size = message.to_string().len() + 1;
        let batch = (BYTES_PER_POST / size).clamp(1, MESSAGES_PER_POST);
        self.fill_by(batch, queue, count, message).await;
    }

    /// Posts a message `count` times, with `batch` messages per request.
    pub(crate) async fn fill_by(&self, batch: usize, queue: &str, count: usize, message: &Value) {
        let requests: Vec<usize> = (0..count).step_by(batch).map(|first| batch.min(count - first)).collect();
        let whole = json!({ "messages": vec![message; batch.min(count)] }).to_string();
        join_all((0..CONNECTIONS).map(|connection| {
            let (api, requests, whole) = (self.api(), &requests, &whole);
            let path = format!("/v2/queues/{queue}/messages");
            async move {
                for &count in requests.iter().skip(connection).step_by(CONNECTIONS) {
                    let is_whole = count == batch;
                    let body = || json!({ "messages": vec![message; count] }).to_string();
                    ok(posting(&api, &path, if is_whole { whole.clone() } else { body() })).await;
                }
            }
        }))
        .await;
    }

    /// Lets time pass in these queues. An embedded store has a real clock.
    pub(crate) async fn advance_clocks(&self, queues: &[&str], time: Duration) {
        if let Some(redis) = &self.redis {
            let store = open_movable(&redis.url());
            for name in queues {
                set_clock(&store, &queue_id(PROJECT, name), i64::try_from(time.as_micros()).unwrap()).await;
            }
            return;
        }
        sleep(time).await;
    }

    /// Returns when the process waits for messages of the queue.
    pub(crate) async fn wait_for_waiter(&self, queue: &str) {
        match &self.redis {
            Some(redis) => {
                let channel = format!("sukkal:{{{PROJECT}/{queue}}}:queue");
                let waiters = || redis.command(&["PUBSUB", "SHARDNUMSUB", &channel]).items()[1].as_int();
                while waiters() == 0 {
                    sleep(Duration::from_millis(5)).await;
                }
            }
            // An embedded store does not show its waiters.
            None => sleep(Duration::from_secs(1)).await,
        }
    }
}

fn start(store: &str) -> Sukkal {
    let sukkal = Sukkal::start_with(store, &[&OPTIONS[..], &[MOVABLE_CLOCK]].concat());
    // The first round may have failed, because the service was not connected yet.
    block_until("the janitor rests", || sukkal.log().iter().any(|line| line.contains("the janitor ")));
    sukkal
}

/// Returns a request that posts messages, which are given as JSON text.
pub(crate) fn posting(api: &Api, path: &str, messages: String) -> RequestBuilder {
    api.request(reqwest::Method::POST, path).header("Content-Type", "application/json").body(messages)
}

/// Sends a request that must succeed, and returns the body of the response; `null` if it is empty.
pub(crate) async fn ok(request: RequestBuilder) -> Value {
    let response = request.send().await.expect("the server answers");
    let status = response.status();
    let text = response.text().await.expect("the whole response arrives");
    let start: String = text.chars().take(300).collect();
    assert!(status.is_success(), "{status}: {start}");
    serde_json::from_str(&text).unwrap_or_default()
}
