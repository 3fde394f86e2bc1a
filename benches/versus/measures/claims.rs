//! Claims ten messages and deletes them, in an empty queue and after many claimed messages.

use sukkal_domain::{ClaimId, Taken};
use sukkal_storage::{ClaimStore, MessageStore};

use super::{KB, Pace};
use crate::versus::contestants::{Contestant, NATIVE};
use crate::versus::fill;
use crate::versus::native::Native;
use crate::versus::results::Measure;
use crate::wrk::Load;
use support::calls::new_claim;

pub(crate) const NONE_AHEAD: &str = "none claimed ahead";
pub(crate) const MANY_AHEAD: &str = "100 000 claimed ahead";
const AHEAD: usize = 100_000;
const CLAIMED_AT_ONCE: usize = 500;
/// Maximum number of messages that a contestant can claim in a second, so that enough are posted.
const TAKEN_PER_S: usize = 200_000;
const TAKEN_PER_S_FROM_DISK: usize = 200_000;
const TAKEN_PER_S_FROM_ZAQAR: usize = 10_000;
const CONNECTIONS: u32 = 64;
/// Maximum duration of a run, because its messages must be posted before.
const SECONDS_MAX: u32 = 4;

pub(super) async fn and_deletions(pace: Pace) -> Measure {
    let contestants = [
        (Contestant::sukkal_over_redis(), TAKEN_PER_S),
        (Contestant::sukkal_embedded(), TAKEN_PER_S_FROM_DISK),
        (Contestant::zaqar().await, TAKEN_PER_S_FROM_ZAQAR),
    ];
    let title = "Claim of ten messages of 1 KB, then deletion of these ten (two requests), 64 connections";
    let native = Native::start().await;
    let mut measure = Measure::new("claim", title);
    for _ in 0..pace.rounds {
        for (contestant, per_s) in &contestants {
            let [warmup, load] = loads(pace);
            contestant.reset(1).await;
            contestant.fill(per_s * (warmup.seconds + load.seconds) as usize, KB).await;
            contestant.run(&warmup);
            measure.add(contestant.name, contestant.run(&load));
        }
        measure.add(NATIVE, native.take(KB, pace.seconds.min(SECONDS_MAX)).await);
    }
    measure
}

pub(super) async fn after_claimed(pace: Pace) -> Measure {
    let sukkal = Contestant::sukkal_over_redis();
    let store = sukkal.driver.as_ref().expect("the store can be reached directly");
    let title = "Claim of ten messages of 1 KB, then deletion of these ten (two requests), 64 connections, Sukkal";
    let mut measure = Measure::new("claim-ahead", title);
    for _ in 0..pace.rounds {
        for (row, ahead) in [(NONE_AHEAD, 0), (MANY_AHEAD, AHEAD)] {
            let [warmup, load] = loads(pace);
            sukkal.reset(1).await;
            sukkal.fill(ahead, KB).await;
            let queue = fill::queue("q-0");
            let claim = new_claim(CLAIMED_AT_ONCE, 43_200);
            // Claims until none is left, because claims of large messages are shorter.
            while let Taken::Messages(_claimed) = store.create_claim(&queue, ClaimId::random(), &claim).await.unwrap() {
            }
            assert_eq!(store.get_stats(&queue, false).await.unwrap().claimed, ahead as u64);
            sukkal.fill(TAKEN_PER_S * (warmup.seconds + load.seconds) as usize, KB).await;
            sukkal.run(&warmup);
            measure.add(row, sukkal.run(&load));
        }
    }
    measure
}

/// Returns the load of the warm-up and the load that is measured.
fn loads(pace: Pace) -> [Load; 2] {
    let arguments = vec!["q-0".to_owned(), CONNECTIONS.to_string()];
    let load = |seconds| Load { script: "claim", arguments: arguments.clone(), connections: CONNECTIONS, seconds };
    [load(1), load(pace.seconds.min(SECONDS_MAX))]
}
