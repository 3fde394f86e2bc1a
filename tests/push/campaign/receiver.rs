//! The endpoint of all subscriptions of a campaign. What it does with a request depends only on
//! the seed, the subscription, the message and the number of the attempt.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use super::fleet::pool_of;
use super::history::Request;
use super::queue_of;
use support::http_stub::{self, Answer, HttpStub};
use support::lock;
use support::random::Random;

/// Longest wait before an answer.
const WAIT_MS_MAX: u64 = 100;
/// How long most requests hang before their connection is closed.
const HANG: Duration = Duration::from_secs(1);
/// How long a few requests hang in the long form, which is shorter than an attempt may take.
const LONG_HANG: Duration = Duration::from_secs(20);

/// What the endpoint does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Answers after this time. The answer may be 500 although the message was recorded.
    Answer(Duration, u16),
    /// Closes the connection after this time.
    Close(Duration),
}

/// A running endpoint. It stops when this is dropped.
pub(super) struct Receiver {
    state: Arc<State>,
    server: HttpStub,
}

struct State {
    seed: u64,
    is_long: bool,
    started: Instant,
    log: Mutex<Log>,
    /// Number of different messages that were acknowledged, added up over all subscriptions.
    delivered: watch::Sender<usize>,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    attempts: HashMap<(usize, usize), u64>,
    delivered: HashSet<(usize, usize)>,
}

impl Receiver {
    pub(super) fn start(seed: u64, is_long: bool, started: Instant) -> Self {
        let (log, delivered) = (Mutex::default(), watch::Sender::new(0));
        let state = Arc::new(State { seed, is_long, started, log, delivered });
        let of_server = state.clone();
        // Closing a connection resets it.
        let server = HttpStub::with_linger(Some(Duration::ZERO), move |request| of_server.clone().receive(request));
        Self { state, server }
    }

    /// Returns the URL of a subscription.
    pub(super) fn url(&self, subscription: usize) -> String {
        format!("{}/{subscription}", self.server.url)
    }

    /// Returns the number of different messages that were acknowledged, added up over all
    /// subscriptions.
    pub(super) fn delivered(&self) -> watch::Receiver<usize> {
        self.state.delivered.subscribe()
    }

    /// Returns a function that returns the same for the queues of one pool.
    pub(super) fn delivered_in_pools(&self) -> impl Fn(usize) -> usize + Send + Sync + use<> {
        let state = self.state.clone();
        move |pool| {
            let log = state.log();
            log.delivered.iter().filter(|(subscription, _)| pool_of(queue_of(*subscription)) == pool).count()
        }
    }

    /// Returns the requests so far, in the order in which they were received.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.state.log().requests.clone()
    }
}

impl State {
    async fn receive(self: Arc<Self>, request: http_stub::Request) -> Answer {
        let subscription: usize = request.path_and_query[1..].parse().unwrap();
        let notification: Value = serde_json::from_slice(&request.body).unwrap();
        let message = usize::try_from(notification["body"].as_u64().unwrap()).unwrap();
        let message_id = request.header("webhook-id").to_owned();
        let (number, attempt) = {
            let mut log = self.log();
            let attempt = log.attempts.entry((subscription, message)).or_default();
            *attempt += 1;
            let attempt = *attempt;
            let received = self.now();
            log.requests.push(Request { subscription, message, message_id, received, ended: None, status: None });
            (log.requests.len() - 1, attempt)
        };
        match decide(self.seed, subscription, message, attempt, self.is_long) {
            Decision::Answer(wait, status) => {
                sleep(wait).await;
                self.end(number, Some(status));
                let mut response = Response::new(Full::default());
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                Ok(response)
            }
            Decision::Close(wait) => {
                sleep(wait).await;
                self.end(number, None);
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }

    fn end(&self, number: usize, status: Option<u16>) {
        let mut log = self.log();
        let now = self.now();
        let request = &mut log.requests[number];
        (request.ended, request.status) = (Some(now), status);
        if request.acknowledged().is_some() {
            let delivery = (request.subscription, request.message);
            log.delivered.insert(delivery);
            self.delivered.send_replace(log.delivered.len());
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }
}

fn decide(seed: u64, subscription: usize, message: usize, attempt: u64, is_long: bool) -> Decision {
    let mut random = Random::new(seed, (subscription as u64) << 20 | attempt, message);
    let wait = Duration::from_millis(random.within(0..=WAIT_MS_MAX));
    match random.below(1_000) {
        0..600 => Decision::Answer(Duration::ZERO, 204),
        600..700 => Decision::Answer(wait, 200),
        700..790 => Decision::Answer(Duration::ZERO, 500),
        790..840 => Decision::Answer(Duration::ZERO, 404),
        840..920 => Decision::Close(Duration::ZERO),
        920..980 => Decision::Answer(wait, 500),
        980 if is_long && random.one_in(4) => Decision::Close(LONG_HANG),
        _ => Decision::Close(HANG),
    }
}

#[test]
fn the_seed_repeats_the_decisions() {
    let decisions = |seed| (0..100).map(|message| decide(seed, 1, message, 1, false)).collect::<Vec<_>>();

    assert_eq!(decisions(7), decisions(7));
    assert_ne!(decisions(7), decisions(8));
}
