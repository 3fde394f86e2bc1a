//! A process is killed between any two calls to the management store or to a pool, while it
//! creates, deletes or recreates a queue. Then every process agrees on the queue, and `sukkal
//! check` passes.

use std::cell::RefCell;

use futures::future::ready;
use futures::{StreamExt, stream};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::spawn_blocking;

use super::gate::{Gate, KillPoint};
use super::requests::message;
use crate::http::{answered, feed, follow, ok};
use support::redis::{RedisServer, child_command};
use support::sukkal::{Api, POOLING, Sukkal};

const PROJECT: &str = "half-placed";
const QUEUE: &str = "/v2/queues/q";
const MESSAGES: &str = "/v2/queues/q/messages";
/// More calls to one store than a request makes.
const CALLS_MAX: usize = 50;
const STORES: [&str; 2] = ["management store", "pool"];
/// Number of kill points that are tested at the same time, each with servers of its own.
const CONCURRENCY: usize = 4;

/// What the client knows after the kill.
struct Outcome {
    status: Option<u16>,
    /// A client of a process that was started afterwards.
    api: Api,
    _next: Sukkal,
}

struct Scene {
    management: RedisServer,
    pool: RedisServer,
}

/// Kills the process that handles the request at each call to each store, and checks each outcome.
async fn at_each_call(
    prepare: impl AsyncFn(&Api),
    request: impl Fn(&Api) -> RequestBuilder,
    verify: impl AsyncFn(&Outcome),
) {
    let idle = RefCell::new(Vec::new());
    for (store, name) in STORES.iter().enumerate() {
        let kill_points = (0..CALLS_MAX).flat_map(|call| [KillPoint::BeforeCall(call), KillPoint::BeforeReply(call)]);
        let kills = stream::iter(kill_points).map(async |kill_point| {
            let free = idle.borrow_mut().pop();
            let scene = free.unwrap_or_else(Scene::start);
            let (outcome, was_killed) = scene.run(store, kill_point, &prepare, &request).await;
            verify(&outcome).await;
            scene.check().await;
            idle.borrow_mut().push(scene);
            was_killed
        });
        // In the order of the kill points, so that the first process that survives has made all its
        // calls.
        let kills = kills.buffered(CONCURRENCY).take_while(|was_killed| ready(*was_killed)).count().await;
        assert!(kills > 1, "it does not need the {name}");
        assert!(kills < 2 * CALLS_MAX, "it makes more calls to the {name}");
    }
}

impl Scene {
    fn start() -> Self {
        Self { management: RedisServer::start(), pool: RedisServer::start() }
    }

    async fn run(
        &self,
        store: usize,
        kill_point: KillPoint,
        prepare: &impl AsyncFn(&Api),
        request: &impl Fn(&Api) -> RequestBuilder,
    ) -> (Outcome, bool) {
        for redis in [&self.management, &self.pool] {
            redis.command(&["FLUSHALL"]);
        }
        let gates = [&self.management, &self.pool].map(|redis| Gate::start(redis.port(), PROJECT));
        let mut sukkal = start(gates[0].url()).await;
        let pool = json!({"uri": gates[1].url(), "weight": 1});
        let created = sukkal.project(PROJECT).put("/v2/pools/a").header("X-Roles", "admin").json(&pool);
        answered(created, 201).await;
        let api = sukkal.project(PROJECT);
        prepare(&api).await;

        gates[store].hold_at(kill_point);
        let status = tokio::select! {
            biased;
            () = gates[store].happens() => None,
            response = request(&api).send() => Some(response.unwrap().status().as_u16()),
        };
        let was_killed = gates[store].has_happened();
        sukkal.kill();
        drop(gates);

        // The next process reaches the pool without the gate.
        let list = self.management.command(&["HGET", "sukkal:{pools}", "list"]);
        let direct = list.as_text().replace(pool["uri"].as_str().unwrap(), &self.pool.url());
        self.management.command(&["HSET", "sukkal:{pools}", "list", &direct]);
        let next = start(self.management.url()).await;
        (Outcome { status, api: next.project(PROJECT), _next: next }, was_killed)
    }

    async fn check(&self) {
        let mut check = child_command(support::sukkal::binary());
        check.args(["check", "--store", &self.management.url()]).envs(POOLING);
        let output = Command::from(check).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Outcome {
    /// Returns the bodies of the messages in the queue.
    async fn feed(&self) -> Vec<Value> {
        feed(&self.api, "q", "").await
    }

    /// Checks that the queue works, and is listed exactly while it exists.
    async fn assert_usable(&self) {
        ok(self.api.put(QUEUE)).await;
        assert_eq!(self.listed().await, 1);
        answered(self.api.post(MESSAGES, &message("usable")), 201).await;
        assert_eq!(self.feed().await.last().unwrap(), "usable");
        answered(self.api.delete(QUEUE), 204).await;
        assert_eq!((self.listed().await, self.feed().await.len()), (0, 0));
    }

    async fn listed(&self) -> usize {
        follow(&self.api, "/v2/queues", "queues").await.len()
    }
}

/// Starts a service with pools over this management store.
async fn start(url: String) -> Sukkal {
    spawn_blocking(move || Sukkal::start_with(&url, &POOLING)).await.unwrap()
}

#[tokio::test]
async fn a_killed_first_post_to_a_pool_is_atomic() {
    at_each_call(
        async |_| {},
        |api| api.post(MESSAGES, &message("first")),
        async |outcome| {
            let feed = outcome.feed().await;
            assert!(feed.len() == 1 || feed.is_empty() && outcome.status.is_none(), "{feed:?}");
            outcome.assert_usable().await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_killed_deletion_in_a_pool_is_atomic() {
    at_each_call(
        async |api| drop(answered(api.post(MESSAGES, &message("old")), 201).await),
        |api| api.delete(QUEUE),
        async |outcome| {
            let feed = outcome.feed().await;
            assert!(feed.is_empty() || feed == ["old"] && outcome.status.is_none(), "{feed:?}");
            outcome.assert_usable().await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_killed_recreation_in_a_pool_revives_no_message() {
    at_each_call(
        async |api| {
            answered(api.post(MESSAGES, &message("old")), 201).await;
            answered(api.delete(QUEUE), 204).await;
        },
        |api| api.post(MESSAGES, &message("new")),
        async |outcome| {
            let feed = outcome.feed().await;
            assert!(feed == ["new"] || feed.is_empty() && outcome.status.is_none(), "{feed:?}");
            outcome.assert_usable().await;
        },
    )
    .await;
}
