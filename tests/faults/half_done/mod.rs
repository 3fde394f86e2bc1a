//! The process is killed between any two store calls of a request: what was acknowledged is there, once, and
//! nothing is stuck or half-done.
//!
//! How many calls a request makes is found out, so a new one is covered by itself. At each the process dies
//! twice: before the call is made, whereupon its client gives up; and when the call was carried out but not
//! answered, whereupon the client asks another process again.

mod janitor;
mod operations;
mod queues;
pub(super) mod work;

use reqwest::RequestBuilder;
use serde_json::Value;
use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::redis::RedisStore;
use tokio::time::{Duration, sleep};

use super::gate::Gate;
use super::stored::Stored;
use crate::support::redis::{RedisServer, poll_until};
use crate::support::sukkal::{Api, Sukkal};

/// A janitor that goes round once, before there is anything to see.
pub(super) const NO_JANITOR: (&str, &str) = ("SUKKAL_JANITOR__PAUSE", "86400");
const BUSY_JANITOR: (&str, &str) = ("SUKKAL_JANITOR__PAUSE", "1");
/// A janitor that visits all queues each time.
const BUSY_WALK: (&str, &str) = ("SUKKAL_JANITOR__WALK", "1");
const OPERATOR: (&str, &str) = ("SUKKAL_ADMIN_MODE", "true");

const PROJECT: &str = "half-done";
/// More store calls than a request makes.
const CALLS_MAX: usize = 200;

/// When a process dies; calls are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// When it wants to make the call of this number.
    BeforeCall(usize),
    /// When the call of this number was carried out.
    BeforeReply(usize),
    /// When the request is answered.
    AfterAnswer,
}

/// A store whose processes die.
struct Scene {
    redis: RedisServer,
    store: RedisStore,
    project: &'static str,
}

/// What became of a request.
struct Crash {
    death: Death,
    /// The answer, if there was one: then the client relies on it.
    answer: Option<(u16, Value)>,
    /// A process that has been started since.
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

    /// Makes a request on a new store again and again, each time killing its process at another store call,
    /// has each outcome judged, and says how many calls it makes.
    async fn at_each_call<W>(
        &self,
        prepare: impl AsyncFn(&Api) -> W,
        request: impl Fn(&Api, &W) -> RequestBuilder,
        judge: impl AsyncFn(Crash, W),
    ) -> usize {
        // First undisturbed, so that Redis knows the scripts and calls are not made twice for that.
        let (crash, world) = self.run(Death::AfterAnswer, &prepare, &request).await;
        assert!(crash.acknowledged(), "{:?}", crash.answer);
        judge(crash, world).await;
        for call in 0..CALLS_MAX {
            let (crash, world) = self.run(Death::BeforeCall(call), &prepare, &request).await;
            let finished = crash.death == Death::AfterAnswer;
            judge(crash, world).await;
            if finished {
                return call;
            }
            let (crash, world) = self.run(Death::BeforeReply(call), &prepare, &request).await;
            judge(crash, world).await;
        }
        panic!("it makes more calls than that");
    }

    async fn run<W>(
        &self,
        death: Death,
        prepare: &impl AsyncFn(&Api) -> W,
        request: &impl Fn(&Api, &W) -> RequestBuilder,
    ) -> (Crash, W) {
        self.redis.command(&["FLUSHALL"]);
        let gate = Gate::start(self.redis.port(), self.project);
        let mut sukkal = Sukkal::start_with(&gate.url(), &[NO_JANITOR, OPERATOR]);
        let api = sukkal.project(self.project);
        let world = prepare(&api).await;

        arm(&gate, death);
        let answer = tokio::select! {
            biased;
            () = reached(&gate) => None,
            answer = answer_to(request(&api, &world)) => Some(answer),
        };
        let death = if gate.has_happened() { death } else { Death::AfterAnswer };
        sukkal.kill();
        self.end_lease();

        self.stored().all_fits_together();
        let next = Sukkal::start_with(&self.redis.url(), &[BUSY_JANITOR, BUSY_WALK, OPERATOR]);
        poll_until("the register names just the queues that exist, and no letter is under way", || {
            let stored = self.stored();
            let (queues, registered) = (stored.queues(), stored.registered());
            queues == registered && registered.iter().all(|queue| stored.letters_waiting(queue) == 0)
        });
        let api = next.project(self.project);
        (Crash { death, answer, _next: next, api }, world)
    }

    /// Ends the lease of a janitor that was killed, for which the next one would wait some seconds.
    fn end_lease(&self) {
        self.redis.command(&["DEL", "sukkal:{janitor}"]);
    }

    /// Sets how far the clock of a queue is ahead.
    async fn set_clock(&self, queue: &str, ahead: Duration) {
        let project = ProjectId::new(self.project).unwrap();
        let queue = QueueId::new(project, queue.parse().unwrap()).unwrap();
        self.store.set_clock(&queue, i64::try_from(ahead.as_micros()).unwrap()).await.unwrap();
    }
}

impl Crash {
    fn acknowledged(&self) -> bool {
        self.answer.as_ref().is_some_and(|(status, _)| (200..300).contains(status))
    }

    /// Whether the client asks again; else it has gone.
    fn is_repeated(&self) -> bool {
        matches!(self.death, Death::BeforeReply(_)) && self.answer.is_none()
    }
}

fn arm(gate: &Gate, death: Death) {
    match death {
        Death::BeforeCall(call) => gate.hold_after(call),
        Death::BeforeReply(call) => gate.hold_reply_of(call),
        Death::AfterAnswer => gate.release(),
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
