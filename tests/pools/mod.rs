//! Real services whose queues are in pools: which pool a queue gets, what a process remembers about
//! its location, and what happens while a pool is down.
//!
//! The checkers of `feed_order`, `exclusive_claims` and `push/campaign`, and the crash tests in
//! `faults`, use these deployments too.

mod addresses;
mod aliases;
mod disturber;
mod durability;
mod guide;
mod locations;
mod move_requests;
mod mover;
mod moves;
mod outage;
mod retirement;
mod spread;
mod virtual_pool;

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

pub(crate) use self::disturber::{Disturber, Load, MOVES, STOPS, Step};
pub(crate) use self::mover::Move;
use support::redis::RedisServer;
use support::sukkal::{Api, MOVABLE_CLOCK, POOLING, Sukkal};
use support::test_bed::TestBed;
pub(crate) use support::waiting::until;

/// Names of the pools of a deployment, in the order of its servers.
pub(crate) const POOLS: [&str; 3] = ["a", "b", "c"];
const PROJECT: &str = "pooled";
/// Longer than any response takes, even while a pool does not reply.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The timeout for events that should have happened long before.
const HANG_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// The timeout for the progress of many clients, on a busy machine.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(120);

/// The store of the option `store`.
enum Management {
    Redis(RedisServer),
    Embedded(TempDir),
}

/// A management store and pools, which keep their data when they are killed.
pub(crate) struct Deployment {
    management: Management,
    pub(crate) pools: Vec<Arc<RedisServer>>,
}

impl Deployment {
    /// Starts a management store in Redis, and as many pools as there are weights.
    pub(crate) async fn start(weights: &[u32]) -> Self {
        let this = Self::without_list(Management::Redis(RedisServer::start()), weights.len());
        let server = this.serve();
        this.set_weights(&server, weights).await;
        this
    }

    fn without_list(management: Management, pools: usize) -> Self {
        let durable = [("appendonly", "yes"), ("appendfsync", "always")];
        Self { management, pools: (0..pools).map(|_| Arc::new(RedisServer::start_with(&durable))).collect() }
    }

    /// The same with an embedded management store, which belongs to one process. There is no list
    /// of pools yet.
    pub(crate) fn embedded(pools: usize) -> Self {
        Self::without_list(Management::Embedded(tempfile::tempdir().unwrap()), pools)
    }

    /// Returns the deployment as the test bed of a queue that is in this pool, and in both pools if
    /// it moves.
    pub(crate) fn bed(&self, pool: usize, steps: &[Step]) -> TestBed {
        let moves = steps.iter().any(|step| matches!(step, Step::Move(..)));
        let pools = if moves { &self.pools[..] } else { &self.pools[pool..=pool] };
        let urls: Vec<String> = pools.iter().map(|pool| pool.url()).collect();
        TestBed::pooled(&self.url(), &urls)
    }

    /// Returns all Redis servers.
    pub(crate) fn servers(&self) -> Vec<&RedisServer> {
        let management = match &self.management {
            Management::Redis(redis) => Some(redis),
            Management::Embedded(_) => None,
        };
        management.into_iter().chain(self.pools.iter().map(|pool| &**pool)).collect()
    }

    /// Returns the URL of the management store.
    pub(crate) fn url(&self) -> String {
        match &self.management {
            Management::Redis(redis) => redis.url(),
            Management::Embedded(folder) => format!("embedded:{}", folder.path().display()),
        }
    }

    pub(crate) fn serve(&self) -> Sukkal {
        self.serve_with(&[])
    }

    fn serve_with(&self, options: &[(&str, &str)]) -> Sukkal {
        Sukkal::start_with(&self.url(), &[&POOLING[..], &[MOVABLE_CLOCK], options].concat())
    }

    /// Creates or replaces the pools, which have these weights from now on.
    pub(crate) async fn set_weights(&self, server: &Sukkal, weights: &[u32]) {
        for ((name, redis), weight) in POOLS.iter().zip(&self.pools).zip(weights) {
            let pool = json!({"uri": redis.url(), "weight": weight});
            answered(admin(server, Method::PUT, &format!("pools/{name}")).json(&pool), 201).await;
        }
    }

    /// Creates a queue in one of the first two pools.
    pub(crate) async fn create_in(
        &self,
        pool: usize,
        server: &Sukkal,
        (project, queue): (&str, &str),
        metadata: &Value,
    ) {
        self.set_weights(server, if pool == 0 { &[1, 0] } else { &[0, 1] }).await;
        answered(server.project(project).put(&format!("/v2/queues/{queue}")).json(metadata), 201).await;
        assert_eq!(self.pools_of(project, queue), [POOLS[pool]]);
    }

    /// Returns the names of the pools that have this queue.
    fn pools_of(&self, project: &str, queue: &str) -> Vec<&'static str> {
        self.pools_of_first(project, queue, self.pools.len())
    }

    /// The same among the first pools.
    fn pools_of_first(&self, project: &str, queue: &str, count: usize) -> Vec<&'static str> {
        let key = format!("sukkal:{{{project}/{queue}}}:queue");
        let pools = POOLS.iter().zip(&self.pools).take(count);
        pools.filter(|(_, redis)| redis.command(&["EXISTS", &key]).as_int() == 1).map(|(name, _)| *name).collect()
    }
}

/// Returns a request of an administrator to a path below `/v2/`.
fn admin(server: &Sukkal, method: Method, path: &str) -> RequestBuilder {
    server.project(PROJECT).request(method, &format!("/v2/{path}")).header("X-Roles", "admin")
}

/// Sends a request whose response must have this status in bounded time. Returns its body.
async fn answered(request: RequestBuilder, status: u16) -> Value {
    let response = timeout(ANSWER_MAX, request.send()).await.expect("there is a response in time").unwrap();
    let (found, url) = (response.status().as_u16(), response.url().clone());
    let text = response.text().await.unwrap();
    assert_eq!(found, status, "{url}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Sends a request that must be refused with a 503 and `Retry-After` in bounded time.
async fn unavailable(request: RequestBuilder) {
    let response = timeout(ANSWER_MAX, request.send()).await.expect("there is a response in time").unwrap();
    assert_eq!(response.status(), 503, "{response:?}");
    assert!(response.headers().contains_key("Retry-After"), "{response:?}");
}

async fn post(api: &Api, queue: &str, body: &str) {
    let messages = json!({"messages": [{"body": body}]});
    answered(api.post(&format!("/v2/queues/{queue}/messages"), &messages), 201).await;
}

/// Returns the bodies of the messages in this response.
fn bodies(page: &Value) -> Vec<&str> {
    page["messages"].as_array().unwrap().iter().map(|message| message["body"].as_str().unwrap()).collect()
}

async fn list(api: &Api, queue: &str) -> Value {
    answered(api.get(&format!("/v2/queues/{queue}/messages?echo=true")), 200).await
}

/// Waits for something that can be seen without a request.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let polls = async {
        while !is_so() {
            sleep(POLL).await;
        }
    };
    timeout(PROGRESS_TIMEOUT, polls).await.unwrap_or_else(|_| panic!("it does not happen: {what}"));
}
