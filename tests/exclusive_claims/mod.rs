//! Workers use one queue with delays and dead letters through several servers, while it is paused
//! and resumed, and also while its number of shards keeps changing. A checker verifies the recorded history.
//!
//! `SUKKAL_EXCLUSIVE_SECONDS` sets how long they work. `SUKKAL_SEED` repeats the choices of an
//! earlier test, but not its timing. A history that breaks a rule is written to cargo's directory
//! for tests.

mod actors;
mod auditor;
mod checker;
mod coordinator;
mod history;
mod wire;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::embedded::{EmbeddedStore, Fsync};
use tokio::time::{sleep, timeout};

use self::actors::{DRAINERS, PRODUCERS, TestContext, WORKERS, Work};
use self::auditor::{Auditor, DeadLetters};
use self::coordinator::Coordinator;
use self::history::{History, Rules};
use self::wire::{PROJECT, QUEUE, Wire};
use crate::pools::{Deployment, disturb};
use crate::support::cluster::{RedisCluster, SlotMover};
use crate::support::random;
use crate::support::redis::{RedisServer, Reply};
use crate::support::sukkal::{POOLING, Sukkal};
use crate::support::test_bed::{Server, ServerUrls, TestBed};
use crate::support::timeline::{save_history, start_actors};

const SERVERS: usize = 3;
const SECONDS: u64 = 12;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim() {
    check_exclusiveness("standalone", on_one_server(), Kind::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim() {
    check_exclusiveness("standalone, fair", on_one_server(), Kind::Fair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_a_cluster() {
    check_exclusiveness("cluster", in_a_cluster(&Arc::new(RedisCluster::start())), Kind::Plain).await;
}

/// The slot of the queue moves from server to server all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_while_its_slot_moves() {
    let cluster = Arc::new(RedisCluster::start());
    let setup = in_a_cluster(&cluster);
    let slot_mover = SlotMover::start(cluster, &key(QUEUE, "queue"));

    check_exclusiveness("cluster, moved", setup, Kind::Plain).await;

    let moves = slot_mover.stop();
    println!("exclusive cluster, moved: the slot moved {moves} times");
    assert!(moves > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim_in_a_cluster() {
    check_exclusiveness("cluster, fair", in_a_cluster(&Arc::new(RedisCluster::start())), Kind::Fair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("the new file is not in use");

    check_exclusiveness("embedded", in_this_process(store), Kind::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim_in_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("the new file is not in use");

    check_exclusiveness("embedded, fair", in_this_process(store), Kind::Fair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_memory() {
    let store = EmbeddedStore::in_memory().expect("an in-memory store opens");

    check_exclusiveness("memory", in_this_process(store), Kind::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim_in_memory() {
    let store = EmbeddedStore::in_memory().expect("an in-memory store opens");

    check_exclusiveness("memory, fair", in_this_process(store), Kind::Fair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_a_pool_that_stops_and_returns() {
    let deployment = Deployment::start(&[0, 1]).await;
    let setup = in_pools(&deployment).await;
    let disturber = disturb(deployment.pools[0].clone());

    check_exclusiveness("pooled", setup, Kind::Plain).await;
    disturber.abort();
}

/// The queue is in the first pool, and its dead letters are in the second one.
async fn in_pools(deployment: &Deployment) -> Setup {
    let management = deployment.url();
    let [first, second] = [0, 1].map(|number: usize| deployment.pools[number].clone());
    let server = Sukkal::start_with(&management, &POOLING);
    let dead_letters = "letters".to_owned();
    let request = server.project(PROJECT).put(&format!("/v2/queues/{dead_letters}"));
    assert_eq!(request.send().await.expect("the server answers").status(), 201);
    deployment.set_weights(&server, &[1, 0]).await;
    Setup {
        store: TestBed::pooled(&management, &first.url()),
        dead_letter_store: TestBed::redis(&second.url()),
        dead_letters,
        dead_letter_ttl_s: Some(DEAD_LETTER_TTL_S),
        outbox_length: Arc::new(move || outbox_length(&first)),
    }
}

fn on_one_server() -> Setup {
    let redis = Arc::new(RedisServer::start());
    let store = TestBed::redis(&redis.url());
    Setup {
        dead_letter_store: store.clone(),
        store,
        dead_letters: "letters".to_owned(),
        dead_letter_ttl_s: Some(DEAD_LETTER_TTL_S),
        outbox_length: Arc::new(move || outbox_length(&redis)),
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
            // A node that does not have the slot refuses. While the slot moves, all of them may do so.
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

fn outbox_length(redis: &RedisServer) -> i64 {
    redis.command(&["LLEN", &key(QUEUE, "outbox")]).as_int()
}

/// Runs all actors on the store, and checks the history.
async fn check_exclusiveness(name: &str, setup: Setup, kind: Kind) {
    let length = Duration::from_secs(length_s());
    let servers: Vec<Server> = (0..SERVERS).map(|_| start_server(&setup.store)).collect();
    let seed = random::seed();
    println!("exclusive {name}: SUKKAL_SEED={seed}");
    let wire = Arc::new(Wire::new(ServerUrls::of(&servers)));
    let context = TestContext { seed, wire, coordinator: Arc::new(Coordinator::new()) };

    let run = timeout(length + RUN_TIMEOUT, run(&context, setup, servers, length, kind));
    let history = run.await.expect("the test ends in time");

    println!("exclusive {name}: {} requests without a response", context.coordinator.unknown());
    let summary = checker::check(&history).unwrap_or_else(|violation| {
        let file = format!("exclusive-{}-{}.txt", name.replace(", ", "-"), history.seed);
        let path = save_history(Path::new(env!("CARGO_TARGET_TMPDIR")), &file, |to| history.dump(to));
        panic!("{violation}\nthe history is in {}", path.display());
    });
    println!("exclusive {name}: {summary:#?}");
    assert!(summary.claimed_again > 0 && summary.refused > 0, "no claim expired");
    assert!(summary.refused_by_pause > 0, "no claim or pop met a paused queue");
    // Near the end of a claim or a life, only bounds of the counts are known. A short run may have
    // no other counts.
    assert!(
        summary.counts_exact > 0 || (summary.counts > 0 && length_s() == SECONDS),
        "no count had only one correct result"
    );
    assert!(summary.drained > 0 && summary.popped > 0 && summary.deleted > 0, "the run lacks some kinds of events");
    assert!(
        summary.delayed > 0 && summary.returned > 0 && summary.moved_to_dead_letters > 0,
        "the run lacks some kinds of events"
    );
}

/// The janitor of this server runs often.
fn start_server(store: &TestBed) -> Server {
    store.serve(&[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")])
}

async fn run(context: &TestContext, setup: Setup, servers: Vec<Server>, length: Duration, kind: Kind) -> History {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let now = i64::try_from(context.coordinator.now()).expect("the time is positive");
    let wall_us = i64::try_from(wall.as_micros()).expect("the year is before 290000") - now;
    let rules = create_queue(&setup, &servers[0], kind).await;
    let store = setup.store.clone();
    let dead_letters = queue(&setup.dead_letters);
    let start = context.set_clock(&store, &queue(QUEUE), INITIAL_OFFSET_US).await;
    let dead_letters =
        DeadLetters { store: setup.dead_letter_store, queue: dead_letters, under_way: setup.outbox_length };

    let posts = start_actors(PRODUCERS, |number| context.clone().produce(number));
    let work = start_actors(WORKERS, |number| context.clone().work(number));
    let audit = tokio::spawn(Auditor::new(context.clone(), dead_letters).audit());
    let moves = tokio::spawn(context.clone().move_clock(store, queue(QUEUE), start));
    let replacement = tokio::spawn(replace_one(context.clone(), setup.store, servers));
    let pauses = tokio::spawn(context.clone().pause());
    let divisions = (kind == Kind::Fair).then(|| tokio::spawn(context.clone().change_shards()));
    sleep(length / 2).await;
    context.coordinator.update(|progress| progress.half = true);
    sleep(length / 2).await;
    context.coordinator.update(|progress| progress.over = true);
    let posts = posts.join_all().await.concat();
    let mut work = work.join_all().await;
    context.coordinator.update(|progress| progress.is_idle = true);
    let mut auditor = audit.await.expect("the messages were counted");
    let _servers = replacement.await.expect("one server was replaced");
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
async fn create_queue(setup: &Setup, server: &Server, kind: Kind) -> Rules {
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
    let request = server.project(PROJECT).put(&format!("/v2/queues/{QUEUE}")).json(&metadata);
    let answer = request.send().await.expect("the server answers");
    assert_eq!(answer.status(), 201);
    rules
}

fn queue(name: &str) -> QueueId {
    let project = ProjectId::new(PROJECT).expect("it is short");
    QueueId::new(project, name.parse().expect("it is a name")).expect("it is short")
}

/// Kills a server in the middle of the test, which leaves requests without a response, and starts
/// another one.
async fn replace_one(context: TestContext, store: TestBed, servers: Vec<Server>) -> Vec<Server> {
    context.coordinator.wait_until(|progress| progress.half).await;
    context.wire.servers.replace_one(servers, move || start_server(&store)).await
}

fn length_s() -> u64 {
    match std::env::var("SUKKAL_EXCLUSIVE_SECONDS") {
        Ok(text) => text.parse().expect("SUKKAL_EXCLUSIVE_SECONDS is a number"),
        Err(_) => SECONDS,
    }
}
