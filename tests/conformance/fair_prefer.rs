//! A worker's preference: served from there while something is there, but not for ever, and at nobody's cost.

use sukkal::storage::PREFERRED_IN_A_ROW_MAX;

use super::fairness::{TTL_S, in_shard, later, pick};
use super::subject::{LONG_S, Subject, ids_of, messages};

pub(super) async fn a_preference_is_served_alone_and_leaves_the_turn(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[1, 2, 3, 1, 2, 3, 1, 2, 3]).await;

    assert_eq!(subject.preferred_ids(&queue, &[3], 2).await, pick(&ids, &[2, 5]));
    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, ids[..1]);
    // Shorter than asked for: others' messages are others'.
    assert_eq!(subject.preferred_ids(&queue, &[3], 9).await, ids[8..]);
    assert_eq!(subject.claimed_ids(&queue, 2, TTL_S).await, pick(&ids, &[1, 3]));
}

pub(super) async fn of_several_shards_the_one_with_the_oldest_is_first(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[4, 1, 5, 5, 2, 2, 1, 5, 2]).await;

    let claim = subject.claim_from(&queue, &[2, 5, 7], 5).await.expect("something is free");
    assert_eq!(ids_of(&claim.messages), pick(&ids, &[2, 4, 3, 5, 7]));
    // What comes back is the oldest of its shard again.
    subject.release(&queue, claim.id).await;
    assert_eq!(subject.preferred_ids(&queue, &[5], 2).await, pick(&ids, &[2, 3]));

    assert_eq!(subject.preferred_ids(&queue, &[5, 2], 3).await, pick(&ids, &[4, 7, 5]));
}

pub(super) async fn without_what_is_preferred_a_claim_is_one_like_others(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[1, 2, 3, 1, 2, 3]).await;
    subject.post(&queue, &[later(in_shard(7), 100)]).await;
    assert_eq!(subject.preferred_ids(&queue, &[3], 2).await, pick(&ids, &[2, 5]));

    // 3 is all claimed, 5 empty, 7 not due.
    assert_eq!(subject.preferred_ids(&queue, &[3, 5, 7], 1).await, pick(&ids, &[0]));
    assert_eq!(subject.preferred_ids(&queue, &[1_023], 2).await, pick(&ids, &[1, 3]));
    assert_eq!(subject.preferred_ids(&queue, &[5], 9).await, pick(&ids, &[4]));
    assert_eq!(subject.preferred_ids(&queue, &[5], 9).await, []);
}

pub(super) async fn of_nine_preferring_claims_in_a_row_one_is_like_others(subject: &Subject) {
    let in_a_row = usize::from(PREFERRED_IN_A_ROW_MAX);
    assert_eq!(in_a_row, 8);
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[vec![6; 60], vec![1; 3]].concat()).await;
    let (preferred, other) = ids.split_at(60);

    let mut next = preferred.iter().copied();
    for turn in &other[..2] {
        for _ in 0..in_a_row {
            assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, [next.next().expect("there are more")]);
        }
        assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, [*turn]);
        // Now it is the turn of 6, which takes none of the next eight.
        assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, [next.next().expect("there are more")]);
    }
    // Whoever is served as usual meanwhile, by a claim or a pop, lets them count anew.
    for by_pop in [false, true] {
        for _ in 0..in_a_row - 1 {
            assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, [next.next().expect("there are more")]);
        }
        let usual =
            if by_pop { ids_of(&subject.pop(&queue, 1).await) } else { subject.claimed_ids(&queue, 1, TTL_S).await };
        assert_eq!(usual, if by_pop { [next.next().expect("there are more")] } else { [other[2]] });
    }
    for _ in 0..in_a_row {
        assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, [next.next().expect("there are more")]);
    }
    // A purge does not let them count anew: nothing was served as usual.
    subject.store().purge_messages(&queue).await.expect("the store answers");
    let ids = subject.post_into(&queue, &[6, 7]).await;
    assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, ids[1..]);
}

pub(super) async fn a_claim_in_vain_counts_for_nothing(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    for _ in 0..20 {
        assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, []);
    }
    let ids = subject.post_into(&queue, &[1, 6, 6]).await;

    assert_eq!(subject.preferred_ids(&queue, &[6], 1).await, ids[1..2]);
}

pub(super) async fn the_shards_that_are_too_many_can_be_preferred(subject: &Subject) {
    let queue = subject.fair_queue("q", 64).await;
    let ids = subject.post_into(&queue, &[1, 60, 2, 60]).await;

    subject.divide(&queue, 4).await;
    assert_eq!(subject.preferred_ids(&queue, &[60], 1).await, ids[1..2]);
    subject.divide(&queue, 1).await;
    assert_eq!(subject.preferred_ids(&queue, &[60], 1).await, ids[3..]);
    assert_eq!(subject.preferred_ids(&queue, &[60], 1).await, ids[..1]);
}

pub(super) async fn the_backlog_of_a_plain_queue_is_no_shard_to_prefer(subject: &Subject) {
    let queue = subject.queue("q").await;
    let old = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.divide(&queue, 1_024).await;
    let new = subject.post_into(&queue, &[0, 1_023]).await;

    assert_eq!(subject.preferred_ids(&queue, &[1_023, 0], 9).await, new);
    assert_eq!(subject.preferred_ids(&queue, &[1_023, 0], 9).await, old);
}
