//! Preferred shards of a claim: served first while they have messages, but with a bound, so that no
//! other shard starves.

use sukkal_storage::PREFERRED_IN_A_ROW_MAX;

use super::fair_helpers::{TTL_S, in_shard, later, pick};
use crate::conformance::support::subject::{LONG_S, Subject, ids_of, messages};

pub(in crate::conformance) async fn a_preferring_claim_serves_only_preferred_shards_and_keeps_the_turn(
    subject: &Subject,
) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[1, 2, 3, 1, 2, 3, 1, 2, 3]).await;

    assert_eq!(subject.preferred_ids(&queue, &[3], 2).await, pick(&ids, &[2, 5]));
    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, ids[..1]);
    // The claim returns fewer messages than requested rather than messages of other shards.
    assert_eq!(subject.preferred_ids(&queue, &[3], 9).await, ids[8..]);
    assert_eq!(subject.claimed_ids(&queue, 2, TTL_S).await, pick(&ids, &[1, 3]));
}

pub(in crate::conformance) async fn among_preferred_shards_the_one_with_the_oldest_message_is_first(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[4, 1, 5, 5, 2, 2, 1, 5, 2]).await;

    let claim = subject.claim_from(&queue, &[2, 5, 7], 5).await.expect("a message is available");
    assert_eq!(ids_of(&claim.messages), pick(&ids, &[2, 4, 3, 5, 7]));
    // The returned message is the oldest of its shard again.
    subject.release(&queue, claim.id).await;
    assert_eq!(subject.preferred_ids(&queue, &[5], 2).await, pick(&ids, &[2, 3]));

    assert_eq!(subject.preferred_ids(&queue, &[5, 2], 3).await, pick(&ids, &[4, 7, 5]));
}

pub(in crate::conformance) async fn a_claim_whose_preferred_shards_are_empty_is_served_in_turn(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[1, 2, 3, 1, 2, 3]).await;
    subject.post(&queue, &[later(in_shard(7), 100)]).await;
    assert_eq!(subject.preferred_ids(&queue, &[3], 2).await, pick(&ids, &[2, 5]));

    // Shard 3 is entirely claimed, 5 is empty, and 7 has only messages that are not due.
    assert_eq!(subject.preferred_ids(&queue, &[3, 5, 7], 1).await, pick(&ids, &[0]));
    assert_eq!(subject.preferred_ids(&queue, &[1_023], 2).await, pick(&ids, &[1, 3]));
    assert_eq!(subject.preferred_ids(&queue, &[5], 9).await, pick(&ids, &[4]));
    assert_eq!(subject.preferred_ids(&queue, &[5], 9).await, []);
}

pub(in crate::conformance) async fn every_ninth_preferring_claim_is_served_in_turn(subject: &Subject) {
    let in_a_row = usize::from(PREFERRED_IN_A_ROW_MAX);
    assert_eq!(in_a_row, 8);
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[vec![6; 60], vec![1; 3]].concat()).await;
    let (preferred, other) = ids.split_at(60);

    let mut next = preferred.iter().copied();
    for turn in &other[..2] {
        for _ in 0..in_a_row {
            assert_eq!(
                subject.preferred_ids(&queue, &[6], 1).await,
                [next.next().expect("another message is available")]
            );
        }
        assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, [*turn]);
        // Now it is the turn of shard 6, which takes none of the next eight claims.
        assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, [next.next().expect("another message is available")]);
    }
    // A claim or pop that is served in turn restarts the count.
    for by_pop in [false, true] {
        for _ in 0..in_a_row - 1 {
            assert_eq!(
                subject.preferred_ids(&queue, &[6], 1).await,
                [next.next().expect("another message is available")]
            );
        }
        let usual =
            if by_pop { ids_of(&subject.pop(&queue, 1).await) } else { subject.claimed_ids(&queue, 1, TTL_S).await };
        assert_eq!(usual, if by_pop { [next.next().expect("another message is available")] } else { [other[2]] });
    }
    for _ in 0..in_a_row {
        assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, [next.next().expect("another message is available")]);
    }
    // A purge does not restart the count, because nothing was served in turn.
    subject.store().purge_queue(&queue).await.expect("the store answers");
    let ids = subject.post_into(&queue, &[6, 7]).await;
    assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, ids[1..]);
}

pub(in crate::conformance) async fn an_empty_preferring_claim_is_not_counted(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    for _ in 0..20 {
        assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, []);
    }
    let ids = subject.post_into(&queue, &[1, 6, 6]).await;

    assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, ids[1..2]);
}

pub(in crate::conformance) async fn surplus_shards_can_be_preferred(subject: &Subject) {
    let queue = subject.fair_queue("q", 64).await;
    let ids = subject.post_into(&queue, &[1, 60, 2, 60]).await;

    subject.set_shards(&queue, 4).await;
    assert_eq!(subject.preferred_ids(&queue, &[60], 1).await, ids[1..2]);
    subject.set_shards(&queue, 1).await;
    assert_eq!(subject.preferred_ids(&queue, &[60], 1).await, ids[3..]);
    assert_eq!(subject.preferred_ids(&queue, &[60], 1).await, ids[..1]);
}

pub(in crate::conformance) async fn the_unsharded_backlog_cannot_be_preferred(subject: &Subject) {
    let queue = subject.queue("q").await;
    let old = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.set_shards(&queue, 1_024).await;
    let new = subject.post_into(&queue, &[0, 1_023]).await;

    assert_eq!(subject.preferred_ids(&queue, &[1_023, 0], 9).await, new);
    assert_eq!(subject.preferred_ids(&queue, &[1_023, 0], 9).await, old);
}
