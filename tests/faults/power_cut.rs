//! Redis keeps every write on disk (AOF, `always`) and is killed again and again under load: what was
//! acknowledged is there once, what was acknowledged as deleted is not.
//!
//! `SUKKAL_POWER_CUTS` is how often, `SUKKAL_SEED` repeats the choices of an earlier test (not its timing).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::redis::RedisStore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Duration, sleep};

use super::cuts::{self, ANSWERS_PER_CUT, PRODUCERS, WORKERS};
use super::half_done::work::drain;
use super::stored::Stored;
use crate::support::chronicle::choices::{self, Choices};
use crate::support::redis::{RedisServer, poll_until};
use crate::support::sukkal::{Api, Sukkal};

const PROJECT: &str = "power-cut";
const WORK: &str = "work";
const DEAD: &str = "dead";
const MESSAGES: &str = "/v2/queues/work/messages";

const CUTS: u64 = 6;
/// Producers let workers catch up.
const BACKLOG_MAX: i64 = 300;
/// Longer than any claim and delay here, and by how much the clock is moved after a cut at most.
const ALL_IS_OVER_S: u64 = 1_000;
const STEP_S_MAX: u64 = 70;

/// What was promised about a message.
#[derive(Clone, Copy, Default)]
struct Promise {
    posted: bool,
    deleted: Option<Instant>,
    perhaps_deleted: bool,
}

/// What everybody knows. Messages are told apart by their bodies, which they keep as dead letters.
#[derive(Default)]
struct Board {
    promises: Mutex<HashMap<String, Promise>>,
    answers: AtomicU64,
    refusals: AtomicU64,
    letters: AtomicU64,
    /// How often the clock was moved.
    moves: AtomicU64,
    over: AtomicBool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_power_cuts_of_a_redis_that_keeps_every_write() {
    let redis = Arc::new(RedisServer::start_with(&[("appendonly", "yes"), ("appendfsync", "always")]));
    let servers = [(); 2]
        .map(|()| Sukkal::start_with(&redis.url(), &[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")]));
    let store = RedisStore::open(&redis.url().parse().unwrap()).unwrap();
    let seed = choices::seed();
    println!("power cuts: SUKKAL_SEED={seed}");
    let keys = json!({ "_max_claim_count": 2, "_dead_letter_queue": "dead", "_default_message_delay": 1 });
    let created = servers[0].project(PROJECT).put("/v2/queues/work").json(&keys).send().await.unwrap();
    assert_eq!(created.status(), 201);

    let board = Arc::new(Board::default());
    let api = |number: usize| servers[number % servers.len()].project(PROJECT);
    let mut actors = JoinSet::new();
    for number in 0..PRODUCERS {
        actors.spawn(produce(api(number), board.clone(), number, Choices::of(seed, 1, number)));
    }
    for number in 0..=WORKERS {
        // The last one takes care of the dead letters.
        let queue = if number == WORKERS { DEAD } else { WORK };
        actors.spawn(work(api(number), queue, board.clone(), Choices::of(seed, 2, number)));
    }
    let ahead_s = cut_power(&redis, &store, &board, Choices::of(seed, 3, 0)).await;
    board.over.store(true, Ordering::SeqCst);
    actors.join_all().await;

    for queue in [WORK, DEAD] {
        set_clock(&store, queue, ahead_s + ALL_IS_OVER_S).await;
    }
    judge(&redis, &api(0), &board).await;
}

/// Kills Redis and starts it again, so often; says how far the clock has been moved then.
async fn cut_power(redis: &Arc<RedisServer>, store: &RedisStore, board: &Board, mut choices: Choices) -> u64 {
    let mut ahead_s = 0;
    for _ in 0..cuts::count(CUTS) {
        let due = board.answers.load(Ordering::SeqCst) + choices.within(ANSWERS_PER_CUT / 2..=ANSWERS_PER_CUT);
        wait_until(|| board.answers.load(Ordering::SeqCst) >= due).await;
        let refused = board.refusals.load(Ordering::SeqCst);
        let killed = redis.clone();
        spawn_blocking(move || killed.kill()).await.unwrap();
        if choices.one_in(3) {
            wait_until(|| board.refusals.load(Ordering::SeqCst) > refused).await;
        }
        let restarted = redis.clone();
        spawn_blocking(move || restarted.restart()).await.unwrap();
        board.moves.fetch_add(1, Ordering::SeqCst);
        ahead_s += choices.within(1..=STEP_S_MAX);
        set_clock(store, WORK, ahead_s).await;
    }
    ahead_s
}

async fn produce(api: Api, board: Arc<Board>, producer: usize, mut choices: Choices) {
    let mut number = 0;
    while !board.over() {
        wait_until(|| board.backlog() < BACKLOG_MAX || board.over()).await;
        number += 1;
        let names: Vec<String> = (0..choices.within(1..=5)).map(|part| format!("{producer}/{number}/{part}")).collect();
        let delay = if choices.one_in(4) { choices.within(1..=60) } else { 0 };
        let message = |name| json!({ "body": name, "delay": delay, "ttl": 86_400 });
        let batch = json!({ "messages": names.iter().map(message).collect::<Vec<_>>() });
        let key = choices.one_in(3).then(|| format!("\"{producer}-{number}\""));
        board.update(&names, |_| {});
        loop {
            let post = api.post(MESSAGES, &batch);
            let post = key.iter().fold(post, |post, key| post.header("Idempotency-Key", key));
            match board.answer(post).await {
                Some((201, _)) => break board.update(&names, |promise| promise.posted = true),
                // Only with a key it can be asked for again: without one it may have happened.
                None if key.is_some() => {}
                None => break,
                Some(answer) => panic!("{answer:?}"),
            }
        }
    }
}

async fn work(api: Api, queue: &'static str, board: Arc<Board>, mut choices: Choices) {
    let claims = format!("/v2/queues/{queue}/claims");
    while !board.over() {
        let limit = choices.within(1..=10);
        let (began, moves) = (Instant::now(), board.moves.load(Ordering::SeqCst));
        let term = json!({ "ttl": choices.within(60..=120), "grace": 60 });
        let messages = match board.answer(api.post(&format!("{claims}?limit={limit}"), &term)).await {
            Some((201, claim)) => claim["messages"].as_array().unwrap().clone(),
            Some((204, _)) => {
                sleep(Duration::from_millis(5)).await;
                continue;
            }
            None => continue,
            answer => panic!("{answer:?}"),
        };
        if queue == DEAD {
            board.letters.fetch_add(messages.len() as u64, Ordering::SeqCst);
        }
        let Some(claim) = messages.first().map(claim_of) else { continue };
        for message in &messages {
            let name = name_of(message);
            let promise = board.promises()[&name];
            assert!(promise.deleted.is_none_or(|deleted| deleted > began), "{name} was deleted and comes again");
            match choices.within(0..=9) {
                0..6 => delete(&api, &board, message, moves).await,
                6..8 => {
                    let id = message["id"].as_str().unwrap();
                    let delay = choices.within(0..=1) * choices.within(1..=60);
                    let path = format!("{claims}/{claim}/messages/{id}?delay={delay}");
                    board.change(api.delete(&path), &[204, 404]).await;
                }
                _ => {}
            }
        }
        let path = format!("{claims}/{claim}");
        match choices.within(0..=3) {
            0 => board.change(api.delete(&path), &[204]).await,
            1 => board.change(api.request(Method::PATCH, &path).json(&term), &[204, 404]).await,
            _ => {}
        }
    }
}

/// Deletes a message that was claimed when the clock had been moved so often.
async fn delete(api: &Api, board: &Board, message: &Value, moves: u64) {
    let name = [name_of(message)];
    let answer = board.answer(api.delete(message["href"].as_str().unwrap())).await;
    // Once its claim is over it may be gone because it has become a dead letter.
    let is_live = board.moves.load(Ordering::SeqCst) == moves;
    match answer {
        Some((204, _)) if is_live => board.update(&name, |promise| promise.deleted = Some(Instant::now())),
        // Its claim was over.
        Some((400 | 403, _)) => {}
        None | Some((204, _)) => board.update(&name, |promise| promise.perhaps_deleted = true),
        answer => panic!("{answer:?}"),
    }
}

/// Checks that each message is where it was promised to be: nowhere else, and once.
async fn judge(redis: &RedisServer, api: &Api, board: &Board) {
    let stored = Stored { redis, project: PROJECT };
    poll_until("all letters have arrived", || stored.letters_waiting(WORK) == 0);
    let (work, dead) = (stats(api, WORK).await, stats(api, DEAD).await);
    stored.all_fits_together();

    let mut found: HashMap<String, usize> = HashMap::new();
    for queue in [WORK, DEAD] {
        let names = drain(api, queue).await;
        poll_until("all letters have arrived", || stored.letters_waiting(WORK) == 0);
        for name in names {
            *found.entry(name).or_default() += 1;
        }
    }
    assert_eq!(found.values().sum::<usize>() as u64, work + dead, "the stats were wrong");

    let promises = board.promises().clone();
    for (name, promise) in &promises {
        let times = found.remove(name).unwrap_or(0);
        let expected = match promise {
            Promise { deleted: Some(_), .. } => 0..=0,
            Promise { posted: true, perhaps_deleted: false, .. } => 1..=1,
            _ => 0..=1,
        };
        assert!(expected.contains(&times), "{name} is there {times} times, not {expected:?}");
    }
    assert!(found.is_empty(), "nobody has posted {found:?}");
    let count = |which: fn(&Promise) -> bool| promises.values().filter(|promise| which(promise)).count();
    let (posted, deleted) = (count(|promise| promise.posted), count(|promise| promise.deleted.is_some()));
    let letters = board.letters.load(Ordering::SeqCst);
    println!(
        "power cuts: of {} messages {posted} were acknowledged, {deleted} deleted, {letters} died; {} requests refused",
        promises.len(),
        board.refusals.load(Ordering::SeqCst)
    );
    assert!(posted > 0 && deleted > 0 && letters > 0, "not everything was tried");
}

/// How many messages there are, none of them under a claim.
async fn stats(api: &Api, queue: &str) -> u64 {
    let stats: Value = api.get(&format!("/v2/queues/{queue}/stats")).send().await.unwrap().json().await.unwrap();
    assert_eq!(stats["messages"]["claimed"], 0, "{queue}: all claims are over");
    assert_eq!(stats["messages"]["free"], stats["messages"]["total"], "{queue}");
    stats["messages"]["total"].as_u64().unwrap()
}

fn name_of(message: &Value) -> String {
    message["body"].as_str().unwrap().to_owned()
}

fn claim_of(message: &Value) -> String {
    message["href"].as_str().unwrap().rsplit('=').next().unwrap().to_owned()
}

async fn set_clock(store: &RedisStore, queue: &str, ahead_s: u64) {
    let queue = QueueId::new(ProjectId::new(PROJECT).unwrap(), queue.parse().unwrap()).unwrap();
    let offset_us = i64::try_from(ahead_s * 1_000_000).unwrap();
    // Redis has just come back.
    while store.set_clock(&queue, offset_us).await.is_err() {}
}

async fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(Duration::from_millis(2)).await;
    }
}

impl Board {
    /// The answer to a request, or none if Redis was away: then it may have happened.
    async fn answer(&self, request: RequestBuilder) -> Option<(u16, Value)> {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default();
        let counter = if status == 503 { &self.refusals } else { &self.answers };
        counter.fetch_add(1, Ordering::SeqCst);
        (status != 503).then_some((status, body))
    }

    async fn change(&self, request: RequestBuilder, expected: &[u16]) {
        let answer = self.answer(request).await;
        assert!(answer.as_ref().is_none_or(|(status, _)| expected.contains(status)), "{answer:?}");
    }

    fn update(&self, names: &[String], update: impl Fn(&mut Promise)) {
        let mut promises = self.promises();
        for name in names {
            update(promises.entry(name.clone()).or_default());
        }
    }

    fn backlog(&self) -> i64 {
        let promises = self.promises();
        let deleted = promises.values().filter(|promise| promise.deleted.is_some()).count();
        i64::try_from(promises.len() - deleted).unwrap()
    }

    fn promises(&self) -> MutexGuard<'_, HashMap<String, Promise>> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}
