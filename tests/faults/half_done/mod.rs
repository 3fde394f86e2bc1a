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

use reqwest::RequestBuilder;
use serde_json::Value;
use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::redis::RedisStore;
use tokio::time::{Duration, sleep};

use super::gate::Gate;
use super::stored::Stored;
use crate::support::redis::{RedisServer, block_until};
use crate::support::sukkal::{Api, Sukkal};

const BUSY_JANITOR: (&str, &str) = ("SUKKAL_JANITOR__PAUSE", "1");
/// A janitor that visits all queues in each round.
const BUSY_WALK: (&str, &str) = ("SUKKAL_JANITOR__WALK", "1");
const OPERATOR: (&str, &str) = ("SUKKAL_ADMIN_MODE", "true");
/// Serves tokens, and believes everybody.
const TOKENS: (&str, &str) = ("SUKKAL_AUTH__STRATEGIES", "none,tokens");

const PROJECT: &str = "half-done";
/// More store calls than a request makes.
const CALLS_MAX: usize = 200;

/// When a process is killed; calls are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillPoint {
    /// Before it makes the call with this number.
    BeforeCall(usize),
    /// After the call with this number was executed, before its reply.
    BeforeReply(usize),
    /// After the response to the request.
    AfterResponse,
}

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
    answer: Option<(u16, Value)>,
    /// A process that was started afterwards.
    _next: Sukkal,
    api: Api,
}

impl Scene {
    fn start(project: &'static str) -> Self {
        let redis = RedisServer::start();
        let store = RedisStore::open(&redis.url().parse().unwrap()).unwrap();
        Self { redis, store, project }
    }

    fn stored(&self) -> Stored<'_> {
        Stored { redis: &self.redis, project: self.project }
    }

    /// Makes a request on a new store repeatedly, and kills its process at another store call each
    /// time. Has each outcome checked, and returns the number of calls.
    async fn at_each_call<W>(
        &self,
        prepare: impl AsyncFn(&Api) -> W,
        request: impl Fn(&Api, &W) -> RequestBuilder,
        verify: impl AsyncFn(RequestOutcome, W),
    ) -> usize {
        // The first run is undisturbed, so that Redis knows the scripts, and no call is repeated
        // for that reason.
        let (outcome, contents) = self.run(KillPoint::AfterResponse, &prepare, &request).await;
        assert!(outcome.acknowledged(), "{:?}", outcome.answer);
        verify(outcome, contents).await;
        for call in 0..CALLS_MAX {
            let (outcome, contents) = self.run(KillPoint::BeforeCall(call), &prepare, &request).await;
            let finished = outcome.kill_point == KillPoint::AfterResponse;
            verify(outcome, contents).await;
            if finished {
                return call;
            }
            let (outcome, contents) = self.run(KillPoint::BeforeReply(call), &prepare, &request).await;
            verify(outcome, contents).await;
        }
        panic!("it makes more calls than that");
    }

    async fn run<W>(
        &self,
        kill_point: KillPoint,
        prepare: &impl AsyncFn(&Api) -> W,
        request: &impl Fn(&Api, &W) -> RequestBuilder,
    ) -> (RequestOutcome, W) {
        self.redis.command(&["FLUSHALL"]);
        let gate = Gate::start(self.redis.port(), self.project);
        let mut sukkal = Sukkal::start_without_janitor(&self.redis, &gate.url(), &[OPERATOR, TOKENS]);
        let api = sukkal.project(self.project);
        let contents = prepare(&api).await;

        arm(&gate, kill_point);
        let answer = tokio::select! {
            biased;
            () = reached(&gate) => None,
            answer = answer_to(request(&api, &contents)) => Some(answer),
        };
        let kill_point = if gate.has_happened() { kill_point } else { KillPoint::AfterResponse };
        sukkal.kill();
        self.forget_maintenance();

        self.stored().assert_consistent();
        let next = Sukkal::start_with(&self.redis.url(), &[BUSY_JANITOR, BUSY_WALK, OPERATOR, TOKENS]);
        block_until("the register names just the queues that exist, and no letter is under way", || {
            let stored = self.stored();
            let (queues, registered) = (stored.queues(), stored.registered());
            queues == registered && registered.iter().all(|queue| stored.outbox_length(queue) == 0)
        });
        let api = next.project(self.project);
        (RequestOutcome { kill_point, answer, _next: next, api }, contents)
    }

    /// Ends the lease of a killed janitor and forgets when maintenance was done, so that the next
    /// janitor does not wait.
    fn forget_maintenance(&self) {
        self.redis.command(&["DEL", "sukkal:{janitor}"]);
    }

    /// Sets how far the clock of a queue is ahead.
    async fn set_clock(&self, queue: &str, ahead: Duration) {
        let project = ProjectId::new(self.project).unwrap();
        let queue = QueueId::new(project, queue.parse().unwrap()).unwrap();
        self.store.set_clock(&queue, i64::try_from(ahead.as_micros()).unwrap()).await.unwrap();
    }
}

impl RequestOutcome {
    fn acknowledged(&self) -> bool {
        self.answer.as_ref().is_some_and(|(status, _)| (200..300).contains(status))
    }

    /// Returns whether the client repeats the request; otherwise it has disconnected.
    fn is_repeated(&self) -> bool {
        matches!(self.kill_point, KillPoint::BeforeReply(_)) && self.answer.is_none()
    }
}

fn arm(gate: &Gate, kill_point: KillPoint) {
    match kill_point {
        KillPoint::BeforeCall(call) => gate.hold_after(call),
        KillPoint::BeforeReply(call) => gate.hold_reply_of(call),
        KillPoint::AfterResponse => gate.release(),
    }
}

async fn reached(gate: &Gate) {
    while !gate.has_happened() {
        sleep(Duration::from_millis(1)).await;
    }
}

async fn answer_to(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
}
