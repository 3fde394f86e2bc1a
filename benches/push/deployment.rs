//! A service with its store, and requests to it. Each failure is a text for a footnote.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::service::{Process, Store};
use crate::{Length, processes, zaqar};
use support::sukkal::{Api, Sukkal};

const LOCAL: [(&str, &str); 2] =
    [("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"), ("SUKKAL_PUSH__MAX_SUBSCRIPTIONS_PER_QUEUE", "2000")];
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Number of subscriptions that are created at the same time.
const CREATIONS: usize = 16;

/// A kind of service.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    OverRedis,
    Embedded,
    Zaqar,
}

const ALL: [Service; 3] = [Service::OverRedis, Service::Embedded, Service::Zaqar];

/// Longer than a deliverer keeps its lease without work. A short run does not wait.
pub(crate) fn until_idle(length: Length) -> Duration {
    Duration::from_secs(length.choose(7, 7, 0))
}

impl Service {
    /// Returns all services. A short run has only one.
    pub(crate) fn all(length: Length) -> &'static [Self] {
        &ALL[..length.choose(3, 3, 1)]
    }

    /// The same without Zaqar.
    pub(crate) fn sukkal(length: Length) -> &'static [Self] {
        &ALL[..length.choose(2, 2, 1)]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OverRedis => "Sukkal over Redis",
            Self::Embedded => "Sukkal, embedded",
            Self::Zaqar => "Zaqar 23.0.1",
        }
    }
}

/// A running service and its store.
pub(crate) struct Deployment {
    api: Api,
    // The service is stopped before its store.
    service: Process,
    store: Store,
}

/// Processor time, in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    pub(crate) service_us: f64,
    pub(crate) redis_us: f64,
}

impl Deployment {
    pub(crate) async fn start(service: Service) -> Self {
        let store = if service == Service::Embedded { Store::embedded() } else { Store::redis() };
        let (service, url) = if let (Service::Zaqar, Store::Redis(redis)) = (service, &store) {
            let (process, url) = zaqar::start_notifying(redis).await;
            (Process::Zaqar(process), url)
        } else {
            let sukkal = Sukkal::start_with(&store.url(), &LOCAL);
            let url = sukkal.url("");
            (Process::Sukkal(sukkal), url)
        };
        Self { api: Api::new(url, "push"), service, store }
    }

    pub(crate) fn cpu(&self) -> Cpu {
        Cpu { service_us: processes::cpu_s(&[self.service.id()]) * 1e6, redis_us: self.store.cpu_s() * 1e6 }
    }

    /// Returns the memory of the service and of its Redis, in bytes.
    pub(crate) fn memory_bytes(&self) -> (f64, f64) {
        (processes::resident_bytes(&[self.service.id()]), self.store.info("memory", "used_memory"))
    }

    /// Creates a subscription for each pair of a queue and a URL, some at the same time. Returns
    /// the path of each.
    pub(crate) async fn subscribe(
        &self,
        subscribers: impl IntoIterator<Item = (String, String)>,
        options: &Value,
    ) -> Result<Vec<String>, String> {
        let requests = subscribers.into_iter().map(async |(queue, url)| {
            let path = format!("/v2/queues/{queue}/subscriptions");
            let document = json!({ "subscriber": url, "ttl": 86_400, "options": options });
            let created = self.request("creates a subscription", &path, &document).await?;
            let id = created["subscription_id"].as_str().ok_or("a created subscription has no id")?;
            Ok(format!("{path}/{id}"))
        });
        stream::iter(requests).buffer_unordered(CREATIONS).try_collect().await
    }

    pub(crate) async fn pause(&self, subscriptions: Vec<String>) -> Result<(), String> {
        let requests = subscriptions.into_iter().map(async |path| {
            self.request("pauses a subscription", &format!("{path}/pause"), &json!({})).await.map(|_| ())
        });
        stream::iter(requests).buffer_unordered(CREATIONS).try_collect().await
    }

    /// Posts as many messages. Their bodies are 100 bytes with this number.
    pub(crate) async fn post(&self, queue: &str, number: u64, count: usize) -> Result<(), String> {
        let messages = vec![json!({ "body": format!("{number:0>100}"), "ttl": 86_400 }); count];
        let path = format!("/v2/queues/{queue}/messages");
        self.request("posts", &path, &json!({ "messages": messages })).await.map(|_| ())
    }

    async fn request(&self, action: &str, path: &str, document: &Value) -> Result<Value, String> {
        let failure = |what: String| {
            let redis = match (&self.service, &self.store) {
                (Process::Zaqar(_), Store::Redis(redis)) => Some(redis),
                _ => None,
            };
            let logged =
                redis.and_then(zaqar::last_error).map_or_else(String::new, |error| format!("; its log says `{error}`"));
            format!("the request that {action} got {what}{logged}")
        };
        let sent = self.api.post(path, document).timeout(REQUEST_MAX).send().await;
        let response = sent.map_err(|error| failure(error.to_string()))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| failure(error.to_string()))?;
        if !status.is_success() {
            return Err(failure(format!("{} `{text}`", status.as_u16())));
        }
        // Some responses have no document.
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}
