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

use tokio::task::JoinSet;

use self::rounds::{Kind, TestQueue};
use support::test_bed::{Home, Service};
use support::{campaign, campaigns, random, report};

/// Number of queues with concurrent rounds: short rounds, and rounds of a second or two.
const QUICK_QUEUES: usize = 8;
const SLOW_QUEUES: usize = 64;
/// Maximum number of rounds of a campaign that prove nothing, because the store was too slow.
const INCONCLUSIVE_MAX: usize = 500;

const QUICK: &[Kind] = &[Kind::Consumers, Kind::Consumers, Kind::Pauses, Kind::Readers];
const DEAD_LETTERS: &[Kind] = &[Kind::DeadLetters];
const SLOW: &[Kind] = &[Kind::Delays, Kind::Expiries, Kind::Releases];

campaigns! {
    no_wake_up_is_lost: quick_and_slow_campaign("standalone", &Home::redis(), 9_000);
    no_wake_up_is_lost_in_a_cluster: quick_and_slow_campaign("cluster", &Home::cluster(), 6_000);
    no_wake_up_is_lost_in_an_embedded_store:
        quick_and_slow_campaign("memory", &Home::memory(), 9_000);
    no_wake_up_is_lost_beside_dead_letters:
        dead_letter_campaign("dead letters, standalone", &Home::redis(), 4_000);
    no_wake_up_is_lost_beside_dead_letters_in_a_cluster:
        dead_letter_campaign("dead letters, cluster", &Home::cluster(), 2_000);
    no_wake_up_is_lost_beside_dead_letters_in_an_embedded_store:
        dead_letter_campaign("dead letters, memory", &Home::memory(), 4_000);
}

fn wakeups(usual: usize) -> usize {
    campaign::size("SUKKAL_WAKEUPS", usual)
}

async fn quick_and_slow_campaign(name: &str, home: &Home, usual: usize) {
    let (seed, wanted) = (random::seed(), wakeups(usual));
    campaign(name, seed, home.services().await, QUICK, wanted).await;
    campaign(&format!("{name}, timed"), seed, home.services().await, SLOW, wanted / 20).await;
}

async fn dead_letter_campaign(name: &str, home: &Home, usual: usize) {
    campaign(name, random::seed(), home.services().await, DEAD_LETTERS, wakeups(usual)).await;
}

async fn campaign(name: &str, seed: u64, services: [Service; 2], kinds: &'static [Kind], wanted: usize) {
    let test_queues = if kinds == SLOW { SLOW_QUEUES } else { QUICK_QUEUES };
    let [done, inconclusive] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let mut all = JoinSet::new();
    for number in 0..test_queues {
        let mut test_queue = TestQueue::new(number, seed, services.clone());
        let (done, inconclusive) = (done.clone(), inconclusive.clone());
        all.spawn(async move {
            let mut slowest = std::time::Duration::ZERO;
            while done.load(Ordering::Relaxed) < wanted {
                let Some((waits, took)) = test_queue.round(kinds).await else {
                    let count = 1 + inconclusive.fetch_add(1, Ordering::Relaxed);
                    assert!(count < INCONCLUSIVE_MAX, "the store was not available in {count} rounds");
                    continue;
                };
                done.fetch_add(waits, Ordering::Relaxed);
                slowest = slowest.max(took);
            }
            slowest
        });
    }
    let slowest = all.join_all().await.into_iter().max().unwrap_or_default();
    let inconclusive = inconclusive.load(Ordering::Relaxed);
    let details =
        format!("the slowest round {} ms, {inconclusive} rounds without a result, seed {seed}", slowest.as_millis());
    report::checked("wake_ups", name, done.load(Ordering::Relaxed), details);
}
