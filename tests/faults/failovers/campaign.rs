//! Failovers again and again, of all kinds, under load, without receipts and with them. Without,
//! the last writes before a failover may be lost. With the receipt of the only replica, no
//! acknowledged message is.
//!
//! `SUKKAL_FAILOVERS` sets the number of failovers.

use std::fmt;
use std::iter::zip;
use std::time::Duration;

use tokio::task::block_in_place;

use super::group::{Fault, SentinelGroup};
use super::load::POSTERS;
use super::{Outcome, Started, fail_over};
use support::sukkal::Sukkal;
use support::{campaign, report};

const FAILOVERS: usize = 3;
const RECEIPT: &str = "replicas=1";
/// In seconds, much shorter than the clients allow, because a busy machine delays the response.
const DURABILITY_WAIT: (&str, &str) = ("SUKKAL_TRANSPORT__MAX_DURABILITY_WAIT", "1");

/// What came of all failovers of a kind.
#[derive(Default)]
struct Tally {
    acknowledged: usize,
    lost: usize,
    refused: usize,
    /// Number of messages that only a demoted master stored.
    demoted: usize,
    recoveries: Vec<Duration>,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        self.acknowledged += outcome.summary.acknowledged;
        self.lost += outcome.summary.lost;
        self.refused += outcome.refused;
        self.recoveries.push(outcome.recovered);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, lost, refused, demoted, recoveries } = self;
        let mut recoveries = recoveries.clone();
        recoveries.sort_unstable();
        let median = recoveries.get(recoveries.len() / 2).copied().unwrap_or_default();
        let worst = recoveries.last().copied().unwrap_or_default();
        write!(
            f,
            "{lost} of {acknowledged} acknowledged messages lost, {refused} responses 503, {demoted} messages stored \
             only by a demoted master, recovered after {median:.1?} (worst {worst:.1?})"
        )
    }
}

/// The number of lost messages depends on Redis alone, so it is reported and not checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_failovers_lose_only_the_last_writes_before_each() {
    campaign(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_failovers_lose_no_message_with_a_receipt_of_the_only_replica() {
    campaign(true).await;
}

/// Fails over in turn by all kinds. With receipts, no acknowledged message may be lost.
async fn campaign(has_receipts: bool) {
    let mut group = SentinelGroup::start();
    let sukkal = Sukkal::start_with(&group.url(), &[DURABILITY_WAIT]);
    let mut tallies: [Tally; Fault::ALL.len()] = Default::default();
    for number in 0..campaign::size("SUKKAL_FAILOVERS", FAILOVERS) {
        let kind = number % Fault::ALL.len();
        let (fault, tally, name) = (Fault::ALL[kind], &mut tallies[kind], format!("round-{number}"));
        if has_receipts {
            let is_demoted_late = number % 2 == 0;
            let (outcome, demoted) = fail_over_with_receipts(&sukkal, &mut group, fault, &name, is_demoted_late).await;
            assert_eq!(outcome.summary.lost, 0, "{name}: failover by {fault:?}: {outcome:?}");
            tally.add(&outcome);
            tally.demoted += demoted;
        } else {
            tally.add(&fail_over(&sukkal, &mut group, fault, &name).await);
            block_in_place(|| group.rejoin(fault));
        }
        block_in_place(|| group.wait_until_whole());
    }
    for (fault, tally) in zip(Fault::ALL, &tallies) {
        let name = format!("{fault:?}, receipts: {has_receipts}");
        report::checked("failovers", &name, tally.recoveries.len(), tally);
    }
}

/// Fails over while each post requires the receipt of the only replica. So after the promotion no
/// post is acknowledged until the old master has become the replica: at once, or when all posters
/// were refused. Also returns the number of messages that only the old master has stored meanwhile.
async fn fail_over_with_receipts(
    sukkal: &Sukkal,
    group: &mut SentinelGroup,
    fault: Fault,
    name: &str,
    is_demoted_late: bool,
) -> (Outcome, usize) {
    let started = Started::new(sukkal, name, Some(RECEIPT)).await;
    let clients = &started.clients;
    let began = clients.now();
    block_in_place(|| group.fail_over(fault));
    let promoted_at = clients.now();
    let late_waiter = started.start_late_waiter();
    let before = started.stored(group.old_master());
    if is_demoted_late {
        clients.wait_for_refused_posts(POSTERS).await;
    }
    let demoted = zip(before, started.stored(group.old_master())).map(|(before, after)| after - before).sum::<i64>();
    let rejoined_at = clients.now();
    let has_replica = block_in_place(|| group.rejoin(fault));
    clients.wait_for_posts(1).await;
    let recovered = has_replica.elapsed();
    let outcome = started.finish(began, recovered, Some((promoted_at, rejoined_at)), late_waiter).await;
    (outcome, usize::try_from(demoted).expect("nothing is deleted from the feed"))
}
