//! Push: messages are delivered to real HTTP endpoints, over each kind of store.

mod campaign;
mod confirmation;
mod deliveries;
mod encryption;
pub(crate) mod endpoint;
mod mail;
mod many_subscriptions;
mod owners;
mod refused_addresses;
mod restarts;
mod retries;
mod signatures;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sukkal_storage::embedded::EmbeddedStore;

use self::endpoint::Endpoint;
use crate::http::{answered, follow, ids};
use support::redis::RedisServer;
use support::sukkal::Api;
use support::test_bed::{Server, TestBed, queue_id};
use support::waiting::block_until;

/// Runs each of these tests over Redis and over an embedded store, on a server with these options.
macro_rules! over_each_store {
    ($($test:ident,)*) => {
        crate::push::over_each_store! { with &[]; $($test,)* }
    };
    (with $options:expr; $($test:ident,)*) => {
        mod redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::push::Bench::redis_with($options)).await;
            })*
        }

        mod embedded {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::push::Bench::embedded_with($options)).await;
            })*
        }
    };
}
use over_each_store;

/// Options of a server that delivers to endpoints on this machine.
pub(crate) const LOCAL: [(&str, &str); 2] =
    [("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"), ("SUKKAL_JANITOR__PAUSE", "1")];

/// A retry policy without delays, but for the last retries.
const QUICK: &str = r#"{"retries_with_no_delay": 3, "minimum_delay_retries": 0, "maximum_delay_retries": 0,
    "minimum_delay": 1, "maximum_delay": 11}"#;
/// A retry policy without the last retries. The delays must differ by 10 s, and negative ones count
/// as 0.
const AT_ONCE: &str = r#"{"retries_with_no_delay": 3, "minimum_delay_retries": 0, "maximum_delay_retries": 0,
    "minimum_delay": -10, "maximum_delay": 0}"#;

/// A server over one kind of store, and a client of it.
struct Bench {
    store: TestBed,
    server: Server,
    api: Api,
    redis: Option<RedisServer>,
}

impl Bench {
    fn embedded() -> Self {
        Self::embedded_with(&[])
    }

    fn embedded_with(options: &[(&str, &str)]) -> Self {
        Self::over(TestBed::Embedded(EmbeddedStore::in_memory().unwrap()), None, options)
    }

    fn redis_with(options: &[(&str, &str)]) -> Self {
        let redis = RedisServer::start();
        Self::over(TestBed::redis(&redis.url()), Some(redis), options)
    }

    fn over(store: TestBed, redis: Option<RedisServer>, options: &[(&str, &str)]) -> Self {
        let server = store.serve(&[&LOCAL, options].concat());
        let api = server.project("p");
        let this = Self { store, server, api, redis };
        this.wait_until_signaled();
        this
    }

    /// Stops the server, and starts one with these options. It knows only what is stored.
    async fn restart(&mut self, options: &[(&str, &str)]) {
        self.server.stop().await;
        self.server = self.store.serve(&[&LOCAL, options].concat());
        self.api = self.server.project("p");
        self.wait_until_signaled();
    }

    /// Waits until the server receives the signals of its store. The janitor repeats a signal that
    /// was lost, but it does not know that a test has moved the clock of a queue.
    fn wait_until_signaled(&self) {
        if let Some(redis) = &self.redis {
            let receivers = || redis.command(&["PUBSUB", "NUMSUB", "sukkal:deliveries"]).items()[1].as_int();
            block_until("the server receives signals", || receivers() == 1);
        }
    }

    /// Subscribes a URL to the queue `q`, and returns the answer.
    async fn subscribe(&self, url: &str, options: Value) -> Value {
        subscribe_to(&self.api, "q", url, options).await
    }

    /// Posts messages with these bodies to the queue `q`, and returns their ids.
    async fn post(&self, bodies: &[Value]) -> Vec<String> {
        let messages: Vec<Value> = bodies.iter().map(|body| json!({ "body": body, "ttl": 600 })).collect();
        let posted = self.api.post("/v2/queues/q/messages", &json!({ "messages": messages }));
        ids(&answered(posted, 201).await.json())
    }

    /// Returns the figures of a subscription of the queue `q`.
    async fn figures(&self, id: &str) -> Value {
        figures(&self.api, "q", id).await
    }

    /// Waits until the figures of a subscription of the queue `q` are as wanted.
    async fn wait_until(&self, id: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        wait_until(&self.api, "q", id, is_wanted).await
    }

    /// Returns the bodies of the messages in a queue.
    async fn bodies_of(&self, queue: &str) -> Vec<Value> {
        self.messages_of(queue).await.iter().map(|message| message["body"].clone()).collect()
    }

    /// Returns the messages in a queue.
    async fn messages_of(&self, queue: &str) -> Vec<Value> {
        let path = format!("/v2/queues/{queue}/messages?echo=true&include_origin=true");
        follow(&self.api, &path, "messages").await
    }

    /// Sets the clocks of the queues `q` and `dead` ahead of the real time. The process reads the
    /// clock only from time to time, and when this subscription has changed.
    async fn set_clock_ahead(&self, id: &str, seconds: i64) {
        for name in ["q", "dead"] {
            self.store.set_clock(&queue_id("p", name), seconds * 1_000_000).await;
        }
        let change = self.api.request(Method::PATCH, &format!("/v2/queues/q/subscriptions/{id}"));
        answered(change.json(&json!({ "ttl": 3_600 })), 204).await;
    }

    /// Sends a request to a path under the subscription, and returns the text of the response.
    async fn act(&self, id: &str, action: &str, body: &Value) -> String {
        let (status, text) = self.try_to_act(id, action, body).await;
        assert!(status.is_success(), "{action}: {text}");
        text
    }

    /// Sends a request to a path under the subscription, which may be refused.
    async fn try_to_act(&self, id: &str, action: &str, body: &Value) -> (StatusCode, String) {
        let path = format!("/v2/queues/q/subscriptions/{id}/{action}");
        let response = self.api.post(&path, body).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }
}

/// Subscribes a URL to a queue, and returns the answer.
async fn subscribe_to(api: &Api, queue: &str, url: &str, options: Value) -> Value {
    let document = json!({ "subscriber": url, "ttl": 3_600, "options": options });
    answered(api.post(&format!("/v2/queues/{queue}/subscriptions"), &document), 201).await.json()
}

/// Returns the figures of a subscription.
async fn figures(api: &Api, queue: &str, id: &str) -> Value {
    let path = format!("/v2/queues/{queue}/subscriptions/{id}?with_delivery=true");
    answered(api.get(&path), 200).await.json()["delivery"].take()
}

/// Waits until the figures of a subscription are as wanted.
async fn wait_until(api: &Api, queue: &str, id: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..3_000 {
        let figures = figures(api, queue, id).await;
        if is_wanted(&figures) {
            return figures;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the figures stay {}", figures(api, queue, id).await);
}

/// Returns the last attempts of a subscription of the queue `q`, the newest first.
async fn attempts(api: &Api, id: &str) -> Vec<Value> {
    let path = format!("/v2/queues/q/subscriptions/{id}/attempts");
    let mut document = answered(api.get(&path), 200).await.json();
    document["attempts"].as_array_mut().map(std::mem::take).unwrap()
}

fn id(created: &Value) -> String {
    created["subscription_id"].as_str().unwrap().to_owned()
}

/// Returns the numbers from `first` on as message bodies.
fn numbers(first: usize, count: usize) -> Vec<Value> {
    (first..first + count).map(|number| json!(number)).collect()
}

fn retry_policy() -> Value {
    serde_json::from_str(QUICK).unwrap()
}

/// Returns a retry policy that gives a message up after four attempts at once.
fn retries_at_once() -> Value {
    serde_json::from_str(AT_ONCE).unwrap()
}

/// Returns an endpoint that answers with these statuses in turn, and then with 204.
fn failing_first(statuses: Vec<u16>) -> Endpoint {
    let next = std::sync::atomic::AtomicUsize::new(0);
    Endpoint::answering(move |_| {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        endpoint::Answer::Status(statuses.get(number).copied().unwrap_or(204))
    })
}
