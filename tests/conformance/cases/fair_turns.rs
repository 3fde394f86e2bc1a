//! Turns in a fair queue: shards are served round-robin, however many messages each consumer takes.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use sukkal_domain::{Body, MessageId, NewMessage, QueueId};
use uuid::Uuid;

use super::fair_helpers::{TTL_S, in_shard, later, pick};
use super::turn_model::TurnModel;
use crate::conformance::support::any::check_random_values;
use crate::conformance::support::subject::{LONG_S, Subject, assert_ascending, ids_of, messages};

/// Number of random backlogs that are tried.
const BACKLOGS: u32 = 40;

impl Subject {
    /// Takes up to `limit` messages, by a pop or by a claim.
    async fn take(&self, queue: &QueueId, limit: usize, by_pop: bool) -> Vec<MessageId> {
        if by_pop { ids_of(&self.pop(queue, limit).await) } else { self.claimed_ids(queue, limit, TTL_S).await }
    }

    /// Makes this shard the last one that was served.
    async fn set_turn(&self, queue: &QueueId, shard: u16) {
        let ids = self.post_into(queue, &[shard]).await;
        assert_eq!(ids_of(&self.pop(queue, 1).await), ids);
    }
}

pub(in crate::conformance) async fn two_shards_alternate_from_any_starting_turn(subject: &Subject) {
    let queue = subject.fair_queue("q", 64).await;
    for (turn, first) in [(0, 0), (4, 0), (5, 1), (6, 0), (7, 0), (40, 0), (63, 0)] {
        for (limit, by_pop) in [(1, false), (3, false), (10, false), (1, true), (3, true), (10, true)] {
            subject.set_turn(&queue, turn).await;
            let neighbors = [subject.post_into(&queue, &[5; 15]).await, subject.post_into(&queue, &[6; 15]).await];

            let mut taken = Vec::new();
            while taken.len() < 30 {
                let some = subject.take(&queue, limit, by_pop).await;
                assert!(!some.is_empty(), "a message is left");
                taken.extend(some);
            }

            let expected: Vec<_> = (0..15).flat_map(|n| [neighbors[first][n], neighbors[1 - first][n]]).collect();
            assert_eq!(taken, expected, "after {turn}, {limit} at a time, by pops: {by_pop}");
        }
    }
}

pub(in crate::conformance) async fn random_backlogs_are_served_in_turn(subject: &Subject) {
    let subject = subject.clone();
    let backlogs = || {
        // Some shards have few messages and some have many, posted in random order.
        let backlog = vec((0_u16..64, prop_oneof![1_usize..4, 1_usize..40]), 1..9)
            .prop_map(|backlogs| backlogs.iter().flat_map(|(shard, size)| vec![*shard; *size]).collect::<Vec<_>>())
            .prop_shuffle();
        (backlog, vec((1_usize..20, any::<bool>()), 1..12))
    };

    check_random_values(BACKLOGS, backlogs, async move |(backlog, limits)| {
        let queue = subject.fair_queue(&Uuid::new_v4().to_string(), 64).await;
        let ids = subject.post_into(&queue, &backlog).await;
        let mut free: Vec<_> = backlog.iter().copied().zip(ids).collect();
        let shard_of = |id: &MessageId, all: &[(u16, MessageId)]| {
            all.iter().find(|(_, other)| other == id).map(|(shard, _)| *shard).expect("it was posted")
        };
        let (all, mut rotation, mut served) = (free.clone(), TurnModel::default(), Vec::new());
        for (limit, by_pop) in limits.iter().copied().cycle() {
            let expected = rotation.take(&free, limit, &[]);
            let taken = subject.take(&queue, limit, by_pop).await;
            assert_eq!(taken, expected);
            free.retain(|(_, id)| !taken.contains(id));
            served.extend(taken.iter().map(|id| shard_of(id, &all)));
            if taken.is_empty() {
                break;
            }
        }
        assert_eq!(served.len(), backlog.len());
        assert_fair(&served, &backlog);
        subject.delete(&queue).await;
    })
    .await;
}

/// Asserts fairness at every moment: no shard has been served two messages more than another shard
/// that still has messages.
fn assert_fair(served: &[u16], backlog: &[u16]) {
    let count = |shards: &[u16], shard| shards.iter().filter(|other| **other == shard).count();
    let shards = BTreeSet::from_iter(backlog);
    for until in 0..served.len() {
        let got: Vec<_> = shards.iter().map(|shard| (**shard, count(&served[..until], **shard))).collect();
        let least = got.iter().filter(|(shard, got)| *got < count(backlog, *shard)).map(|(_, got)| *got).min();
        let most = got.iter().map(|(_, got)| *got).max();
        assert!(most <= least.map(|least| least + 1), "shards with what each got: {got:?} of {served:?}");
    }
}

pub(in crate::conformance) async fn concurrent_consumers_share_one_turn(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let shards: Vec<u16> = (0..200).map(|number| [1, 3, 6, 7][number % 4]).collect();
    let ids = subject.post_into(&queue, &shards).await;
    let other = subject.clone();

    for number in 0..20 {
        let who = if number % 2 == 0 { subject } else { &other };
        let taken = who.take(&queue, 1, number % 3 == 0).await;

        assert_eq!(taken, ids[number..=number]);
    }
    // Each consumer takes whole rounds, so that it does not shift the turns of the others.
    let consumers = (0..5_usize).map(|consumer| {
        let (subject, queue) = (subject.clone(), queue.clone());
        tokio::spawn(async move {
            let mut taken = Vec::new();
            for number in 0..9 {
                taken.push(subject.take(&queue, 4, (consumer + number) % 2 == 0).await);
            }
            taken
        })
    });
    let mut taken = Vec::new();
    for consumer in join_all(consumers).await {
        taken.extend(consumer.expect("no claim or pop fails"));
    }
    taken.sort_unstable();
    assert_eq!(taken.concat(), ids[20..]);
}

pub(in crate::conformance) async fn shards_without_available_messages_are_skipped(subject: &Subject) {
    let queue = subject.fair_queue("q", 1_024).await;
    assert_eq!(subject.claim_for(&queue, 1, TTL_S, 60).await, None);
    let ids = subject.post_into(&queue, &[1_023, 1_023, 500, 2, 700]).await;
    subject.post(&queue, &[later(in_shard(600), 900)]).await;
    let held = subject.preferred_ids(&queue, &[700], 1).await;
    assert_eq!(held, ids[4..]);

    assert_eq!(subject.take(&queue, 2, false).await, pick(&ids, &[3, 2]));
    assert_eq!(subject.take(&queue, 9, true).await, ids[..2]);
    assert_eq!(subject.claim_for(&queue, 1, TTL_S, 60).await, None);
    assert_eq!(subject.take(&queue, 1, true).await, []);
    // No message was taken, so the turn is still after the last shard served.
    let more = subject.post_into(&queue, &[1_022, 1_023, 0]).await;
    assert_eq!(subject.take(&queue, 3, false).await, pick(&more, &[2, 0, 1]));
}

pub(in crate::conformance) async fn the_oldest_message_of_a_shard_is_served_first(subject: &Subject) {
    let queue = subject.fair_queue("q", 4).await;
    let late = subject.post(&queue, &[later(in_shard(1), 100)]).await;
    let ids = subject.post_into(&queue, &[1, 2, 1, 2, 1]).await;
    subject.advance(&queue, Duration::from_secs(101)).await;
    let newest = subject.post_into(&queue, &[1]).await;

    let taken = subject.claim_all(&queue, 1).await;

    let expected = [pick(&ids, &[0, 1, 2, 3, 4]), late, newest].concat();
    assert_eq!(taken, expected);
    assert_ascending(&taken);
}

pub(in crate::conformance) async fn the_feed_of_a_fair_queue_is_complete_and_in_rank_order(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let shards: Vec<u16> = (0..120).map(|number| 7 - number % 8).collect();
    let ids = subject.post_into(&queue, &shards).await;

    for limit in [1, 7, 50, 1_000] {
        assert_eq!(subject.pages(&queue, None, limit, None).await, ids, "pages of {limit}");
    }
    let claimed = subject.take(&queue, 20, false).await;
    assert!(!claimed.is_sorted(), "the order of turns differs from the order of ages");
    let free: Vec<_> = ids.iter().copied().filter(|id| !claimed.contains(id)).collect();
    subject.assert_available_and_claimed(&queue, &free, &claimed).await;
    assert_eq!(subject.feed_with_claimed(&queue, 7, None).await, ids);
    for marker in [0, 8, 77, 119] {
        let after: Vec<_> = free.iter().copied().filter(|id| *id > ids[marker]).collect();
        assert_eq!(subject.feed_after(&queue, Some(ids[marker])).await, after);
    }
    assert!(subject.page(&queue).await.is_fair);
    assert!(!subject.page(&subject.queue("plain").await).await.is_fair);
}

pub(in crate::conformance) async fn messages_that_did_not_fit_into_a_response_are_served_next(subject: &Subject) {
    for by_pop in [false, true] {
        let queue = subject.fair_queue(&format!("q{by_pop}"), 8).await;
        let mut free = Vec::new();
        for shard in [6, 1, 1, 1, 4, 4, 6, 1, 4, 1, 1, 1] {
            let text = rmp_serde::to_vec(&"x".repeat(200_000)).expect("a string can be formatted");
            let large = NewMessage { body: Body::from_msgpack(text.into()), ..in_shard(shard) };
            free.push((shard, subject.post(&queue, &[large]).await[0]));
        }
        let small = subject.post_into(&queue, &[6, 6, 2]).await;
        free.extend([6, 6, 2].into_iter().zip(small));

        let mut taken = Vec::new();
        while taken.len() < free.len() {
            let some = subject.take(&queue, 15, by_pop).await;
            assert!(!some.is_empty() && some.len() < 9, "{} messages in an answer", some.len());
            taken.extend(some);
        }

        assert_eq!(taken, TurnModel::default().take(&free, 15, &[]), "by pops: {by_pop}");
    }
}

pub(in crate::conformance) async fn a_plain_queue_ignores_shard_assignments(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post_into(&queue, &[7, 3, 7, 1]).await;
    let more = subject.post(&queue, &messages(LONG_S, 2)).await;

    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [6, 0, 0]));
    assert_eq!(subject.details(&queue).await.tenants, []);
    assert_eq!(subject.preferred_ids(&queue, &[1], 3).await, ids[..3]);
    assert_eq!(subject.take(&queue, 3, true).await, [&ids[3..], &more].concat());
}
