//! No wake-up is lost: waiters, and the messages for which they wait, start at random times, many
//! times over, in two services over one store. As many messages are posted as consumers wait, so a
//! consumer that is not woken for its message waits too long.
//!
//! `SUKKAL_WAKEUPS` sets the number of waits of each campaign. `SUKKAL_SEED` repeats the choices of
//! an earlier campaign, but not its timing.

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

use self::rounds::{Kind, TestQueue};
use crate::support::cluster::RedisCluster;
use crate::support::random;
use crate::support::redis::RedisServer;

/// Number of queues with concurrent rounds: short rounds, and rounds of a second or two.
const QUICK_QUEUES: usize = 8;
const SLOW_QUEUES: usize = 64;

const QUICK: &[Kind] = &[Kind::Consumers, Kind::Consumers, Kind::Pauses, Kind::Readers];
const DEAD_LETTERS: &[Kind] = &[Kind::DeadLetters];
const SLOW: &[Kind] = &[Kind::Delays, Kind::Expiries, Kind::Releases];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost() {
    let redis = RedisServer::start();

    campaign("standalone", services(|| redis_store(&redis.url())), QUICK, wakeups(60_000)).await;
    campaign("standalone, timed", services(|| redis_store(&redis.url())), SLOW, wakeups(60_000) / 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_in_a_cluster() {
    let cluster = RedisCluster::start();

    campaign("cluster", services(|| redis_store(&cluster.url())), QUICK, wakeups(30_000)).await;
    campaign("cluster, timed", services(|| redis_store(&cluster.url())), SLOW, wakeups(30_000) / 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_in_an_embedded_store() {
    let store = EmbeddedStore::in_memory().unwrap();
    let shared: Arc<dyn Driver> = Arc::new(store);

    campaign("memory", services(|| shared.clone()), QUICK, wakeups(60_000)).await;
    campaign("memory, timed", services(|| shared.clone()), SLOW, wakeups(60_000) / 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_beside_dead_letters() {
    let redis = RedisServer::start();

    campaign("dead letters, standalone", services(|| redis_store(&redis.url())), DEAD_LETTERS, wakeups(4_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_beside_dead_letters_in_a_cluster() {
    let cluster = RedisCluster::start();

    campaign("dead letters, cluster", services(|| redis_store(&cluster.url())), DEAD_LETTERS, wakeups(2_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_beside_dead_letters_in_an_embedded_store() {
    let shared: Arc<dyn Driver> = Arc::new(EmbeddedStore::in_memory().unwrap());

    campaign("dead letters, memory", services(|| shared.clone()), DEAD_LETTERS, wakeups(4_000)).await;
}

fn redis_store(url: &str) -> Arc<dyn Driver> {
    Arc::new(RedisStore::open(&url.parse().unwrap()).unwrap())
}

/// Creates two services, each over a store that `open` opens.
fn services(open: impl Fn() -> Arc<dyn Driver>) -> [(Broker, Arc<dyn Driver>); 2] {
    let config = Config::load(None, [], &[]).unwrap();
    let (limits, push) = (config.transport.limits, config.push);
    [open(), open()].map(|store| {
        let broker = Broker::new(store.clone(), limits.clone(), push.clone(), None, Arc::default());
        (broker, store)
    })
}

fn wakeups(usual: usize) -> usize {
    std::env::var("SUKKAL_WAKEUPS").ok().map_or(usual, |count| count.parse().expect("a number"))
}

async fn campaign(name: &str, services: [(Broker, Arc<dyn Driver>); 2], kinds: &'static [Kind], wanted: usize) {
    let seed = random::seed();
    let test_queues = if kinds == SLOW { SLOW_QUEUES } else { QUICK_QUEUES };
    let done = Arc::new(AtomicUsize::new(0));
    let mut all = JoinSet::new();
    for number in 0..test_queues {
        let mut test_queue = TestQueue::new(number, seed, services.clone());
        let done = done.clone();
        all.spawn(async move {
            let mut slowest = std::time::Duration::ZERO;
            while done.load(Ordering::Relaxed) < wanted {
                let (waits, took) = test_queue.round(kinds).await;
                done.fetch_add(waits, Ordering::Relaxed);
                slowest = slowest.max(took);
            }
            slowest
        });
    }
    let slowest = all.join_all().await.into_iter().max().unwrap_or_default();
    println!(
        "{name}: {} waits, no wake-up lost, the slowest round {} ms, seed {seed}",
        done.load(Ordering::Relaxed),
        slowest.as_millis()
    );
}
