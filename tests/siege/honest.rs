//! Honest clients, who post, list, claim and delete.

use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::wire::{Client, Failure, Target};

/// Maximum time for a response.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Number of connections of each project.
const WORKERS: usize = 4;
/// Time between two cycles of a worker, and before an attempt is repeated.
const PAUSE: Duration = Duration::from_millis(20);

/// What honest clients have done.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// How long each request took until it was carried out.
    times: Vec<Duration>,
    /// Number of requests that the service has refused, and that were repeated.
    refusals: usize,
    /// Number of connections that were closed.
    closed: usize,
}

impl Work {
    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    /// Returns the time in which 99 of 100 requests were carried out.
    pub(super) fn p99(&self) -> Duration {
        self.times[self.times.len() * 99 / 100]
    }
}

impl Display for Work {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let (count, longest, p99) = (self.count(), self.times.last().unwrap_or(&Duration::ZERO), self.p99());
        let Self { refusals, closed, .. } = self;
        write!(formatter, "{count} requests (p99 {p99:?}, longest {longest:?}, {refusals} refusals, {closed} closed)")
    }
}

/// Lets two projects work until the end.
pub(super) async fn work(target: &Target, end: impl Future<Output = ()>) -> Work {
    let is_over = CancellationToken::new();
    let mut workers = JoinSet::new();
    for project in ["honest", "upright"] {
        for number in 0..WORKERS {
            let mut worker = Worker { target: target.clone(), client: None, project, work: Work::default() };
            let is_over = is_over.clone();
            workers.spawn(async move {
                while !is_over.is_cancelled() {
                    worker.cycle(number).await;
                    sleep(PAUSE).await;
                }
                worker.work
            });
        }
    }
    end.await;
    is_over.cancel();
    let mut all = Work::default();
    for Work { times, refusals, closed } in workers.join_all().await {
        all.times.extend(times);
        all.refusals += refusals;
        all.closed += closed;
    }
    all.times.sort();
    all
}

struct Worker {
    target: Target,
    client: Option<Client>,
    project: &'static str,
    work: Work,
}

impl Worker {
    async fn cycle(&mut self, number: usize) {
        let queue = format!("/v2/queues/work-{number}");
        let body = json!({ "messages": [{ "ttl": 300, "body": { "text": "x".repeat(1_000) } }] });
        self.request("POST", &format!("{queue}/messages"), &body, StatusCode::CREATED).await;
        self.request("GET", &format!("{queue}/messages?echo=true"), &Value::Null, StatusCode::OK).await;
        let claim = json!({ "ttl": 300, "grace": 60 });
        // A claim whose response was lost leaves no messages for its repetition.
        let claimed = self.request("POST", &format!("{queue}/claims"), &claim, StatusCode::CREATED).await;
        for message in claimed["messages"].as_array().into_iter().flatten() {
            let path = message["href"].as_str().expect("a message has a link");
            self.request("DELETE", path, &Value::Null, StatusCode::NO_CONTENT).await;
        }
    }

    /// Repeats a request until it is carried out, and notes how long that took. A connection that
    /// was idle may have been closed in favor of another one, and an overloaded service refuses
    /// requests.
    async fn request(&mut self, method: &str, path: &str, body: &Value, status: StatusCode) -> Value {
        let start = Instant::now();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let attempts = async {
            loop {
                match self.attempt(method, path, &body).await {
                    Ok((StatusCode::SERVICE_UNAVAILABLE, _)) => self.work.refusals += 1,
                    Ok(response) => return response,
                    Err(_) => self.work.closed += 1,
                }
                sleep(PAUSE).await;
            }
        };
        let answered = timeout(ANSWER_MAX, attempts).await;
        let (answer, text) = answered.unwrap_or_else(|_| panic!("{method} {path}: not in {ANSWER_MAX:?}"));
        let is_expected = answer == status || (status == StatusCode::CREATED && answer == StatusCode::NO_CONTENT);
        assert!(is_expected, "{method} {path}: {answer} {}", String::from_utf8_lossy(&text));
        self.work.times.push(start.elapsed());
        serde_json::from_slice(&text).unwrap_or_default()
    }

    async fn attempt(&mut self, method: &str, path: &str, body: &str) -> Result<(StatusCode, Bytes), Failure> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.target.open_client().await?,
        };
        let response = client.send(self.project, method, path, body.to_owned()).await?;
        self.client = Some(client);
        Ok(response)
    }
}
