//! Every kind of request that needs the store, in large numbers, and the allowed responses while
//! the store is down.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::header::RETRY_AFTER;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::http::{PATCH_TYPE, answered, ids};
use support::sukkal::{Api, Sukkal};

/// The promised limits: the duration of a response, and the time until all requests work after the
/// store is back.
pub(super) const PROMISED: Duration = Duration::from_secs(2);
/// Allowance for a busy machine: test, server and Redis share its cores with other tests. The
/// server itself gives up after 1.8 seconds.
pub(super) const SLACK: Duration = Duration::from_secs(2);
/// The timeout for events that should have happened long before.
pub(super) const HANG_TIMEOUT: Duration = Duration::from_secs(20);

/// A kind of request: its name, and a function that creates it.
pub(super) type Kind = (&'static str, fn(&Requests) -> RequestBuilder);

/// Requests that change nothing.
pub(super) const READS: [Kind; 6] = [
    ("GET queue", |r| r.api.get("/v2/queues/kept")),
    ("GET queues", |r| r.api.get("/v2/queues?detailed=true&with_count=true")),
    ("GET messages", |r| r.api.get("/v2/queues/kept/messages?echo=true")),
    ("GET message", |r| r.api.get(&format!("/v2/queues/kept/messages/{}", r.kept))),
    ("GET messages by id", |r| r.api.get(&format!("/v2/queues/kept/messages?ids={}", r.kept))),
    ("GET ping", |r| r.api.get("/v2/ping")),
];
/// A request that needs a writable store.
const READINESS: Kind = ("GET readyz", |r| r.api.get("/readyz"));
/// Requests that free memory.
pub(super) const DELETES: [Kind; 6] = [
    ("DELETE queue", |r| r.api.delete("/v2/queues/doomed")),
    ("DELETE message", |r| r.api.delete(&format!("/v2/queues/kept/messages/{}", r.deletion_fate))),
    ("DELETE messages", |r| r.api.delete(&format!("/v2/queues/kept/messages?ids={}", r.deletion_fate))),
    ("DELETE message of no id", |r| r.api.delete("/v2/queues/kept/messages/nothing")),
    ("DELETE messages of no ids", |r| r.api.delete("/v2/queues/kept/messages?ids=nothing")),
    ("DELETE claim of no id", |r| r.api.delete("/v2/queues/kept/claims/nothing")),
];
/// Requests that need memory.
pub(super) const WRITES: [Kind; 4] = [
    ("PUT queue", |r| r.api.put(&format!("/v2/queues/{}", Uuid::new_v4()))),
    ("PATCH queue", |r| r.patch("kept", &json!([{ "op": "add", "path": "/metadata/color", "value": "red" }]))),
    ("POST messages", |r| r.api.post("/v2/queues/kept/messages", &message("another"))),
    ("POST messages to no queue", |r| {
        r.api.post(&format!("/v2/queues/{}/messages", Uuid::new_v4()), &message("first"))
    }),
];

/// Returns every kind.
pub(super) fn all() -> Vec<Kind> {
    [&READS[..], &DELETES, &WRITES, &[READINESS]].concat()
}

/// A client with a queue that has messages to read.
pub(super) struct Requests {
    pub(super) api: Api,
    kept: String,
    deletion_fate: String,
}

impl Requests {
    /// Prepares the queue. The store must be up.
    pub(super) async fn prepare(sukkal: &Sukkal) -> Self {
        let api = sukkal.project("faults");
        let body = json!({ "messages": [{ "body": "kept" }, { "body": "doomed" }] });
        let receipt = answered(api.post("/v2/queues/kept/messages", &body), 201).await.json();
        let [kept, deletion_fate] = ids(&receipt).try_into().unwrap();
        answered(api.put("/v2/queues/doomed"), 201).await;
        Self { api, kept, deletion_fate }
    }

    /// Returns a client whose project is empty.
    pub(super) fn without_queue(sukkal: &Sukkal) -> Self {
        Self { api: sukkal.project("faults"), kept: "no-id".to_owned(), deletion_fate: "no-id".to_owned() }
    }

    pub(super) fn patch(&self, queue: &str, patch: &Value) -> RequestBuilder {
        self.api
            .request(Method::PATCH, &format!("/v2/queues/{queue}"))
            .header("Content-Type", PATCH_TYPE)
            .body(patch.to_string())
    }

    /// Sends `count` concurrent requests of these kinds in turn.
    pub(super) async fn send(&self, kinds: &[Kind], count: usize) -> Vec<Answer> {
        let requests = kinds.iter().cycle().take(count);
        join_all(requests.map(|(what, request)| answer(what, request(self)))).await
    }

    /// Repeats each kind until its response is the normal one, which must be soon.
    pub(super) async fn all_work_again(&self, kinds: &[Kind]) {
        let back = Instant::now();
        let repeated = kinds.iter().map(|(what, request)| async move {
            loop {
                let answer = answer(what, request(self)).await;
                if answer.succeeded() {
                    return (*what, back.elapsed());
                }
                answer.check_refusal();
                assert!(back.elapsed() < HANG_TIMEOUT, "{what} does not work again: {answer:?}");
            }
        });
        for (what, after) in join_all(repeated).await {
            assert!(after < PROMISED + SLACK, "{what} worked only {after:?} after the store's return");
        }
    }
}

/// A response, and its duration.
#[derive(Debug)]
pub(super) struct Answer {
    what: &'static str,
    status: u16,
    retry_after: Option<String>,
    pub(super) body: String,
    took: Duration,
}

impl Answer {
    pub(super) fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Asserts that the response was in time, and a success or a proper 503.
    pub(super) fn check(&self) {
        assert!(self.took < PROMISED + SLACK, "{} was answered too late: {self:?}", self.what);
        if !self.succeeded() {
            self.check_refusal();
        }
    }

    fn check_refusal(&self) {
        assert_eq!(self.status, 503, "{self:?}");
        let seconds = self.retry_after.as_ref().and_then(|seconds| seconds.parse::<u32>().ok());
        assert!(seconds.is_some_and(|seconds| seconds > 0), "no Retry-After: {self:?}");
        let document: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(document["title"], "Service temporarily unavailable");
    }
}

/// Asserts that every request got a response in time and was refused.
pub(super) fn all_refused(answers: &[Answer]) {
    for answer in answers {
        answer.check();
        assert!(!answer.succeeded(), "the store was down: {answer:?}");
    }
}

/// Asserts that every request got a response in time and succeeded.
pub(super) fn all_done(answers: &[Answer]) {
    for answer in answers {
        answer.check();
        assert!(answer.succeeded(), "{answer:?}");
    }
}

pub(super) fn message(body: &str) -> Value {
    json!({ "messages": [{ "body": body }] })
}

async fn answer(what: &'static str, request: RequestBuilder) -> Answer {
    let start = Instant::now();
    let whole = async {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        (status, retry_after, response.text().await.unwrap())
    };
    let (status, retry_after, body) = timeout(HANG_TIMEOUT, whole).await.unwrap_or_else(|_| panic!("{what} hangs"));
    Answer { what, status, retry_after, body, took: start.elapsed() }
}
