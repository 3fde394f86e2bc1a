//! Workers on one queue with delay and dead letters, through several servers, also on one that is divided into shards
//! anew all the time: a checker judges the recorded history.
//!
//! `SUKKAL_EXCLUSIVE_SECONDS` is how long they work, `SUKKAL_SEED` repeats the choices of an earlier
//! test (not its timing). A history that breaks a rule is written to cargo's directory for tests.

mod actors;
mod auditor;
mod board;
mod checker;
mod history;
mod wire;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::embedded::{EmbeddedStore, Fsync};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use self::actors::{DRAINERS, PRODUCERS, Scene, WORKERS, Work};
use self::auditor::{Auditor, Letters};
use self::board::Board;
use self::history::{History, Rules};
use self::wire::{PROJECT, QUEUE, Wire};
use crate::support::chronicle::choices;
use crate::support::cluster::RedisCluster;
use crate::support::ground::{Ground, Server};
use crate::support::redis::RedisServer;

const SERVERS: usize = 3;
const SECONDS: u64 = 12;
/// The queue's clock is a day ahead from the beginning, so that what dies there outlives the test in the other queue,
/// whose clock is the real one.
const HEAD_START_US: i64 = 86_400_000_000;
/// What the end may take; a test that hangs is a failure.
const PATIENCE: Duration = Duration::from_secs(120);
const DEFAULT_DELAY_S: u32 = 5;
const COUNT_MAX: u32 = 3;
const LETTER_TTL_S: u32 = 600_000;
const SHARDS: u16 = 64;

/// The store that they work on, and the queue for dead letters.
struct Place {
    store: Ground,
    letters: String,
    letter_ttl_s: Option<u32>,
    outbox_length: Arc<dyn Fn() -> i64 + Send + Sync>,
}

/// Which queue they work on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// One that is divided anew all the time, and now and then not at all.
    Fair,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim() {
    exclude("standalone", on_one_server(), Kind::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim() {
    exclude("standalone, fair", on_one_server(), Kind::Fair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_a_cluster() {
    exclude("cluster", in_a_cluster(), Kind::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim_in_a_cluster() {
    exclude("cluster, fair", in_a_cluster(), Kind::Fair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_a_file() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("nobody else has the file");

    exclude("embedded", in_this_process(store), Kind::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim_in_a_file() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("nobody else has the file");

    exclude("embedded, fair", in_this_process(store), Kind::Fair).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_memory() {
    let store = EmbeddedStore::in_memory().expect("there is memory");

    exclude("memory", in_this_process(store), Kind::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim_in_memory() {
    let store = EmbeddedStore::in_memory().expect("there is memory");

    exclude("memory, fair", in_this_process(store), Kind::Fair).await;
}

fn on_one_server() -> Place {
    let redis = Arc::new(RedisServer::start());
    Place {
        store: Ground::redis(&redis.url()),
        letters: "letters".to_owned(),
        letter_ttl_s: Some(LETTER_TTL_S),
        outbox_length: Arc::new(move || outbox_length(&redis)),
    }
}

fn in_a_cluster() -> Place {
    let cluster = Arc::new(RedisCluster::start());
    let port_of = |queue: &str| cluster.node_of(&key(queue, "queue")).port();
    let mut names = (0..).map(|number| format!("letters-{number}"));
    Place {
        store: Ground::redis(&cluster.url()),
        letters: names.find(|name| port_of(name) != port_of(QUEUE)).expect("there are three nodes"),
        letter_ttl_s: None,
        outbox_length: Arc::new(move || outbox_length(cluster.node_of(&key(QUEUE, "outbox")))),
    }
}

fn in_this_process(store: EmbeddedStore) -> Place {
    Place {
        store: Ground::Embedded(store),
        letters: "letters".to_owned(),
        letter_ttl_s: Some(LETTER_TTL_S),
        // They go at once.
        outbox_length: Arc::new(|| 0),
    }
}

fn key(queue: &str, part: &str) -> String {
    format!("sukkal:{{{PROJECT}/{queue}}}:{part}")
}

fn outbox_length(redis: &RedisServer) -> i64 {
    redis.command(&["LLEN", &key(QUEUE, "outbox")]).as_int()
}

/// Lets them work on the store, and has it judged.
async fn exclude(name: &str, place: Place, kind: Kind) {
    let length = Duration::from_secs(length_s());
    let servers: Vec<Server> = (0..SERVERS).map(|_| start_server(&place.store)).collect();
    let seed = choices::seed();
    println!("exclusive {name}: SUKKAL_SEED={seed}");
    let wire = Arc::new(Wire::new(servers.iter().map(|server| server.url("")).collect()));
    let scene = Scene { seed, wire, board: Arc::new(Board::new()) };

    let run = timeout(length + PATIENCE, run(&scene, place, servers, length, kind));
    let history = run.await.expect("it comes to its end");

    println!("exclusive {name}: {} requests without an answer", scene.board.unknown());
    let summary = checker::check(&history).unwrap_or_else(|violation| {
        let path = dump(&history, name, env!("CARGO_TARGET_TMPDIR").as_ref());
        panic!("{violation}\nthe history is in {}", path.display());
    });
    println!("exclusive {name}: {summary:#?}");
    assert!(summary.claimed_again > 0 && summary.refused > 0, "no claim ran out");
    // Of counts near the end of a lease or a life only the bounds are known; a short run may have no other.
    assert!(summary.counts_exact > 0 || (summary.counts > 0 && length_s() == SECONDS), "no count was judged");
    assert!(summary.drained > 0 && summary.popped > 0 && summary.deleted > 0, "not everything was tried");
    assert!(summary.delayed > 0 && summary.returned > 0 && summary.died > 0, "not everything was tried");
}

/// Its janitor goes round often.
fn start_server(store: &Ground) -> Server {
    store.serve(&[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")])
}

async fn run(scene: &Scene, place: Place, servers: Vec<Server>, length: Duration, kind: Kind) -> History {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let now = i64::try_from(scene.board.now()).expect("it has just begun");
    let wall_us = i64::try_from(wall.as_micros()).expect("the year is before 290000") - now;
    let rules = tell_rules(&place, &servers[0], kind).await;
    let store = place.store.clone();
    let letters = queue(&place.letters);
    let start = scene.set_clock(&store, &queue(QUEUE), HEAD_START_US).await;
    let letters = Letters { store: store.clone(), queue: letters, under_way: place.outbox_length };

    let posts = all(PRODUCERS, |number| scene.clone().produce(number));
    let work = all(WORKERS, |number| scene.clone().work(number));
    let audit = tokio::spawn(Auditor::new(scene.clone(), letters).audit());
    let moves = tokio::spawn(scene.clone().move_clock(store, queue(QUEUE), start));
    let crash = tokio::spawn(crash_one(scene.clone(), place.store, servers));
    let divisions = (kind == Kind::Fair).then(|| tokio::spawn(scene.clone().divide_anew()));
    sleep(length / 2).await;
    scene.board.tell(|news| news.half = true);
    sleep(length / 2).await;
    scene.board.tell(|news| news.over = true);
    let posts = posts.join_all().await.concat();
    let mut work = work.join_all().await;
    scene.board.tell(|news| news.at_rest = true);
    let mut auditor = audit.await.expect("it was counted");
    let _servers = crash.await.expect("one server was replaced");
    let moves = moves.await.expect("the clock was moved");
    if let Some(divisions) = divisions {
        divisions.await.expect("the queue was divided");
    }

    let drained_from = scene.board.now();
    work.extend(all(DRAINERS, |number| scene.clone().drain(number)).join_all().await);
    auditor.last_count().await;
    let Auditor { counts, readings, .. } = auditor;
    let seed = scene.seed;
    let mut history =
        History { seed, wall_us, rules, posts, moves, counts, readings, drained_from, ..History::default() };
    for Work { claims, turns, pops } in work {
        history.claims.extend(claims);
        history.turns.extend(turns);
        history.pops.extend(pops);
    }
    history
}

/// Creates the queue; the one for dead letters comes with the first of them.
async fn tell_rules(place: &Place, server: &Server, kind: Kind) -> Rules {
    let is_fair = kind == Kind::Fair;
    let rules = Rules { delay_s: DEFAULT_DELAY_S, count_max: COUNT_MAX, letter_ttl_s: place.letter_ttl_s, is_fair };
    let mut metadata = json!({
        "_default_message_delay": rules.delay_s,
        "_max_claim_count": rules.count_max,
        "_dead_letter_queue": place.letters,
        "_shards": is_fair.then_some(SHARDS),
    });
    if let Some(ttl_s) = rules.letter_ttl_s {
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

/// Kills a server in the middle, which leaves requests without an answer, and starts another.
async fn crash_one(scene: Scene, store: Ground, mut servers: Vec<Server>) -> Vec<Server> {
    scene.board.wait_until(|news| news.half).await;
    let mut victim = servers.swap_remove(0);
    victim.kill();
    scene.wire.leave(&victim.url(""));
    let heir = spawn_blocking(move || start_server(&store)).await.expect("another starts");
    scene.wire.join(heir.url(""));
    servers.push(heir);
    servers
}

fn all<T, F>(count: usize, actor: impl Fn(usize) -> F) -> JoinSet<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    (0..count).map(actor).collect()
}

fn dump(history: &History, name: &str, directory: &Path) -> PathBuf {
    let path = directory.join(format!("exclusive-{}-{}.txt", name.replace(", ", "-"), history.seed));
    let mut file = BufWriter::new(File::create(&path).expect("the directory can be written to"));
    history.dump(&mut file).and_then(|()| file.flush()).expect("the disk has room");
    path
}

fn length_s() -> u64 {
    match std::env::var("SUKKAL_EXCLUSIVE_SECONDS") {
        Ok(text) => text.parse().expect("SUKKAL_EXCLUSIVE_SECONDS is a number"),
        Err(_) => SECONDS,
    }
}
