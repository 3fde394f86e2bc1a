//! A service with its store, and requests to it. Each failure is a text for a footnote.

use std::process::Child;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::redis::RedisServer;
use crate::support::sukkal::{Api, Sukkal};
use crate::{processes, zaqar};

const LOCAL: [(&str, &str); 2] =
    [("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"), ("SUKKAL_PUSH__MAX_SUBSCRIPTIONS_PER_QUEUE", "2000")];
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Number of subscriptions that are created at the same time.
const CREATIONS: usize = 16;

/// Longer than a deliverer keeps its lease without work.
pub(crate) const UNTIL_IDLE: Duration = Duration::from_secs(7);

/// A kind of service.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    OverRedis,
    Embedded,
    Zaqar,
}

pub(crate) const SUKKAL: [Service; 2] = [Service::OverRedis, Service::Embedded];
pub(crate) const ALL: [Service; 3] = [Service::OverRedis, Service::Embedded, Service::Zaqar];

impl Service {
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
    /// The id of the process.
    service: u32,
    // The service is stopped before its store.
    _process: Process,
    redis: Option<RedisServer>,
    is_zaqar: bool,
}

enum Process {
    Sukkal { _process: Sukkal, _folder: Option<TempDir> },
    Zaqar(Child),
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Self::Zaqar(process) = self {
            zaqar::stop(process);
        }
    }
}

/// Processor time, in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    pub(crate) service_us: f64,
    pub(crate) redis_us: f64,
}

impl Deployment {
    pub(crate) async fn start(service: Service) -> Self {
        if service == Service::Embedded {
            // Not below /tmp, which may be in memory.
            let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let sukkal = Sukkal::start_with(&format!("embedded:{}", folder.path().display()), &LOCAL);
            return Self::of_sukkal(sukkal, None, Some(folder));
        }
        let redis = RedisServer::start();
        if service == Service::OverRedis {
            let sukkal = Sukkal::start_with(&redis.url(), &LOCAL);
            return Self::of_sukkal(sukkal, Some(redis), None);
        }
        let (process, url) = zaqar::start_notifying(&redis).await;
        let (api, service) = (Api::new(url, "push"), process.id());
        Self { api, service, _process: Process::Zaqar(process), redis: Some(redis), is_zaqar: true }
    }

    fn of_sukkal(sukkal: Sukkal, redis: Option<RedisServer>, folder: Option<TempDir>) -> Self {
        let (api, service) = (Api::new(sukkal.url(""), "push"), sukkal.id());
        Self { api, service, _process: Process::Sukkal { _process: sukkal, _folder: folder }, redis, is_zaqar: false }
    }

    pub(crate) fn cpu(&self) -> Cpu {
        let redis_s = self.info("server", "process_id").map_or(0.0, |id| processes::cpu_s(&[id.parse().unwrap()]));
        Cpu { service_us: processes::cpu_s(&[self.service]) * 1e6, redis_us: redis_s * 1e6 }
    }

    /// Returns the memory of the service and of its Redis, in bytes.
    pub(crate) fn memory_bytes(&self) -> (f64, f64) {
        let redis = self.info("memory", "used_memory").map_or(0.0, |bytes| bytes.parse().unwrap());
        (processes::resident_bytes(&[self.service]), redis)
    }

    fn info(&self, section: &str, name: &str) -> Option<String> {
        let info = self.redis.as_ref()?.command(&["INFO", section]).as_text().to_owned();
        info.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
    }

    /// Creates a subscription for each pair of a queue and a URL, some at the same time. Returns the
    /// path of each.
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
            let logged = self.redis.as_ref().filter(|_| self.is_zaqar).and_then(zaqar::last_error);
            let logged = logged.map_or_else(String::new, |error| format!("; its log says `{error}`"));
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
