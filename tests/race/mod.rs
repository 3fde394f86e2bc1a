//! Producers, observers and deleters at once; a checker judges the recorded history.
//!
//! `SUKKAL_RACE_OBSERVED` is how many deliveries each race takes, `SUKKAL_SEED` repeats the choices
//! of an earlier one (not its timing). A history that breaks a rule is written to cargo's directory
//! for tests; with `SUKKAL_RACE_HISTORY` every one is, to the directory of that name.

mod actors;
mod board;
mod checker;
mod history;
mod wire;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::redis::RedisStore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use self::actors::{DELETERS, OBSERVERS, PRODUCERS, Scene, deaf_to};
use self::board::{Board, Phase};
use self::history::{History, Observer};
use self::wire::Wire;
use crate::support::chronicle::choices;
use crate::support::cluster::RedisCluster;
use crate::support::redis::RedisServer;
use crate::support::sukkal::Sukkal;

const SERVERS: usize = 3;
const QUEUE: &str = "feed";
/// Much longer than any race takes; a race that hangs is a failure.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Row 6.1-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed() {
    let redis = RedisServer::start();

    race("standalone", &redis.url(), observed(300_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_whole_feed_from_a_cluster() {
    let cluster = RedisCluster::start();

    race("cluster", &cluster.url(), observed(150_000)).await;
}

/// Runs a race over the store and has it judged.
async fn race(name: &str, store: &str, target: usize) {
    let servers: Vec<Sukkal> = (0..SERVERS).map(|_| Sukkal::start(store)).collect();
    let seed = choices::seed();
    println!("race {name}: SUKKAL_SEED={seed}");
    let board = Arc::new(Board::new(target, OBSERVERS));
    let wire = Arc::new(Wire::new(QUEUE, servers.iter().map(|server| server.url("")).collect()));
    let scene = Scene { seed, wire, board: board.clone() };

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
    assert!(summary.markers_deleted > 0 && summary.markers_expired > 0, "no marker ended");
    assert!(summary.passed_over > 0 && summary.filtered > 0, "nothing ended before it was read");
}

async fn run(scene: &Scene, store: &str, servers: Vec<Sukkal>) -> History {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let now = i64::try_from(scene.board.now()).expect("it has just begun");
    let wall_us = i64::try_from(wall.as_micros()).expect("the year is before 290000") - now;
    let project = ProjectId::new(Wire::project()).expect("it is short");
    let queue = QueueId::new(project, QUEUE.parse().expect("it is a name")).expect("it is short");
    let clock = RedisStore::open(&store.parse().expect("it is an address")).expect("it can be opened");

    let observers = all(OBSERVERS, |observer| scene.clone().observe(observer));
    let deletes = all(DELETERS, |deleter| scene.clone().delete(deleter));
    let moves = tokio::spawn(scene.clone().move_clock(clock, queue));
    let crash = tokio::spawn(crash_one(scene.clone(), store.to_owned(), servers));
    let posts = all(PRODUCERS, |producer| scene.clone().produce(producer)).join_all().await;
    scene.board.enter(Phase::Posted);
    let deletes = deletes.join_all().await;
    let moves = moves.await.expect("the clock was moved");
    let _servers = crash.await.expect("one server was replaced");
    let quiet = scene.board.now();
    scene.board.enter(Phase::Quiet);
    let pages = observers.join_all().await;

    History {
        seed: scene.seed,
        wall_us,
        observers: (0..OBSERVERS).map(|observer| Observer { deaf_to: deaf_to(observer) }).collect(),
        posts: posts.concat(),
        deletes: deletes.concat(),
        moves,
        pages: pages.concat(),
        quiet,
    }
}

/// Kills a server in the middle of the race, which leaves requests without an answer, and starts another.
async fn crash_one(scene: Scene, store: String, mut servers: Vec<Sukkal>) -> Vec<Sukkal> {
    let mut news = scene.board.news();
    let half = news.wait_for(|now| scene.board.percent() >= 50 || now.phase > Phase::Racing).await;
    drop(half.expect("the board stays"));
    let mut victim = servers.swap_remove(0);
    victim.kill();
    scene.wire.leave(&victim.url(""));
    let heir = spawn_blocking(move || Sukkal::start(&store)).await.expect("another starts");
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
