//! Detailed stats of fair queues, and the pick-up delay of messages.

use std::time::{Duration, Instant};

use sukkal_domain::{QueueId, Tenant};
use sukkal_storage::Popped;

use super::fair_helpers::{TTL_S, assignment, counts, for_assignment, in_shard, later};
use crate::conformance::support::subject::{LONG_S, Subject, messages};

const S: Duration = Duration::from_secs(1);
const TENANTS_MAX: usize = 32;

impl Subject {
    pub(in crate::conformance) async fn tenants(&self, queue: &QueueId) -> Vec<(String, f64)> {
        let tenants = self.details(queue).await.tenants;
        tenants.iter().map(|(tenant, share): &(Tenant, f64)| (tenant.as_str().to_owned(), *share)).collect()
    }

    /// Posts `count` messages of the tenant in one request.
    pub(in crate::conformance) async fn post_as_tenant(&self, queue: &QueueId, tenant: &str, count: usize) {
        self.post(queue, &vec![for_assignment(&assignment(tenant, &[1])); count]).await;
    }
}

pub(in crate::conformance) fn assert_shares(reported: &[(String, f64)], expected: &[(&str, f64)]) {
    let names = |shares: &[(&str, f64)]| shares.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(reported.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names(expected));
    for ((name, reported), (_, expected)) in reported.iter().zip(expected) {
        assert!((reported - expected).abs() < 1e-9, "{name} has a share of {reported} instead of {expected}");
    }
}

pub(in crate::conformance) async fn detailed_stats_show_the_counts_of_each_shard(subject: &Subject) {
    let queue = subject.fair_queue("q", 1_024).await;
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [0; 3]));
    assert_eq!(subject.details(&queue).await.unsharded.oldest_age_s, None);
    assert_eq!(subject.holdings(&subject.id("never")).await, (Vec::new(), [0; 3]));

    let began = Instant::now();
    subject.post_into(&queue, &[9, 9, 1_023, 0]).await;
    subject.post(&queue, &[later(in_shard(9), 900), later(in_shard(44), 900)]).await;
    subject.advance(&queue, 100 * S).await;
    subject.post_into(&queue, &[9, 0]).await;
    subject.claim(&queue, 2, TTL_S).await;

    let details = subject.details(&queue).await;
    let late_s = began.elapsed().as_secs() + 2;
    let reported: Vec<_> = details.shards.iter().map(|(shard, holding)| (shard.number(), counts(holding))).collect();
    assert_eq!(reported, [(0, [1, 0, 1]), (9, [2, 1, 1]), (44, [0, 1, 0]), (1_023, [1, 0, 0])]);
    let ages = details.shards.iter().map(|(_, holding)| holding.oldest_age_s);
    for (age, expected) in ages.zip([Some(0), Some(100), None, Some(100)]) {
        assert_eq!(age.is_some(), expected.is_some());
        let (age, expected) = (age.unwrap_or(0), expected.unwrap_or(0));
        assert!((expected..expected + late_s).contains(&age), "{age} s old instead of {expected}");
    }
    let brief = subject.stats(&queue).await;
    assert_eq!((brief.total, brief.claimed, brief.details), (8, 2, None));
}

pub(in crate::conformance) async fn detailed_stats_of_a_plain_queue_are_all_unsharded(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    subject.advance(&queue, 50 * S).await;
    subject.post(&queue, &[later(messages(LONG_S, 1).remove(0), 900)]).await;
    let age = subject.details(&queue).await.unsharded.oldest_age_s;
    assert!(age.is_some_and(|age| (50..80).contains(&age)), "{age:?}");
    subject.claim(&queue, 2, TTL_S).await;

    let details = subject.details(&queue).await;

    assert_eq!((counts(&details.unsharded), details.shards, details.tenants), ([1, 1, 2], Vec::new(), Vec::new()));
}

pub(in crate::conformance) async fn the_age_of_a_delayed_message_counts_from_its_due_time(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    subject.post(&queue, &[later(in_shard(3), 100)]).await;
    subject.advance(&queue, 150 * S).await;

    let details = subject.details(&queue).await;

    let age = details.shards[0].1.oldest_age_s;
    assert!(age.is_some_and(|age| (49..80).contains(&age)), "{age:?}");
}

pub(in crate::conformance) async fn detailed_stats_show_each_tenants_share_of_posts(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    assert_eq!(subject.tenants(&queue).await, []);
    subject.post_as_tenant(&queue, "b", 2).await;
    assert_shares(&subject.tenants(&queue).await, &[("b", 1.0)]);
    subject.post_as_tenant(&queue, "c", 5).await;
    subject.post_as_tenant(&queue, "a", 1).await;
    subject.post_as_tenant(&queue, "a", 1).await;
    assert_shares(&subject.tenants(&queue).await, &[("c", 5.0 / 9.0), ("a", 2.0 / 9.0), ("b", 2.0 / 9.0)]);

    // Pops do not affect the shares, and one request can have messages of several tenants.
    subject.pop(&queue, 9).await;
    let mixed = [assignment("a", &[1]), assignment("d", &[2]), assignment("a", &[1])]
        .map(|assignment| for_assignment(&assignment));
    subject.post(&queue, &mixed).await;
    let expected = [("c", 5.0 / 12.0), ("a", 4.0 / 12.0), ("b", 2.0 / 12.0), ("d", 1.0 / 12.0)];
    assert_shares(&subject.tenants(&queue).await, &expected);
    subject.set_shards(&queue, 4).await;
    assert_shares(&subject.tenants(&queue).await, &expected);
}

pub(in crate::conformance) async fn detailed_stats_show_the_heaviest_of_many_tenants(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    for round in 0..5 {
        subject.post_as_tenant(&queue, "heavy", 60).await;
        for number in 0..60 {
            subject.post_as_tenant(&queue, &format!("light {round} {number}"), 1).await;
        }
        subject.post_as_tenant(&queue, "middling", 20).await;
    }

    let tenants = subject.tenants(&queue).await;

    assert_eq!(tenants.len(), TENANTS_MAX);
    let about = |share: f64, expected: f64| (-1e-9..0.05).contains(&(share - expected));
    assert!(tenants[0].0 == "heavy" && about(tenants[0].1, 300.0 / 700.0), "{tenants:?}");
    assert!(tenants[1].0 == "middling" && about(tenants[1].1, 100.0 / 700.0), "{tenants:?}");
    assert!(tenants.is_sorted_by(|a, b| a.1 > b.1 || (a.1 >= b.1 && a.0 < b.0)), "{tenants:?}");
    let sum: f64 = tenants.iter().map(|(_, share)| share).sum();
    assert!((sum - 1.0).abs() < 1e-9, "the shares make up {sum}");
}

pub(in crate::conformance) async fn a_new_tenant_inherits_the_count_of_the_smallest_one(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    for number in 0..TENANTS_MAX {
        let count = if number == 7 || number == 9 { 1 } else { 2 };
        subject.post_as_tenant(&queue, &format!("{number:02}"), count).await;
    }

    subject.post_as_tenant(&queue, "new", 3).await;

    let tenants = subject.tenants(&queue).await;
    assert_eq!(tenants.len(), TENANTS_MAX);
    assert!(tenants[0].0 == "new" && (tenants[0].1 - 4.0 / 65.0).abs() < 1e-9, "{tenants:?}");
    assert_eq!(
        tenants[TENANTS_MAX - 1].0,
        "09",
        "of the two tenants with the smallest count, the first by name is replaced"
    );
}

pub(in crate::conformance) async fn older_posts_count_less(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    subject.post_as_tenant(&queue, "a", 3_000).await;
    subject.post_as_tenant(&queue, "b", 9_999).await;
    subject.post_as_tenant(&queue, "b", 1).await;
    assert_shares(&subject.tenants(&queue).await, &[("b", 10.0 / 13.0), ("a", 3.0 / 13.0)]);

    subject.post_as_tenant(&queue, "a", 1_000).await;

    assert_shares(&subject.tenants(&queue).await, &[("b", 5.0 / 7.5), ("a", 2.5 / 7.5)]);
}

pub(in crate::conformance) async fn tenants_are_remembered_for_most_of_an_hour(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    subject.post_as_tenant(&queue, "a", 1).await;
    subject.advance(&queue, 3_500 * S).await;
    assert_shares(&subject.tenants(&queue).await, &[("a", 1.0)]);
    subject.post_as_tenant(&queue, "b", 1).await;
    subject.advance(&queue, 3_500 * S).await;
    assert_shares(&subject.tenants(&queue).await, &[("a", 0.5), ("b", 0.5)]);
}

pub(in crate::conformance) async fn a_first_claim_reports_the_pick_up_delay_of_its_messages(subject: &Subject) {
    for (name, shards) in [("plain", 1), ("fair", 8)] {
        let queue = subject.fair_queue(name, shards).await;
        let began = Instant::now();
        subject.post_into(&queue, &[1, 2]).await;
        subject.advance(&queue, 100 * S).await;
        subject.post_into(&queue, &[3]).await;
        subject.post(&queue, &[later(in_shard(4), 50)]).await;
        subject.advance(&queue, 60 * S).await;

        let claim = subject.claim(&queue, 9, TTL_S).await;

        let mut waited = claim.pickup_delays.clone();
        waited.sort_unstable();
        assert_waited(&waited, &[10 * S, 60 * S, 160 * S, 160 * S], began);
        let shown = subject.get_claim(&queue, claim.id).await.expect("it is live");
        assert_eq!(
            (shown.messages.len(), shown.pickup_delays),
            (4, Vec::new()),
            "only a new claim reports pick-up delays"
        );
        // A second delivery reports no pick-up delay.
        subject.release(&queue, claim.id).await;
        let new = Instant::now();
        subject.post_into(&queue, &[5]).await;
        subject.advance(&queue, 20 * S).await;
        let again = subject.claim(&queue, 9, TTL_S).await;
        assert_eq!(again.messages.len(), 5);
        assert_waited(&again.pickup_delays, &[20 * S], new);
    }
}

pub(in crate::conformance) async fn a_pop_reports_the_pick_up_delay_of_its_messages(subject: &Subject) {
    for (name, shards) in [("plain", 1), ("fair", 8)] {
        let queue = subject.fair_queue(name, shards).await;
        let began = Instant::now();
        let ids = subject.post_into(&queue, &[1, 2, 3]).await;
        subject.advance(&queue, 30 * S).await;
        let claim = subject.claim(&queue, 1, 60).await;
        assert_waited(&claim.pickup_delays, &[30 * S], began);
        subject.advance(&queue, 61 * S).await;

        let popped = subject.popped(&queue, 9).await;

        assert_eq!(popped.len(), 3);
        let reported = |popped: &Popped| popped.pickup_delay.map(|waited| (popped.message.id, waited));
        let (first, waited): (Vec<_>, Vec<_>) = popped.iter().filter_map(reported).unzip();
        assert_eq!(first, ids[1..]);
        assert_waited(&waited, &[91 * S, 91 * S], began);
    }
}

/// Asserts that the messages waited as long as expected since they were posted, which was after
/// `began`.
fn assert_waited(reported: &[Duration], expected: &[Duration], began: Instant) {
    assert_eq!(reported.len(), expected.len(), "{reported:?}");
    let late = began.elapsed() + S / 10;
    for (reported, expected) in reported.iter().zip(expected) {
        // Ranks of one request are a microsecond apart.
        assert!(
            *reported + S / 1_000 >= *expected && *reported <= *expected + late,
            "{reported:?} instead of {expected:?}"
        );
    }
}
