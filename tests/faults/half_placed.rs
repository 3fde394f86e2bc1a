//! A process is killed between any two calls to the management store or to a pool, while it creates,
//! deletes or recreates a queue. Then every process agrees on the queue, and `sukkal check` passes.

use reqwest::RequestBuilder;
use serde_json::json;
use tokio::time::{Duration, sleep};

use super::gate::Gate;
use super::requests::message;
use crate::support::redis::{RedisServer, child_command};

use crate::support::sukkal::{Api, POOLING, Sukkal};

const PROJECT: &str = "half-placed";
const QUEUE: &str = "/v2/queues/q";
const MESSAGES: &str = "/v2/queues/q/messages";
const FEED: &str = "/v2/queues/q/messages?echo=true";
/// More calls to one store than a request makes.
const CALLS_MAX: usize = 50;
const STORES: [&str; 2] = ["management store", "pool"];

/// When the process is killed: before a call to a store, or before the reply to it.
#[derive(Clone, Copy, Debug)]
enum KillPoint {
    BeforeCall(usize),
    BeforeReply(usize),
}

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

impl Scene {
    /// Kills the process that handles the request at each call to each store, and checks each outcome.
    async fn at_each_call(
        &self,
        prepare: impl AsyncFn(&Api),
        request: impl Fn(&Api) -> RequestBuilder,
        verify: impl AsyncFn(&Outcome),
    ) {
        for (store, name) in STORES.iter().enumerate() {
            let mut calls = 0;
            'calls: loop {
                assert!(calls < CALLS_MAX, "it makes more calls to the {name}");
                for kill_point in [KillPoint::BeforeCall(calls), KillPoint::BeforeReply(calls)] {
                    let (outcome, was_killed) = self.run(store, kill_point, &prepare, &request).await;
                    verify(&outcome).await;
                    self.check();
                    if !was_killed {
                        break 'calls;
                    }
                }
                calls += 1;
            }
            assert!(calls > 0, "it does not need the {}", STORES[store]);
        }
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
        let mut sukkal = Sukkal::start_with(&gates[0].url(), &POOLING);
        let pool = json!({"uri": gates[1].url(), "weight": 1});
        let created = sukkal.project(PROJECT).put("/v2/pools/a").header("X-Roles", "admin").json(&pool);
        assert_eq!(created.send().await.unwrap().status(), 201);
        let api = sukkal.project(PROJECT);
        prepare(&api).await;

        match kill_point {
            KillPoint::BeforeCall(call) => gates[store].hold_after(call),
            KillPoint::BeforeReply(call) => gates[store].hold_reply_of(call),
        }
        let reached = async {
            while !gates[store].has_happened() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let status = tokio::select! {
            biased;
            () = reached => None,
            response = request(&api).send() => Some(response.unwrap().status().as_u16()),
        };
        let was_killed = gates[store].has_happened();
        sukkal.kill();
        drop(gates);

        // The next process reaches the pool without the gate.
        let list = self.management.command(&["HGET", "sukkal:{pools}", "list"]);
        let direct = list.as_text().replace(pool["uri"].as_str().unwrap(), &self.pool.url());
        self.management.command(&["HSET", "sukkal:{pools}", "list", &direct]);
        let next = Sukkal::start_with(&self.management.url(), &POOLING);
        (Outcome { status, api: next.project(PROJECT), _next: next }, was_killed)
    }

    fn check(&self) {
        let mut check = child_command(env!("CARGO_BIN_EXE_sukkal"));
        check.args(["check", "--store", &self.management.url()]).envs(POOLING);
        let output = check.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Outcome {
    async fn status(&self, request: RequestBuilder) -> u16 {
        request.send().await.unwrap().status().as_u16()
    }

    /// Returns the bodies of the messages in the queue.
    async fn feed(&self) -> Vec<String> {
        let page: serde_json::Value = self.api.get(FEED).send().await.unwrap().json().await.unwrap();
        let messages = page["messages"].as_array().unwrap().iter();
        messages.map(|message| message["body"].as_str().unwrap().to_owned()).collect()
    }

    /// Checks that the queue works, and is listed exactly while it exists.
    async fn assert_usable(&self) {
        assert!([201, 204].contains(&self.status(self.api.put(QUEUE)).await));
        assert_eq!(self.listed().await, 1);
        assert_eq!(self.status(self.api.post(MESSAGES, &message("usable"))).await, 201);
        assert_eq!(self.feed().await.last().unwrap(), "usable");
        assert_eq!(self.status(self.api.delete(QUEUE)).await, 204);
        assert_eq!((self.listed().await, self.feed().await.len()), (0, 0));
    }

    async fn listed(&self) -> usize {
        let page: serde_json::Value = self.api.get("/v2/queues").send().await.unwrap().json().await.unwrap();
        page["queues"].as_array().unwrap().len()
    }
}

fn scene() -> Scene {
    Scene { management: RedisServer::start(), pool: RedisServer::start() }
}

async fn send(request: RequestBuilder) {
    assert!(request.send().await.unwrap().status().is_success());
}

#[tokio::test]
async fn a_killed_first_post_to_a_pool_is_atomic() {
    scene()
        .at_each_call(
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
    scene()
        .at_each_call(
            async |api| send(api.post(MESSAGES, &message("old"))).await,
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
    scene()
        .at_each_call(
            async |api| {
                send(api.post(MESSAGES, &message("old"))).await;
                send(api.delete(QUEUE)).await;
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
