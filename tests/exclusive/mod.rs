//! Workers on one queue through several servers: a checker judges the recorded history.
//!
//! `SUKKAL_EXCLUSIVE_SECONDS` is how long they work, `SUKKAL_SEED` repeats the choices of an earlier
//! test (not its timing). A history that breaks a rule is written to cargo's directory for tests.

mod actors;
mod board;
mod checker;
mod history;
mod wire;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sukkal::domain::{ProjectId, QueueId};
use sukkal::storage::redis::RedisStore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use self::actors::{DRAINERS, PRODUCERS, Scene, WORKERS, Work};
use self::board::Board;
use self::history::History;
use self::wire::{PROJECT, QUEUE, Wire};
use crate::support::chronicle::choices;
use crate::support::cluster::RedisCluster;
use crate::support::redis::RedisServer;
use crate::support::sukkal::Sukkal;

const SERVERS: usize = 3;
const SECONDS: u64 = 12;
/// What the end may take; a test that hangs is a failure.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim() {
    let redis = RedisServer::start();

    exclude("standalone", &redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_a_cluster() {
    let cluster = RedisCluster::start();

    exclude("cluster", &cluster.url()).await;
}

/// Lets them work on the store, and has it judged.
async fn exclude(name: &str, store: &str) {
    let length = Duration::from_secs(length_s());
    let servers: Vec<Sukkal> = (0..SERVERS).map(|_| Sukkal::start(store)).collect();
    let seed = choices::seed();
    println!("exclusive {name}: SUKKAL_SEED={seed}");
    let wire = Arc::new(Wire::new(servers.iter().map(|server| server.url("")).collect()));
    let scene = Scene { seed, wire, board: Arc::new(Board::new()) };

    let run = timeout(length + PATIENCE, run(&scene, store, servers, length));
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
}

async fn run(scene: &Scene, store: &str, servers: Vec<Sukkal>, length: Duration) -> History {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let now = i64::try_from(scene.board.now()).expect("it has just begun");
    let wall_us = i64::try_from(wall.as_micros()).expect("the year is before 290000") - now;
    let project = ProjectId::new(PROJECT).expect("it is short");
    let queue = QueueId::new(project, QUEUE.parse().expect("it is a name")).expect("it is short");
    let clock = RedisStore::open(&store.parse().expect("it is an address")).expect("it can be opened");

    let posts = all(PRODUCERS, |number| scene.clone().produce(number));
    let work = all(WORKERS, |number| scene.clone().work(number));
    let counts = tokio::spawn(scene.clone().audit());
    let moves = tokio::spawn(scene.clone().move_clock(clock, queue));
    let crash = tokio::spawn(crash_one(scene.clone(), store.to_owned(), servers));
    sleep(length / 2).await;
    scene.board.tell(|news| news.half = true);
    sleep(length / 2).await;
    scene.board.tell(|news| news.over = true);
    let posts = posts.join_all().await.concat();
    let mut work = work.join_all().await;
    scene.board.tell(|news| news.at_rest = true);
    let mut counts = counts.await.expect("it was counted");
    let _servers = crash.await.expect("one server was replaced");
    let moves = moves.await.expect("the clock was moved");

    let drained_from = scene.board.now();
    work.extend(all(DRAINERS, |number| scene.clone().drain(number)).join_all().await);
    counts.push(scene.clone().last_count().await);
    let mut history = History { seed: scene.seed, wall_us, posts, moves, counts, drained_from, ..History::default() };
    for Work { claims, turns, pops } in work {
        history.claims.extend(claims);
        history.turns.extend(turns);
        history.pops.extend(pops);
    }
    history
}

/// Kills a server in the middle, which leaves requests without an answer, and starts another.
async fn crash_one(scene: Scene, store: String, mut servers: Vec<Sukkal>) -> Vec<Sukkal> {
    scene.board.wait_until(|news| news.half).await;
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
    let path = directory.join(format!("exclusive-{name}-{}.txt", history.seed));
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
