//! The number of shards of fair queues changes repeatedly while other actors post, claim and pop
//! through two services over one store. No message is lost, left behind or delivered twice, and at
//! every moment the shards contain what the stats count.
//!
//! `SUKKAL_DIVISIONS` sets how often each campaign changes the number of shards of a queue.
//! `SUKKAL_SEED` repeats the choices of an earlier campaign, but not its timing.

mod round;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use self::round::{Round, Tally};
use support::test_bed::Home;
use support::{campaign, campaigns, random, report};

/// Number of queues with concurrent rounds.
const TEST_QUEUES: usize = 4;
/// Number of changes of the short form.
const DIVISIONS: usize = 32;

campaigns! {
    a_queue_loses_nothing_when_its_shards_change: campaign("standalone", &Home::redis());
    a_queue_loses_nothing_when_its_shards_change_in_a_cluster:
        campaign("cluster", &Home::cluster());
    a_queue_loses_nothing_when_its_shards_change_in_a_file: campaign("embedded", &Home::file());
    a_queue_loses_nothing_when_its_shards_change_in_memory: campaign("memory", &Home::memory());
}

async fn campaign(name: &str, home: &Home) {
    let services = home.services().await;
    let seed = random::seed();
    let wanted = campaign::size("SUKKAL_DIVISIONS", DIVISIONS);
    let divisions = Arc::new(AtomicUsize::new(0));
    let mut test_queues = JoinSet::new();
    for test_queue in 0..TEST_QUEUES {
        let (services, divisions) = (services.clone(), divisions.clone());
        test_queues.spawn(async move {
            let mut all = Tally::default();
            let mut number = test_queue;
            while divisions.load(Ordering::Relaxed) < wanted {
                let tally = Round::new(services.clone(), seed, number).run().await;
                divisions.fetch_add(tally.divisions, Ordering::Relaxed);
                all = all + tally;
                number += TEST_QUEUES;
            }
            all
        });
    }
    let all = test_queues.join_all().await.into_iter().fold(Tally::default(), |all, test_queue| all + test_queue);
    assert!(
        all.snapshots > all.divisions / 4 && all.popped > 0 && all.acknowledged > 0,
        "nothing went on meanwhile: {all:?}"
    );
    assert!(all.sharded > 0 && all.given_back > 0, "nothing went on meanwhile: {all:?}");
    report::checked("resharding", name, all.divisions, format!("{all:?}, seed {seed}"));
}
