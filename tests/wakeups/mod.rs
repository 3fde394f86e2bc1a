//! No wake-up is lost: waiters and what they wait for at random instants, over and over, by two services over one store.
//! As many messages come as there are takers, so if one of them is not called for its own it waits in vain.
//!
//! `SUKKAL_WAKEUPS` is how many waits each campaign takes, `SUKKAL_SEED` repeats the choices of an earlier one (not its
//! timing).

mod dead_letters;
mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sukkal::broker::Broker;
use sukkal::config::Config;
use sukkal::storage::Driver;
use sukkal::storage::embedded::EmbeddedStore;
use sukkal::storage::redis::RedisStore;
use tokio::task::JoinSet;

use self::rounds::{Kind, Lane};
use crate::support::chronicle::choices;
use crate::support::cluster::RedisCluster;
use crate::support::redis::RedisServer;

/// Queues on which there are rounds at once: of moments, and of a second or two.
const QUICK_LANES: usize = 8;
const SLOW_LANES: usize = 64;

const QUICK: &[Kind] = &[Kind::Takers, Kind::Takers, Kind::Readers];
const DYING: &[Kind] = &[Kind::DeadLetters];
const SLOW: &[Kind] = &[Kind::Delays, Kind::Expiries, Kind::Releases];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_while_there_is_something() {
    let redis = RedisServer::start();

    campaign("standalone", services(|| redis_store(&redis.url())), QUICK, wakeups(60_000)).await;
    campaign("standalone, timed", services(|| redis_store(&redis.url())), SLOW, wakeups(60_000) / 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_while_there_is_something_in_a_cluster() {
    let cluster = RedisCluster::start();

    campaign("cluster", services(|| redis_store(&cluster.url())), QUICK, wakeups(30_000)).await;
    campaign("cluster, timed", services(|| redis_store(&cluster.url())), SLOW, wakeups(30_000) / 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_while_there_is_something_in_an_embedded_store() {
    let store = EmbeddedStore::in_memory().unwrap();
    let shared: Arc<dyn Driver> = Arc::new(store);

    campaign("memory", services(|| shared.clone()), QUICK, wakeups(60_000)).await;
    campaign("memory, timed", services(|| shared.clone()), SLOW, wakeups(60_000) / 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_beside_dead_letters_while_there_is_something() {
    let redis = RedisServer::start();

    campaign("dead letters, standalone", services(|| redis_store(&redis.url())), DYING, wakeups(4_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_beside_dead_letters_while_there_is_something_in_a_cluster() {
    let cluster = RedisCluster::start();

    campaign("dead letters, cluster", services(|| redis_store(&cluster.url())), DYING, wakeups(2_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_beside_dead_letters_while_there_is_something_in_an_embedded_store() {
    let shared: Arc<dyn Driver> = Arc::new(EmbeddedStore::in_memory().unwrap());

    campaign("dead letters, memory", services(|| shared.clone()), DYING, wakeups(4_000)).await;
}

fn redis_store(url: &str) -> Arc<dyn Driver> {
    Arc::new(RedisStore::open(&url.parse().unwrap()).unwrap())
}

/// Two services, each over what this opens.
fn services(open: impl Fn() -> Arc<dyn Driver>) -> [(Broker, Arc<dyn Driver>); 2] {
    let limits = Config::load(None, [], &[]).unwrap().transport.limits;
    [open(), open()].map(|store| (Broker::new(store.clone(), limits.clone(), None, Arc::default()), store))
}

fn wakeups(usual: usize) -> usize {
    std::env::var("SUKKAL_WAKEUPS").ok().map_or(usual, |count| count.parse().expect("a number"))
}

async fn campaign(name: &str, services: [(Broker, Arc<dyn Driver>); 2], kinds: &'static [Kind], wanted: usize) {
    let seed = choices::seed();
    let lanes = if kinds == SLOW { SLOW_LANES } else { QUICK_LANES };
    let done = Arc::new(AtomicUsize::new(0));
    let mut all = JoinSet::new();
    for number in 0..lanes {
        let mut lane = Lane::new(number, seed, services.clone());
        let done = done.clone();
        all.spawn(async move {
            let mut slowest = std::time::Duration::ZERO;
            while done.load(Ordering::Relaxed) < wanted {
                let (waits, took) = lane.round(kinds).await;
                done.fetch_add(waits, Ordering::Relaxed);
                slowest = slowest.max(took);
            }
            slowest
        });
    }
    let slowest = all.join_all().await.into_iter().max().unwrap_or_default();
    println!(
        "{name}: {} waits, nobody forgotten, the slowest round {} ms, seed {seed}",
        done.load(Ordering::Relaxed),
        slowest.as_millis()
    );
}
