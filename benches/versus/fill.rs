//! Fills queues with messages, and finds markers in them.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Value, json};
use sukkal_domain::{Body, ClientId, ClientIdRule, Metadata, NewMessage, ProjectId, QueueId, Revision};
use sukkal_storage::redis::RedisStore;
use sukkal_storage::{MessageStore, PostOutcome, QueueStore};

use super::contestants::Contestant;
use crate::client::PROJECT;
use support::calls::plain_post;
use support::sukkal::{Api, CLIENT};

/// A client that has not posted the messages that it reads.
const READER: &str = "3381af92-2b9e-11e3-b191-71861300734d";
/// Number of messages in one call of the store.
const BATCH: usize = 500;
const TASKS: usize = 8;
/// Maximum number of messages in a request by default. The next constant is the number of requests
/// in flight.
const BATCH_OVER_HTTP: usize = 20;
const TASKS_OVER_HTTP: usize = 32;

impl Contestant {
    /// Posts messages of the given size to `q-0`, without HTTP if the store can be reached
    /// directly.
    pub(crate) async fn fill(&self, count: usize, bytes: usize) {
        match &self.driver {
            Some(store) => fill(store, "q-0", count, bytes).await,
            None => self.fill_over_http(count, bytes, BATCH_OVER_HTTP).await,
        }
    }

    /// Posts messages of the given size over HTTP, `batch` in each request.
    pub(crate) async fn fill_over_http(&self, count: usize, bytes: usize, batch: usize) {
        let message = json!({"ttl": 3600, "body": "x".repeat(bytes)});
        let document = Arc::new(json!({"messages": vec![message; batch]}));
        let tasks = (0..TASKS_OVER_HTTP).map(|task| {
            let (api, document) = (self.api(), document.clone());
            let requests = count.div_ceil(batch);
            tokio::spawn(async move {
                for _ in (task..requests).step_by(TASKS_OVER_HTTP) {
                    let reply = api.post("/v2/queues/q-0/messages", &document).send().await.unwrap();
                    assert_eq!(reply.status(), 201);
                }
            })
        });
        for task in join_all(tasks).await {
            task.unwrap();
        }
    }
}

/// Returns the markers of the first pages of a queue, from the links to the next page.
pub(crate) async fn markers(api: &Api, queue: &str, pages: usize) -> Vec<String> {
    let api = api.client(READER);
    let mut next = format!("/v2/queues/{queue}/messages?limit=20");
    let mut markers = Vec::new();
    for _ in 0..pages {
        let page: Value = api.get(&next).send().await.unwrap().json().await.unwrap();
        page["links"][0]["href"].as_str().expect("a page has a link").clone_into(&mut next);
        let marker = next.split(['?', '&']).find_map(|pair| pair.strip_prefix("marker="));
        markers.push(marker.expect("the link has a marker").to_owned());
    }
    markers
}

/// Posts messages to a queue, which is created if it does not exist.
pub(crate) async fn fill(store: &RedisStore, name: &str, count: usize, bytes: usize) {
    let queue = queue(name);
    store.create_queue(&queue, &Metadata::default()).await.unwrap();
    let revision = revision(store, &queue).await;
    let messages = Arc::new(vec![message(bytes); BATCH]);
    let tasks = (0..TASKS).map(|task| {
        let (store, queue, messages) = (store.clone(), queue.clone(), messages.clone());
        tokio::spawn(async move {
            for first in (task * BATCH..count).step_by(TASKS * BATCH) {
                post(&store, &queue, revision, &messages[..BATCH.min(count - first)]).await;
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
}

pub(crate) async fn post(store: &RedisStore, queue: &QueueId, revision: Revision, messages: &[NewMessage]) {
    let posting = store.post_messages(queue, &plain_post(revision, &client(), messages)).await.unwrap();
    assert!(matches!(posting, PostOutcome::Posted(_)), "{posting:?}");
}

pub(crate) async fn revision(store: &RedisStore, queue: &QueueId) -> Revision {
    store.get_queue(queue).await.unwrap().expect("it was created").revision
}

pub(crate) fn queue(name: &str) -> QueueId {
    QueueId::new(ProjectId::new(PROJECT).unwrap(), name.parse().unwrap()).unwrap()
}

pub(crate) fn message(bytes: usize) -> NewMessage {
    let body = rmp_serde::to_vec(&"x".repeat(bytes)).unwrap();
    NewMessage { ttl_s: 3600, delay_s: 0, body: Body::from_msgpack(body.into()), assignment: None }
}

fn client() -> ClientId {
    ClientIdRule::Uuid.parse(CLIENT).unwrap()
}
