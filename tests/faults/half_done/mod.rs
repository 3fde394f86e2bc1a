//! The process is killed between any two store calls of a request: acknowledged changes are there,
//! once, and nothing is stuck or half-done.
//!
//! The number of calls of a request is measured, so new calls are covered automatically. The
//! process is killed twice at each call. The first kill is before the call, and the client gives
//! up. The second is after the call was executed but before its reply, and the client repeats the
//! request at another process.

mod deliveries;
mod janitor;
mod operations;
mod queues;
mod redrive;
mod tokens;
pub(super) mod work;

use std::cell::RefCell;

use futures::future::ready;
use futures::{StreamExt, stream};
use reqwest::RequestBuilder;
use sukkal_domain::QueueId;
use sukkal_storage::redis::RedisStore;
use tokio::task::spawn_blocking;
use tokio::time::Duration;

use super::gate::{Gate, KillPoint};
use super::stored::Stored;
use crate::http::{Answer, send};
use support::redis::RedisServer;
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};
use support::test_bed::{open_movable, queue_id, set_clock};
use support::waiting::until;

type Variable = (&'static str, &'static str);

const BUSY_JANITOR: Variable = ("SUKKAL_JANITOR__PAUSE", "1");
/// A janitor that visits all queues in each round.
const BUSY_WALK: Variable = ("SUKKAL_JANITOR__WALK", "1");
const NO_JANITOR: Variable = ("SUKKAL_JANITOR__PAUSE", "86400");
const OPERATOR: Variable = ("SUKKAL_ADMIN_MODE", "true");
/// Serves tokens, and believes everybody.
const TOKENS: Variable = ("SUKKAL_AUTH__STRATEGIES", "none,tokens");

const PROJECT: &str = "half-done";
/// Minimum number of calls of a request that moves dead letters to a new queue.
const DEAD_LETTER_CALLS: usize = 9;
/// More store calls than a request makes.
const CALLS_MAX: usize = 200;
/// Maximum number of calls that are tested at the same time, each with a Redis of its own.
const CONCURRENCY: usize = 3;

/// A store whose processes are killed.
struct Scene {
    redis: RedisServer,
    store: RedisStore,
    project: &'static str,
}

/// The outcome of a request.
struct RequestOutcome {
    kill_point: KillPoint,
    /// The response, if there was one: then the client relies on it.
    answer: Option<Answer>,
    /// A process that was started afterwards.
    _next: Sukkal,
    api: Api,
}

/// Tests the calls 0, 1, 2 and so on of an operation, several at the same time, each on a store of
/// its own. `begin` prepares a store. `test` returns whether the operation makes the call. Checks
/// that it makes at least `calls_min` calls.
async fn at_each_call<B>(
    project: &'static str,
    calls_min: usize,
    begin: impl AsyncFn(&Scene) -> B,
    test: impl AsyncFn(&Scene, &B, usize) -> bool,
) {
    let idle = RefCell::new(Vec::new());
    let tests = stream::iter(0..CALLS_MAX).map(async |call| {
        let free = idle.borrow_mut().pop();
        let (scene, contents) = if let Some(prepared) = free {
            prepared
        } else {
            let scene = Scene::start(project);
            let contents = begin(&scene).await;
            (scene, contents)
        };
        let is_made = test(&scene, &contents, call).await;
        idle.borrow_mut().push((scene, contents));
        is_made
    });
    // For few calls, the preparation of further stores would take longer.
    let concurrency = calls_min.div_ceil(2).clamp(1, CONCURRENCY);
    let calls = tests.buffered(concurrency).take_while(|is_made| ready(*is_made)).count().await;
    assert!(calls >= calls_min, "it makes {calls} calls, but {calls_min} are needed");
    assert!(calls < CALLS_MAX, "it makes more calls than that");
}

/// Makes a request on new stores repeatedly, and kills its process at another store call each time.
/// Has each outcome checked, and checks that the request makes at least `calls_min` calls.
async fn kill_at_each_call<W>(
    project: &'static str,
    calls_min: usize,
    prepare: impl AsyncFn(&Scene, &Api) -> W,
    request: impl Fn(&Api, &W) -> RequestBuilder,
    verify: impl AsyncFn(&Scene, RequestOutcome, W),
) {
    at_each_call(
        project,
        calls_min,
        // The first run is undisturbed, so that Redis knows the scripts, and no call is repeated
        // for that reason.
        async |scene| {
            let (outcome, contents) = scene.run(KillPoint::AfterResponse, &prepare, &request).await;
            assert!(outcome.acknowledged(), "{:?}", outcome.answer);
            verify(scene, outcome, contents).await;
        },
        async |scene, (), call| {
            let (outcome, contents) = scene.run(KillPoint::BeforeCall(call), &prepare, &request).await;
            let is_made = outcome.kill_point != KillPoint::AfterResponse;
            verify(scene, outcome, contents).await;
            if is_made {
                let (outcome, contents) = scene.run(KillPoint::BeforeReply(call), &prepare, &request).await;
                verify(scene, outcome, contents).await;
            }
            is_made
        },
    )
    .await;
}

impl Scene {
    fn start(project: &'static str) -> Self {
        let redis = RedisServer::start();
        let store = open_movable(&redis.url());
        Self { redis, store, project }
    }

    fn stored(&self) -> Stored<'_> {
        Stored { redis: &self.redis, project: self.project }
    }

    fn has_letter_under_way(&self) -> bool {
        let stored = self.stored();
        stored.registered().iter().any(|queue| stored.outbox_length(queue) > 0)
    }

    fn queue(&self, name: &str) -> QueueId {
        queue_id(self.project, name)
    }

    async fn run<W>(
        &self,
        kill_point: KillPoint,
        prepare: &impl AsyncFn(&Self, &Api) -> W,
        request: &impl Fn(&Api, &W) -> RequestBuilder,
    ) -> (RequestOutcome, W) {
        self.redis.command(&["FLUSHALL"]);
        let gate = Gate::start(self.redis.port(), self.project);
        let mut sukkal = self.start_without_janitor(gate.url(), &[OPERATOR, TOKENS]).await;
        let api = sukkal.project(self.project);
        let contents = prepare(self, &api).await;

        gate.hold_at(kill_point);
        let answer = tokio::select! {
            biased;
            () = gate.happens() => None,
            answer = send(request(&api, &contents)) => {
                // A claim may be answered while its dead letters are still on their way.
                until("no letter is under way, or the process is to be killed", async || {
                    gate.has_happened() || !self.has_letter_under_way()
                })
                .await;
                Some(answer)
            }
        };
        let kill_point = if gate.has_happened() { kill_point } else { KillPoint::AfterResponse };
        sukkal.kill();
        self.forget_maintenance();

        self.stored().assert_consistent();
        let next = start_with_janitor(self.redis.url(), &[OPERATOR, TOKENS]).await;
        until("the register names just the queues that exist, and no letter is under way", async || {
            self.stored().queues() == self.stored().registered() && !self.has_letter_under_way()
        })
        .await;
        let api = next.project(self.project);
        (RequestOutcome { kill_point, answer, _next: next, api }, contents)
    }

    /// Starts a process that does no maintenance. The URL leads to this store.
    async fn start_without_janitor(&self, url: String, options: &[Variable]) -> Sukkal {
        self.redis.record_maintenance();
        start(url, &[NO_JANITOR, MOVABLE_CLOCK], options).await
    }

    /// Ends the lease of a killed janitor and forgets when maintenance was done, so that the next
    /// janitor does not wait.
    fn forget_maintenance(&self) {
        self.redis.command(&["DEL", "sukkal:{janitor}"]);
    }

    /// Sets how far the clock of a queue is ahead.
    async fn set_clock(&self, queue: &str, ahead: Duration) {
        set_clock(&self.store, &self.queue(queue), i64::try_from(ahead.as_micros()).unwrap()).await;
    }
}

impl RequestOutcome {
    fn acknowledged(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| (200..300).contains(&answer.status))
    }

    /// Returns whether the client repeats the request; otherwise it has disconnected.
    fn is_repeated(&self) -> bool {
        matches!(self.kill_point, KillPoint::BeforeReply(_)) && self.answer.is_none()
    }
}

/// Starts a process whose janitor visits all queues at once.
async fn start_with_janitor(url: String, options: &[Variable]) -> Sukkal {
    start(url, &[BUSY_JANITOR, BUSY_WALK, MOVABLE_CLOCK], options).await
}

async fn start(url: String, own: &[Variable], options: &[Variable]) -> Sukkal {
    let options = [own, options].concat();
    spawn_blocking(move || Sukkal::start_with(&url, &options)).await.unwrap()
}
