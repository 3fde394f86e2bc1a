//! Producers, observers and deleters at once, on a queue without delays, on one with, and on a fair one with; a checker
//! judges the recorded history.
//!
//! `SUKKAL_RACE_OBSERVED` is how many deliveries each race takes, `SUKKAL_SEED` repeats the choices
//! of an earlier one (not its timing). A history that breaks a rule is written to cargo's directory
//! for tests; with `SUKKAL_RACE_HISTORY` every one is, to the directory of that name.

mod actors;
mod board;
mod checker;
mod clockwork;
mod delays;
mod history;
mod wire;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::embedded::{EmbeddedStore, Fsync};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use uuid::Uuid;

use self::actors::{Course, DELETERS, PRODUCERS, Scene, deaf_to};
use self::board::{Board, Phase};
use self::checker::Summary;
use self::clockwork::Clockwork;
use self::delays::Delays;
use self::history::{History, Observer};
use self::wire::Wire;
use crate::support::chronicle::choices::{self, Choices};
use crate::support::chronicle::clock::wall_us;
use crate::support::cluster::RedisCluster;
use crate::support::ground::{Ground, Server};
use crate::support::redis::RedisServer;

const SERVERS: usize = 3;
const QUEUE: &str = "feed";
/// Much longer than any race takes; a race that hangs is a failure.
const PATIENCE: Duration = Duration::from_secs(1800);

/// So many deliveries are a long race.
const LONG: usize = 1_000_000;
/// What the two clocks may be apart beside what was measured.
const SLACK_US: i64 = 5000;

const PLAIN: Course = Course { observers: 16, page_max: 20, flood_every: 25, delays: None, shards: 1, workers: 0 };
const DELAYED: Course =
    Course { observers: 8, page_max: 100, flood_every: 10, delays: Some(Delays { default_s: 1 }), ..PLAIN };
const WORKED: Course = Course { observers: 8, workers: 6, ..PLAIN };
const FAIR: Course = Course { shards: 64, ..DELAYED };
/// For pages of that size, and requests of as many messages.
const ROOMY: [(&str, &str); 2] =
    [("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_PAGE", "100"), ("SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE", "2097152")];

/// Row 6.1-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed() {
    let redis = RedisServer::start();

    race_without_delays("standalone", Ground::redis(&redis.url()), observed(300_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_from_a_cluster() {
    let cluster = RedisCluster::start();

    race_without_delays("cluster", Ground::redis(&cluster.url()), observed(150_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_of_delayed_messages_when_they_are_due() {
    let redis = RedisServer::start();

    race_with_delays("delayed", Ground::redis(&redis.url()), observed(400_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_of_delayed_messages_from_a_cluster() {
    let cluster = RedisCluster::start();

    race_with_delays("delayed-cluster", Ground::redis(&cluster.url()), observed(300_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_from_a_file() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("nobody else has the file");

    race_without_delays("embedded", Ground::Embedded(store), observed(150_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_of_delayed_messages_from_a_file() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("nobody else has the file");

    race_with_delays("delayed-embedded", Ground::Embedded(store), observed(150_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_from_memory() {
    let store = EmbeddedStore::in_memory().expect("there is memory");

    race_without_delays("memory", Ground::Embedded(store), observed(75_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_of_delayed_messages_from_memory() {
    let store = EmbeddedStore::in_memory().expect("there is memory");

    race_with_delays("delayed-memory", Ground::Embedded(store), observed(75_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_of_a_fair_queue() {
    let redis = RedisServer::start();

    race_with_delays_on(FAIR, "fair", Ground::redis(&redis.url()), observed(150_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_of_a_fair_queue_from_a_cluster() {
    let cluster = RedisCluster::start();

    race_with_delays_on(FAIR, "fair-cluster", Ground::redis(&cluster.url()), observed(100_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_of_a_fair_queue_from_a_file() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let store = EmbeddedStore::open(folder.path(), Fsync::Group).expect("nobody else has the file");

    race_with_delays_on(FAIR, "fair-embedded", Ground::Embedded(store), observed(75_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_of_a_fair_queue_from_memory() {
    let store = EmbeddedStore::in_memory().expect("there is memory");

    race_with_delays_on(FAIR, "fair-memory", Ground::Embedded(store), observed(100_000)).await;
}

async fn race_with_delays(name: &str, store: Ground, target: usize) {
    race_with_delays_on(DELAYED, name, store, target).await;
}

async fn race_with_delays_on(course: Course, name: &str, store: Ground, target: usize) {
    let summary = race(name, store, course, target).await;

    assert!(summary.delayed > 0 && summary.kept_back > 0, "nothing was delayed");
    // By chance a short race may have none of these.
    if target >= LONG {
        assert!(summary.spread > 0, "no two requests wanted the same place");
    }
}

async fn race_without_delays(name: &str, store: Ground, target: usize) {
    let summary = race(name, store, PLAIN, target).await;

    assert!(summary.markers_expired > 0, "no marker expired");
}

/// Observers follow the feed while workers take all they can get from its head.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_at_full_speed_make_no_observer_skip_or_repeat_a_message() {
    let redis = RedisServer::start();

    race("worked", Ground::redis(&redis.url()), WORKED, observed(30_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_at_full_speed_make_no_observer_of_a_cluster_skip_or_repeat_a_message() {
    let cluster = RedisCluster::start();

    race("worked-cluster", Ground::redis(&cluster.url()), WORKED, observed(20_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_at_full_speed_make_no_observer_of_memory_skip_or_repeat_a_message() {
    let store = EmbeddedStore::in_memory().expect("there is memory");

    race("worked-memory", Ground::Embedded(store), WORKED, observed(30_000)).await;
}

/// Runs a race over the store and has it judged.
async fn race(name: &str, store: Ground, course: Course, target: usize) -> Summary {
    let servers: Vec<Server> = (0..SERVERS).map(|_| store.serve(&ROOMY)).collect();
    let seed = choices::seed();
    println!("race {name}: SUKKAL_SEED={seed}");
    let board = Arc::new(Board::new(target, course.observers));
    let wire = Arc::new(Wire::new(QUEUE, servers.iter().map(|server| server.url("")).collect()));
    let wall_us = wall_us(|| board.now());
    let scene = Scene { seed, course, wall_us, wire, board: board.clone() };

    let history = timeout(PATIENCE, run(&scene, store, servers)).await.expect("a race comes to its end");

    println!("race {name}: {:.1} s, {} requests without an answer", seconds(history.quiet), board.unknown());
    let verdict = checker::check(&history);
    if let Some(directory) = std::env::var_os("SUKKAL_RACE_HISTORY") {
        dump(&history, name, Path::new(&directory));
    }
    let summary = verdict.unwrap_or_else(|violation| {
        let path = dump(&history, name, env!("CARGO_TARGET_TMPDIR").as_ref());
        panic!("{violation}\nthe history is in {}", path.display());
    });
    println!("race {name}: {summary:#?}");
    assert!(summary.observed >= target, "the race was cut short");
    assert!(summary.markers_deleted > 0, "no marker ended");
    assert!(summary.passed_over > 0 && summary.filtered > 0, "nothing ended before it was read");
    summary
}

async fn run(scene: &Scene, store: Ground, servers: Vec<Server>) -> History {
    let project = ProjectId::new(Wire::project()).expect("it is short");
    let queue = QueueId::new(project, QUEUE.parse().expect("it is a name")).expect("it is short");
    let default_delay_s = scene.course.delays.map_or(0, |delays| delays.default_s);
    if default_delay_s > 0 {
        let mut choices = Choices::of(scene.seed, 0, 0);
        let shards = scene.course.shards;
        scene.wire.create(&Uuid::nil(), &mut choices, default_delay_s, shards).await.expect("it is created");
    }

    let observers = all(scene.course.observers, |observer| scene.clone().observe(observer));
    let workers = scene.course.workers;
    let deletes = all(if workers == 0 { DELETERS } else { 0 }, |deleter| scene.clone().delete(deleter));
    let takes = all(workers, |worker| scene.clone().work(worker));
    let clockwork = Clockwork::new(scene.clone(), store.clone(), queue);
    let moves = tokio::spawn(async move { if workers == 0 { clockwork.run().await } else { Default::default() } });
    let crash = scene.clone();
    let crash =
        tokio::spawn(async move { if workers == 0 { crash_one(crash, store, servers).await } else { servers } });
    let mut posts = all(PRODUCERS, |producer| scene.clone().produce(producer)).join_all().await;
    scene.board.enter(Phase::Posted);
    let mut deletes = deletes.join_all().await;
    deletes.extend(takes.join_all().await);
    let (moves, pressed) = moves.await.expect("the clock was moved");
    posts.push(pressed);
    let _servers = crash.await.expect("one server was replaced");
    let quiet = scene.board.now();
    scene.board.enter(Phase::Quiet);
    let pages = observers.join_all().await;

    History {
        seed: scene.seed,
        wall_us: scene.wall_us,
        slack_us: SLACK_US + (wall_us(|| scene.board.now()) - scene.wall_us).abs(),
        default_delay_s,
        observers: (0..scene.course.observers).map(|observer| Observer { deaf_to: deaf_to(observer) }).collect(),
        posts: posts.concat(),
        deletes: deletes.concat(),
        moves,
        pages: pages.concat(),
        quiet,
    }
}

/// Kills a server in the middle of the race, which leaves requests without an answer, and starts another.
async fn crash_one(scene: Scene, store: Ground, mut servers: Vec<Server>) -> Vec<Server> {
    let mut news = scene.board.news();
    let half = news.wait_for(|now| scene.board.percent() >= 50 || now.phase > Phase::Racing).await;
    drop(half.expect("the board stays"));
    let mut victim = servers.swap_remove(0);
    victim.kill();
    scene.wire.leave(&victim.url(""));
    let heir = spawn_blocking(move || store.serve(&ROOMY)).await.expect("another starts");
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
    fs::create_dir_all(directory).expect("the directory can be made");
    let path = directory.join(format!("race-{name}-{}.txt", history.seed));
    let mut file = BufWriter::new(File::create(&path).expect("the directory can be written to"));
    history.dump(&mut file).and_then(|()| file.flush()).expect("the disk has room");
    path
}

fn observed(short: usize) -> usize {
    match std::env::var("SUKKAL_RACE_OBSERVED") {
        Ok(text) => text.parse().expect("SUKKAL_RACE_OBSERVED is a number"),
        Err(_) => short,
    }
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}
