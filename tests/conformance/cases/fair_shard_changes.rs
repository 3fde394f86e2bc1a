//! Changes of the number of shards: more, fewer, none, and back. No message is lost or stays
//! undelivered.

use std::time::Duration;

use sukkal_domain::QueueId;
use sukkal_storage::ClaimOutcome;

use super::fair_helpers::{TTL_S, assert_same, in_shard, later, named, pick};
use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message, messages};
use support::random::{Random, seed};

const S: Duration = Duration::from_secs(1);

impl Subject {
    /// Returns the shards assigned to a tenant under the queue's current metadata.
    async fn assigned_shards(&self, queue: &QueueId, tenant: &str) -> Vec<u16> {
        let sharding = self.get(queue).await.and_then(|queue| queue.metadata.sharding()).expect("it is fair");
        sharding.assign(&named(tenant)).shards.iter().map(|shard| shard.number()).collect()
    }
}

pub(in crate::conformance) async fn more_shards_take_effect_immediately(subject: &Subject) {
    let queue = subject.fair_queue("q", 2).await;
    let old = subject.post_for(&queue, "a", 40).await;
    assert_eq!(subject.available(&queue).await, [(0, 20), (1, 20)]);

    subject.set_shards(&queue, 64).await;
    assert_eq!(subject.available(&queue).await, [(0, 20), (1, 20)]);
    let new = subject.post_for(&queue, "b", 4).await;

    // None of these shards is 0 or 1.
    let mut expected: Vec<_> = subject.assigned_shards(&queue, "b").await.into_iter().map(|shard| (shard, 1)).collect();
    expected.extend([(0, 20), (1, 20)]);
    expected.sort_unstable();
    assert_eq!(subject.available(&queue).await, expected);
    // The new tenant does not wait behind the backlog.
    let first = subject.claimed_ids(&queue, 6, TTL_S).await;
    assert_eq!(first.iter().filter(|id| new.contains(id)).count(), 4);
    assert_eq!(first.iter().filter(|id| old.contains(id)).count(), 2);
}

pub(in crate::conformance) async fn surplus_shards_are_served_until_they_are_empty(subject: &Subject) {
    let queue = subject.fair_queue("q", 64).await;
    let old = subject.post_into(&queue, &[63, 40, 40, 1]).await;
    let held = subject.preferred_ids(&queue, &[63], 1).await;
    let late = subject.post(&queue, &[later(in_shard(50), 100)]).await;

    subject.set_shards(&queue, 4).await;
    let expected = [(1, [1, 0, 0]), (40, [2, 0, 0]), (50, [0, 1, 0]), (63, [0, 0, 1])];
    assert_eq!(subject.holdings(&queue).await.0, expected);
    let new = subject.post_for(&queue, "a", 12).await;
    let (shards, _) = subject.holdings(&queue).await;
    let beyond: Vec<_> = shards.into_iter().filter(|(shard, _)| *shard >= 4).collect();
    assert_eq!(beyond, expected[1..], "no message is posted to these shards any more");

    let mut taken = subject.claimed_ids(&queue, 5, 10 * TTL_S).await;
    assert_eq!(taken[4], old[1], "a turn of each");
    subject.advance(&queue, Duration::from_secs(u64::from(TTL_S) + 1)).await;
    taken.extend(subject.claimed_ids(&queue, 7, 10 * TTL_S).await);
    // After shard 40: the message that is now due, the returned message, and then from the
    // beginning.
    assert_eq!(taken[5..7], [late[0], held[0]]);
    assert_eq!(taken[11], old[2]);
    taken.extend(subject.claim_all(&queue, 3).await);
    assert_same(taken, [old, late, new].concat());
}

pub(in crate::conformance) async fn counts_stay_exact_when_the_number_of_shards_changes(subject: &Subject) {
    let mut random = Random::new(seed(), 0, 0);
    let queue = subject.fair_queue("q", 64).await;
    let (mut posted, mut taken) = (Vec::new(), Vec::new());
    for shards in [8, 64, 3, 1_024, 2, 16, 1, 16, 5, 1, 1, 64] {
        for tenant in ["a", "b", "c"] {
            posted.extend(subject.post_for(&queue, tenant, 1 + random.below(12)).await);
        }
        let claim = subject.claim(&queue, 1 + random.below(12), 60).await;

        subject.set_shards(&queue, shards).await;

        subject.details(&queue).await;
        match random.below(4) {
            0 => subject.release(&queue, claim.id).await,
            1 => subject.advance(&queue, 61 * S).await,
            2 => {
                let change = subject.store().return_message(&queue, claim.id, claim.messages[0].id, 30).await;
                assert_eq!(change, Ok(ClaimOutcome::Done));
            }
            _ => {
                let ids = ids_of(&claim.messages);
                subject.delete_messages(&queue, &ids).await;
                taken.extend(ids);
            }
        }
        taken.extend(ids_of(&subject.pop(&queue, random.below(9) + 1).await));
        let details = subject.details(&queue).await;
        let held: u64 = details.shards.iter().map(|(_, holding)| holding.available + holding.claimed).sum();
        let total = held + details.unsharded.available + details.unsharded.claimed;
        assert_eq!(total, (posted.len() - taken.len()) as u64, "with {shards} shards");
    }
    subject.advance(&queue, 61 * S).await;
    taken.extend(subject.claim_all(&queue, 7).await);
    assert_same(taken, posted);
}

pub(in crate::conformance) async fn the_unsharded_backlog_is_served_in_turn_like_a_shard(subject: &Subject) {
    let queue = subject.queue("q").await;
    let old = subject.post(&queue, &messages(LONG_S, 6)).await;
    let late = subject.post(&queue, &[later(message(LONG_S, 0), 100), later(message(LONG_S, 1), 100)]).await;
    let claim = subject.claim(&queue, 2, 60).await;
    assert_eq!(ids_of(&claim.messages), old[..2]);

    subject.set_shards(&queue, 4).await;
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [4, 2, 2]));
    assert!(subject.page(&queue).await.is_fair);
    let new = subject.post_into(&queue, &[0, 1, 1, 0, 0, 1]).await;
    let expected = vec![(0, [3, 0, 0]), (1, [3, 0, 0])];
    assert_eq!(subject.holdings(&queue).await, (expected, [4, 2, 2]));

    let turns = subject.claimed_ids(&queue, 5, 10 * TTL_S).await;
    assert_eq!(turns, [new[0], new[1], old[2], new[3], new[2]]);
    assert_eq!(subject.claimed_ids(&queue, 1, 10 * TTL_S).await, old[3..4]);
    // The returned message is the oldest of its shard again, and the message that is due by then is
    // the newest.
    subject.release(&queue, claim.id).await;
    assert_eq!(subject.claimed_ids(&queue, 3, 10 * TTL_S).await, [new[4], new[5], old[0]]);
    subject.advance(&queue, 101 * S).await;
    assert_eq!(subject.holdings(&queue).await.1, [5, 0, 3]);
    assert_eq!(subject.claim_all(&queue, 2).await, [&old[1..2], &old[4..], &late].concat());
}

pub(in crate::conformance) async fn messages_popped_from_the_backlog_are_restored_to_it(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.pop(&queue, 1).await;
    subject.set_shards(&queue, 8).await;

    let ids = subject.post_into(&queue, &[7, 7, 5]).await;
    let popped = subject.popped(&queue, 3).await;
    let popped_ids: Vec<_> = popped.iter().map(|popped| popped.message.id).collect();
    assert_eq!(popped_ids[..2], pick(&ids, &[2, 0]));
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.holdings(&queue).await, (vec![(5, [1, 0, 0]), (7, [2, 0, 0])], [1, 0, 0]));
}

pub(in crate::conformance) async fn a_queue_is_fair_until_its_last_sharded_message_is_gone(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let sharded = subject.post_into(&queue, &[7, 7, 2]).await;
    let late = subject.post(&queue, &[later(in_shard(3), 100)]).await;
    subject.set_shards(&queue, 1).await;

    // New messages have no assignment, and all go to the same shard.
    let new = subject.post(&queue, &messages(LONG_S, 3)).await;
    let expected = vec![(0, [3, 0, 0]), (2, [1, 0, 0]), (3, [0, 1, 0]), (7, [2, 0, 0])];
    assert_eq!(subject.holdings(&queue).await, (expected, [0; 3]));
    assert!(subject.page(&queue).await.is_fair);
    let popped = ids_of(&subject.pop(&queue, 4).await);
    assert_eq!(popped, [new[0], sharded[2], sharded[0], new[1]]);
    let held = subject.claim(&queue, 2, 60).await;
    assert_eq!(ids_of(&held.messages), [sharded[1], new[2]]);
    assert!(subject.page(&queue).await.is_fair, "delayed messages and messages in flight have a shard too");
    subject.delete_messages(&queue, &late).await;
    assert!(subject.page(&queue).await.is_fair, "a message in flight has a shard");
    subject.delete_messages(&queue, &ids_of(&held.messages)).await;

    assert!(!subject.page(&queue).await.is_fair);
    let plain = subject.post(&queue, &messages(LONG_S, 2)).await;
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [2, 0, 0]));
    assert_eq!(subject.details(&queue).await.tenants, []);
    // The queue becomes fair again: the old turn is forgotten, and these messages have no shard.
    subject.set_shards(&queue, 8).await;
    let again = subject.post_into(&queue, &[2, 7]).await;
    assert_eq!(subject.claim_all(&queue, 9).await, [again[0], again[1], plain[0], plain[1]]);
}

pub(in crate::conformance) async fn messages_delayed_before_the_queue_became_fair_keep_it_fair(subject: &Subject) {
    let queue = subject.queue("q").await;
    let late = subject.post(&queue, &[later(message(LONG_S, 0), 100), later(message(LONG_S, 1), 300)]).await;
    subject.set_shards(&queue, 8).await;
    subject.advance(&queue, 101 * S).await;
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [1, 1, 0]));

    subject.set_shards(&queue, 1).await;
    assert!(subject.page(&queue).await.is_fair, "it was posted while the queue was fair");
    let new = subject.post(&queue, &messages(LONG_S, 1)).await;
    assert_eq!(subject.holdings(&queue).await, (vec![(0, [1, 0, 0])], [1, 1, 0]));
    assert_eq!(subject.claim_all(&queue, 1).await, [new[0], late[0]]);
    subject.delete_messages(&queue, &[new[0], late[0]]).await;

    assert!(!subject.page(&queue).await.is_fair, "a message that is not due has no shard");
    subject.advance(&queue, 200 * S).await;
    assert!(!subject.page(&queue).await.is_fair);
    assert_eq!(subject.claim_all(&queue, 1).await, late[1..]);
}

pub(in crate::conformance) async fn messages_restored_to_a_plain_queue_have_no_shard(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[5, 6, 7]).await;
    let popped = subject.popped(&queue, 3).await;
    subject.set_shards(&queue, 1).await;
    if !popped[0].is_final {
        assert!(subject.page(&queue).await.is_fair, "the popped messages are still in their shards");
        return;
    }

    subject.store().restore_messages(&queue, &popped[..1]).await.expect("the store answers");
    assert!(!subject.page(&queue).await.is_fair);
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [1, 0, 0]));

    // Messages posted before the queue became fair again have no shard either.
    subject.set_shards(&queue, 8).await;
    subject.store().restore_messages(&queue, &popped[1..2]).await.expect("the store answers");
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [2, 0, 0]));
    let new = subject.post_into(&queue, &[1]).await;
    subject.store().restore_messages(&queue, &popped[2..]).await.expect("the store answers");
    assert_eq!(subject.holdings(&queue).await, (vec![(1, [1, 0, 0])], [3, 0, 0]));
    assert_eq!(subject.claim_all(&queue, 4).await, [new[0], ids[0], ids[1], ids[2]]);
}

pub(in crate::conformance) async fn an_update_that_keeps_the_number_of_shards_keeps_the_turn(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[1, 2, 3, 4]).await;
    assert_eq!(subject.claimed_ids(&queue, 2, TTL_S).await, ids[..2]);

    for shards in [8, 16, 1, 4] {
        subject.set_shards(&queue, shards).await;
    }
    let more = subject.post_into(&queue, &[1]).await;

    assert_eq!(subject.claim_all(&queue, 1).await, [ids[2], ids[3], more[0]]);
}
