//! Workers use one queue with delays and dead letters through several servers, while it is paused
//! and resumed, and also while its number of shards keeps changing. A checker verifies the recorded
//! history. `pooled.rs` does this in two pools that are stopped and restarted.
//!
//! `SUKKAL_EXCLUSIVE_SECONDS` sets how long they work. `SUKKAL_SEED` repeats the choices of an
//! earlier test, but not its timing. A history that breaks a rule is written to cargo's directory
//! for tests.

mod actors;
mod auditor;
mod checker;
mod coordinator;
mod history;
mod pooled;
mod wire;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use sukkal_storage::embedded::EmbeddedStore;
use tokio::time::{sleep, timeout};

use self::actors::{DRAINERS, PRODUCERS, TestContext, WORKERS, Work};
use self::auditor::{Auditor, DeadLetters};
use self::coordinator::Coordinator;
use self::history::{History, Rules};
use self::wire::{PROJECT, Wire};
use support::cluster::{RedisCluster, SlotMover};
use support::redis::{RedisServer, Reply};
use support::sukkal::Api;
use support::test_bed::{Home, Server, ServerUrls, TestBed, queue_id};
use support::timeline::{Disturbances, disturbances, save_history, start_actors};
use support::{campaign, campaigns, random, report};

/// The name of the campaign in the report.
const CAMPAIGN: &str = "exclusive_claims";
const SERVERS: usize = 3;
const QUEUE: &str = "work";
/// A killed server leaves a few requests without a response; this many are an error.
const UNKNOWN_MAX: usize = 1000;
const SECONDS: usize = 9;
/// Number of moves of the clock after which all kinds of events have happened. There are some 60 in
/// the time above.
const MOVES_MIN: u64 = 25;
/// The queue's clock starts a day ahead. Messages that expire there outlive the test in the
/// dead-letter queue, which has the real clock.
const INITIAL_OFFSET_US: i64 = 86_400_000_000;
/// Longest duration of the end of the test; a test that hangs fails.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
const DEFAULT_DELAY_S: u32 = 5;
const COUNT_MAX: u32 = 3;
const DEAD_LETTER_TTL_S: u32 = 600_000;
const SHARDS: u16 = 64;

/// The store under test, and the name of the dead-letter queue.
struct Setup {
    store: TestBed,
    /// The store with the dead-letter queue.
    dead_letter_store: TestBed,
    dead_letters: String,
    dead_letter_ttl_s: Option<u32>,
    outbox_length: Arc<dyn Fn() -> i64 + Send + Sync>,
}

/// The kind of the queue under test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// A queue whose number of shards keeps changing, and that is sometimes plain.
    Fair,
}

campaigns! {
    a_message_is_under_one_live_claim:
        check_exclusiveness("standalone", &Home::redis(), Kind::Plain);
    a_message_of_a_fair_queue_is_under_one_live_claim:
        check_exclusiveness("standalone, fair", &Home::redis(), Kind::Fair);
    a_message_is_under_one_live_claim_in_a_cluster:
        check_exclusiveness("cluster", &Home::cluster(), Kind::Plain);
    a_message_of_a_fair_queue_is_under_one_live_claim_in_a_cluster:
        check_exclusiveness("cluster, fair", &Home::cluster(), Kind::Fair);
    a_message_is_under_one_live_claim_in_a_file:
        check_exclusiveness("embedded", &Home::file(), Kind::Plain);
    a_message_of_a_fair_queue_is_under_one_live_claim_in_a_file:
        check_exclusiveness("embedded, fair", &Home::file(), Kind::Fair);
    a_message_is_under_one_live_claim_in_memory:
        check_exclusiveness("memory", &Home::memory(), Kind::Plain);
    a_message_of_a_fair_queue_is_under_one_live_claim_in_memory:
        check_exclusiveness("memory, fair", &Home::memory(), Kind::Fair);
}

/// The slot of the queue moves from server to server all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_while_its_slot_moves() {
    let cluster = Arc::new(RedisCluster::start());
    let setup = in_a_cluster(&cluster);
    let slot_mover = SlotMover::start(cluster, &key(QUEUE, "queue"));

    let (claims, details) = verified_claims("cluster, moved", setup, Kind::Plain).await;

    let moves = slot_mover.stop();
    assert!(moves > 1, "the slot moved {moves} times");
    report::checked(CAMPAIGN, "cluster, moved", claims, format!("{details}, the slot moved {moves} times"));
}

fn on_one_server(redis: Arc<RedisServer>) -> Setup {
    let store = TestBed::redis(&redis.url());
    Setup {
        dead_letter_store: store.clone(),
        store,
        dead_letters: "letters".to_owned(),
        dead_letter_ttl_s: Some(DEAD_LETTER_TTL_S),
        outbox_length: Arc::new(move || outbox_length(&redis, QUEUE)),
    }
}

fn in_a_cluster(cluster: &Arc<RedisCluster>) -> Setup {
    let (cluster, outbox) = (cluster.clone(), key(QUEUE, "outbox"));
    let port_of = |queue: &str| cluster.node_of(&key(queue, "queue")).port();
    let mut names = (0..).map(|number| format!("letters-{number}"));
    let store = TestBed::redis(&cluster.url());
    Setup {
        dead_letter_store: store.clone(),
        store,
        dead_letters: names.find(|name| port_of(name) != port_of(QUEUE)).expect("there are three nodes"),
        dead_letter_ttl_s: None,
        outbox_length: Arc::new(move || {
            // A node that does not have the slot refuses. While the slot moves, all of them may do
            // so.
            let mut lengths = cluster.nodes().iter().cycle().map(|node| node.command(&["LLEN", &outbox]));
            lengths.find(|length| matches!(length, Reply::Int(_))).expect("there are nodes").as_int()
        }),
    }
}

fn in_this_process(store: EmbeddedStore) -> Setup {
    Setup {
        dead_letter_store: TestBed::Embedded(store.clone()),
        store: TestBed::Embedded(store),
        dead_letters: "letters".to_owned(),
        dead_letter_ttl_s: Some(DEAD_LETTER_TTL_S),
        // Dead letters of an embedded store are forwarded at once.
        outbox_length: Arc::new(|| 0),
    }
}

fn key(queue: &str, part: &str) -> String {
    format!("sukkal:{{{PROJECT}/{queue}}}:{part}")
}

fn outbox_length(redis: &RedisServer, queue: &str) -> i64 {
    redis.command(&["LLEN", &key(queue, "outbox")]).as_int()
}

async fn check_exclusiveness(name: &str, home: &Home, kind: Kind) {
    let setup = match home {
        Home::Redis(redis) => on_one_server(redis.clone()),
        Home::Cluster(cluster) => in_a_cluster(cluster),
        Home::Embedded(store, _) => in_this_process(store.clone()),
    };
    let (claims, details) = verified_claims(name, setup, kind).await;

    report::checked(CAMPAIGN, name, claims, details);
}

/// Runs all actors on the store, and checks the history. Returns the number of claims, and details
/// for the report.
async fn verified_claims(name: &str, setup: Setup, kind: Kind) -> (usize, String) {
    let length = Duration::from_secs(length_s());
    let servers: Vec<Server> = (0..SERVERS).map(|_| start_server(&setup.store)).collect();
    let seed = random::seed();
    let urls = Arc::new(ServerUrls::of(&servers));
    let coordinator = Arc::new(Coordinator::new(UNKNOWN_MAX));
    let wire = Arc::new(Wire::new(QUEUE, urls.clone()));
    let context = TestContext { seed, wire, coordinator: coordinator.clone(), calm: Arc::default() };
    let rules = create_queue(&setup, &servers[0].project(PROJECT), QUEUE, kind).await;
    let store = setup.store.clone();
    // Kills a server in the middle of the test, which leaves requests without a response, and
    // starts another one.
    let disturbances = disturbances(async move {
        sleep(length / 2).await;
        let replacement = tokio::spawn(async move { urls.replace_one(servers, move || start_server(&store)).await });
        sleep(length / 2).await;
        // On a busy machine, less happens in this time.
        let enough = coordinator.wait_until(|progress| progress.moves >= MOVES_MIN);
        let _any_number = timeout(RUN_TIMEOUT / 2, enough).await;
        coordinator.update(|progress| progress.over = true);
        replacement.await.expect("one server was replaced")
    });

    let run = timeout(length + RUN_TIMEOUT, run(&context, setup, (rules, kind), disturbances));
    let history = run.await.expect("the test ends in time");

    check(name, &context, &history)
}

/// Checks the history of a queue. Returns the number of claims, and details for the report.
fn check(name: &str, context: &TestContext, history: &History) -> (usize, String) {
    let run = format!("{}, seed {}", context.coordinator.failures, history.seed);
    let summary = checker::check(history).unwrap_or_else(|violation| {
        let file = format!("exclusive-{}-{}-{}.txt", name.replace(", ", "-"), context.wire.queue, history.seed);
        let path = save_history(Path::new(env!("CARGO_TARGET_TMPDIR")), &file, |to| history.dump(to));
        panic!("{violation}\n{run}\nthe history is in {}", path.display());
    });
    let details = format!("{summary:?}, {run}");
    assert!(summary.claimed_again > 0 && summary.refused > 0, "no claim expired: {details}");
    assert!(summary.refused_by_pause > 0, "no claim or pop met a paused queue: {details}");
    // Near the end of a claim or a life, only bounds of the counts are known. A short run may have
    // no other counts.
    assert!(
        summary.counts_exact > 0 || (summary.counts > 0 && length_s() == SECONDS as u64),
        "no count had only one correct result: {details}"
    );
    assert!(
        summary.drained > 0 && summary.popped > 0 && summary.deleted > 0,
        "the run lacks some kinds of events: {details}"
    );
    assert!(
        summary.delayed > 0 && summary.returned > 0 && summary.moved_to_dead_letters > 0,
        "the run lacks some kinds of events: {details}"
    );
    (summary.claims, details)
}

/// The janitor of this server runs often.
fn start_server(store: &TestBed) -> Server {
    store.serve(&[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")])
}

async fn run(context: &TestContext, setup: Setup, (rules, kind): (Rules, Kind), disturbances: Disturbances) -> History {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let now = i64::try_from(context.coordinator.now()).expect("the time is positive");
    let wall_us = i64::try_from(wall.as_micros()).expect("the year is before 290000") - now;
    let (store, queue) = (setup.store, queue_id(PROJECT, &context.wire.queue));
    let start = context.set_clock(&store, &queue, INITIAL_OFFSET_US).await;
    let dead_letters = DeadLetters {
        store: setup.dead_letter_store,
        queue: queue_id(PROJECT, &setup.dead_letters),
        under_way: setup.outbox_length,
    };

    let posts = start_actors(PRODUCERS, |number| context.clone().produce(number));
    let work = start_actors(WORKERS, |number| context.clone().work(number));
    let audit = tokio::spawn(Auditor::new(context.clone(), dead_letters).audit());
    let moves = tokio::spawn(context.clone().move_clock(store, queue, start));
    let pauses = tokio::spawn(context.clone().pause());
    let divisions = (kind == Kind::Fair).then(|| tokio::spawn(context.clone().change_shards()));
    let posts = posts.join_all().await.concat();
    let mut work = work.join_all().await;
    context.coordinator.update(|progress| progress.is_idle = true);
    let _servers = disturbances.await;
    context.coordinator.update(|progress| progress.is_settled = true);
    let mut auditor = audit.await.expect("the messages were counted");
    let moves = moves.await.expect("the clock was moved");
    let switches = pauses.await.expect("the queue was paused");
    if let Some(divisions) = divisions {
        divisions.await.expect("the number of shards was changed");
    }

    let drained_from = context.coordinator.now();
    work.extend(start_actors(DRAINERS, |number| context.clone().drain(number)).join_all().await);
    auditor.last_count().await;
    let Auditor { counts, readings, .. } = auditor;
    let seed = context.seed;
    let mut history =
        History { seed, wall_us, rules, posts, moves, counts, switches, readings, drained_from, ..History::default() };
    for Work { claims, claim_uses, pops } in work {
        history.claims.extend(claims);
        history.claim_uses.extend(claim_uses);
        history.pops.extend(pops);
    }
    history
}

/// Creates the queue. The dead-letter queue is created with the first dead letter.
async fn create_queue(setup: &Setup, api: &Api, queue: &str, kind: Kind) -> Rules {
    let (rules, metadata) = settings(setup, kind);
    let answer = api.put(&format!("/v2/queues/{queue}")).json(&metadata).send().await.expect("the server answers");
    assert_eq!(answer.status(), 201);
    rules
}

/// Returns the settings of the queue, and the same as metadata.
fn settings(setup: &Setup, kind: Kind) -> (Rules, Value) {
    let is_fair = kind == Kind::Fair;
    let rules =
        Rules { delay_s: DEFAULT_DELAY_S, count_max: COUNT_MAX, dead_letter_ttl_s: setup.dead_letter_ttl_s, is_fair };
    let mut metadata = json!({
        "_default_message_delay": rules.delay_s,
        "_max_claim_count": rules.count_max,
        "_dead_letter_queue": setup.dead_letters,
        "_shards": is_fair.then_some(SHARDS),
    });
    if let Some(ttl_s) = rules.dead_letter_ttl_s {
        metadata["_dead_letter_queue_messages_ttl"] = ttl_s.into();
    }
    (rules, metadata)
}

fn length_s() -> u64 {
    campaign::size("SUKKAL_EXCLUSIVE_SECONDS", SECONDS) as u64
}
