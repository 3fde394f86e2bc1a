//! Redis syncs every write to disk (AOF, `always`) and is killed repeatedly under load:
//! acknowledged messages are there once, and messages with an acknowledged deletion are not.
//!
//! `SUKKAL_POWER_CUTS` sets how often. `SUKKAL_SEED` repeats the choices of an earlier test, but
//! not its timing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sukkal_storage::redis::RedisStore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Duration, sleep};

use super::cuts::{self, ANSWERS_PER_CUT, PRODUCERS, WORKERS};
use super::half_done::work::drain;
use super::stored::Stored;
use crate::http::answered;
use support::random::{self, Random};
use support::redis::RedisServer;
use support::report;
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};
use support::test_bed::{self, open_movable, queue_id};
use support::waiting::block_until;

const PROJECT: &str = "power-cut";
const WORK: &str = "work";
const DEAD: &str = "dead";
const MESSAGES: &str = "/v2/queues/work/messages";

const CUTS: usize = 6;
/// Backlog at which producers wait for the workers.
const BACKLOG_MAX: i64 = 300;
/// Longer than any claim and delay here, and the largest step of the clock after a cut, in seconds.
const ALL_EXPIRED_S: u64 = 1_000;
const STEP_S_MAX: u64 = 70;

/// The guarantees that responses have given for a message.
#[derive(Clone, Copy, Default)]
struct Guarantees {
    posted: bool,
    deleted: Option<Instant>,
    perhaps_deleted: bool,
}

/// The state that all actors share. Messages are identified by their bodies, which they keep as
/// dead letters.
#[derive(Default)]
struct SharedState {
    guarantees: Mutex<HashMap<String, Guarantees>>,
    answers: AtomicU64,
    refusals: AtomicU64,
    dead_letters: AtomicU64,
    /// How often the clock was moved.
    moves: AtomicU64,
    over: AtomicBool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_messages_survive_power_cuts_of_a_redis_that_syncs_every_write() {
    let redis = Arc::new(RedisServer::start_with(&[("appendonly", "yes"), ("appendfsync", "always")]));
    let servers = [(); 2].map(|()| {
        Sukkal::start_with(
            &redis.url(),
            &[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1"), MOVABLE_CLOCK],
        )
    });
    let store = open_movable(&redis.url());
    let seed = random::seed();
    let cuts = cuts::count(CUTS);
    let keys = json!({ "_max_claim_count": 2, "_dead_letter_queue": "dead", "_default_message_delay": 1 });
    answered(servers[0].project(PROJECT).put("/v2/queues/work").json(&keys), 201).await;

    let shared = Arc::new(SharedState::default());
    let api = |number: usize| servers[number % servers.len()].project(PROJECT);
    let mut actors = JoinSet::new();
    for number in 0..PRODUCERS {
        actors.spawn(produce(api(number), shared.clone(), number, Random::new(seed, 1, number)));
    }
    for number in 0..=WORKERS {
        // The last worker processes the dead letters.
        let queue = if number == WORKERS { DEAD } else { WORK };
        actors.spawn(work(api(number), queue, shared.clone(), Random::new(seed, 2, number)));
    }
    let ahead_s = cut_power(cuts, &redis, &store, &shared, Random::new(seed, 3, 0)).await;
    shared.over.store(true, Ordering::SeqCst);
    actors.join_all().await;

    for queue in [WORK, DEAD] {
        set_clock(&store, queue, ahead_s + ALL_EXPIRED_S).await;
    }
    let summary = verify(&redis, &api(0), &shared).await;
    report::checked("power_cut", "standalone", cuts, format!("{summary}, seed {seed}"));
}

/// Kills and restarts Redis repeatedly. Returns how far the clock has been moved.
async fn cut_power(
    cuts: usize,
    redis: &Arc<RedisServer>,
    store: &RedisStore,
    shared: &SharedState,
    mut random: Random,
) -> u64 {
    let mut ahead_s = 0;
    for _ in 0..cuts {
        let due = shared.answers.load(Ordering::SeqCst) + random.within(ANSWERS_PER_CUT / 2..=ANSWERS_PER_CUT);
        wait_until(|| shared.answers.load(Ordering::SeqCst) >= due).await;
        let refused = shared.refusals.load(Ordering::SeqCst);
        let killed = redis.clone();
        spawn_blocking(move || killed.kill()).await.unwrap();
        if random.one_in(3) {
            wait_until(|| shared.refusals.load(Ordering::SeqCst) > refused).await;
        }
        let restarted = redis.clone();
        spawn_blocking(move || restarted.restart()).await.unwrap();
        shared.moves.fetch_add(1, Ordering::SeqCst);
        ahead_s += random.within(1..=STEP_S_MAX);
        set_clock(store, WORK, ahead_s).await;
    }
    ahead_s
}

async fn produce(api: Api, shared: Arc<SharedState>, producer: usize, mut random: Random) {
    let mut number = 0;
    while !shared.over() {
        wait_until(|| shared.backlog() < BACKLOG_MAX || shared.over()).await;
        number += 1;
        let names: Vec<String> = (0..random.within(1..=5)).map(|part| format!("{producer}/{number}/{part}")).collect();
        let delay = if random.one_in(4) { random.within(1..=60) } else { 0 };
        let message = |name| json!({ "body": name, "delay": delay, "ttl": 86_400 });
        let batch = json!({ "messages": names.iter().map(message).collect::<Vec<_>>() });
        let key = random.one_in(3).then(|| format!("\"{producer}-{number}\""));
        shared.update(&names, |_| {});
        loop {
            let post = api.post(MESSAGES, &batch);
            let post = key.iter().fold(post, |post, key| post.header("Idempotency-Key", key));
            match shared.answer(post).await {
                Some((201, _)) => break shared.update(&names, |guarantee| guarantee.posted = true),
                // A post without a response can be repeated only with a key. Without one, it may
                // have been executed.
                None if key.is_some() => {}
                None => break,
                Some(answer) => panic!("{answer:?}"),
            }
        }
    }
}

async fn work(api: Api, queue: &'static str, shared: Arc<SharedState>, mut random: Random) {
    let claims = format!("/v2/queues/{queue}/claims");
    while !shared.over() {
        let limit = random.within(1..=10);
        let (began, moves) = (Instant::now(), shared.moves.load(Ordering::SeqCst));
        let term = json!({ "ttl": random.within(60..=120), "grace": 60 });
        let messages = match shared.answer(api.post(&format!("{claims}?limit={limit}"), &term)).await {
            Some((201, claim)) => claim["messages"].as_array().unwrap().clone(),
            Some((204, _)) => {
                sleep(Duration::from_millis(5)).await;
                continue;
            }
            None => continue,
            answer => panic!("{answer:?}"),
        };
        if queue == DEAD {
            shared.dead_letters.fetch_add(messages.len() as u64, Ordering::SeqCst);
        }
        let Some(claim) = messages.first().map(claim_of) else { continue };
        for message in &messages {
            let name = name_of(message);
            let guarantee = shared.guarantees()[&name];
            assert!(guarantee.deleted.is_none_or(|deleted| deleted > began), "{name} was deleted and came back");
            match random.within(0..=9) {
                0..6 => delete(&api, &shared, message, moves).await,
                6..8 => {
                    let id = message["id"].as_str().unwrap();
                    let delay = random.within(0..=1) * random.within(1..=60);
                    let path = format!("{claims}/{claim}/messages/{id}?delay={delay}");
                    shared.change(api.delete(&path), &[204, 404]).await;
                }
                _ => {}
            }
        }
        let path = format!("{claims}/{claim}");
        match random.within(0..=3) {
            0 => shared.change(api.delete(&path), &[204]).await,
            1 => shared.change(api.request(Method::PATCH, &path).json(&term), &[204, 404]).await,
            _ => {}
        }
    }
}

/// Deletes a message that was claimed when the clock had been moved `moves` times.
async fn delete(api: &Api, shared: &SharedState, message: &Value, moves: u64) {
    let name = [name_of(message)];
    let answer = shared.answer(api.delete(message["href"].as_str().unwrap())).await;
    // Once its claim has expired, the message may be gone because it has become a dead letter.
    let is_live = shared.moves.load(Ordering::SeqCst) == moves;
    match answer {
        Some((204, _)) if is_live => shared.update(&name, |guarantee| guarantee.deleted = Some(Instant::now())),
        // Its claim had expired.
        Some((400 | 403, _)) => {}
        None | Some((204, _)) => shared.update(&name, |guarantee| guarantee.perhaps_deleted = true),
        answer => panic!("{answer:?}"),
    }
}

/// Checks that each message exists only where the guarantees require, and once. Returns a summary.
async fn verify(redis: &RedisServer, api: &Api, shared: &SharedState) -> String {
    let stored = Stored { redis, project: PROJECT };
    block_until("all dead letters have arrived", || stored.outbox_length(WORK) == 0);
    let (work, dead) = (stats(api, WORK).await, stats(api, DEAD).await);
    stored.assert_consistent();

    let mut found: HashMap<String, usize> = HashMap::new();
    for queue in [WORK, DEAD] {
        let names = drain(api, queue).await;
        block_until("all dead letters have arrived", || stored.outbox_length(WORK) == 0);
        for name in names {
            *found.entry(name).or_default() += 1;
        }
    }
    assert_eq!(found.values().sum::<usize>() as u64, work + dead, "the stats were wrong");

    let guarantees = shared.guarantees().clone();
    for (name, guarantee) in &guarantees {
        let times = found.remove(name).unwrap_or(0);
        let expected = match guarantee {
            Guarantees { deleted: Some(_), .. } => 0..=0,
            Guarantees { posted: true, perhaps_deleted: false, .. } => 1..=1,
            _ => 0..=1,
        };
        assert!(expected.contains(&times), "{name} exists {times} times, not {expected:?}");
    }
    assert!(found.is_empty(), "{found:?} was never posted");
    let count = |which: fn(&Guarantees) -> bool| guarantees.values().filter(|guarantee| which(guarantee)).count();
    let (posted, deleted) = (count(|guarantee| guarantee.posted), count(|guarantee| guarantee.deleted.is_some()));
    let dead_letters = shared.dead_letters.load(Ordering::SeqCst);
    let summary = format!(
        "of {} messages {posted} were acknowledged, {deleted} deleted, {dead_letters} became dead letters; {} requests \
         refused",
        guarantees.len(),
        shared.refusals.load(Ordering::SeqCst)
    );
    assert!(posted > 0 && deleted > 0 && dead_letters > 0, "the run lacks some kinds of events: {summary}");
    summary
}

/// Returns the number of messages, and checks that none is claimed.
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
    let offset_us = i64::try_from(ahead_s * 1_000_000).unwrap();
    test_bed::set_clock(store, &queue_id(PROJECT, queue), offset_us).await;
}

async fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(Duration::from_millis(2)).await;
    }
}

impl SharedState {
    /// Returns the response to a request, or `None` if Redis was down: then the request may have
    /// been executed.
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

    fn update(&self, names: &[String], update: impl Fn(&mut Guarantees)) {
        let mut guarantees = self.guarantees();
        for name in names {
            update(guarantees.entry(name.clone()).or_default());
        }
    }

    fn backlog(&self) -> i64 {
        let guarantees = self.guarantees();
        let deleted = guarantees.values().filter(|guarantee| guarantee.deleted.is_some()).count();
        i64::try_from(guarantees.len() - deleted).unwrap()
    }

    fn guarantees(&self) -> MutexGuard<'_, HashMap<String, Guarantees>> {
        self.guarantees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}
