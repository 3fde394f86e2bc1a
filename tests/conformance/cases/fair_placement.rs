//! Placement in fair queues: a message goes to the emptiest shard of its assignment, and stays
//! there.

use std::time::Duration;

use sukkal_domain::{MessageId, QueueId};
use sukkal_storage::ClaimOutcome;

use super::fair_helpers::{TTL_S, assignment, for_assignment, in_shard, later, pick};
use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message};

const S: Duration = Duration::from_secs(1);

pub(in crate::conformance) async fn a_message_goes_to_the_first_empty_or_else_the_shortest_assigned_shard(
    subject: &Subject,
) {
    let queue = subject.fair_queue("q", 16).await;
    let of_assignment = for_assignment(&assignment("a", &[5, 2, 9]));
    let mut ids = Vec::new();
    for expected in [
        vec![(5, 1)],
        vec![(2, 1), (5, 1)],
        vec![(2, 1), (5, 1), (9, 1)],
        vec![(2, 1), (5, 2), (9, 1)],
        vec![(2, 2), (5, 2), (9, 1)],
        vec![(2, 2), (5, 2), (9, 2)],
    ] {
        ids.extend(subject.post(&queue, std::slice::from_ref(&of_assignment)).await);
        assert_eq!(subject.available(&queue).await, expected);
    }

    subject.delete_messages(&queue, &pick(&ids, &[2, 5])).await;
    subject.delete_messages(&queue, &ids[1..2]).await;
    assert_eq!(subject.available(&queue).await, [(2, 1), (5, 2)]);
    // First the empty shard, then the shortest one, then the first of equal ones.
    for expected in [vec![(2, 1), (5, 2), (9, 1)], vec![(2, 2), (5, 2), (9, 1)], vec![(2, 2), (5, 2), (9, 2)]] {
        subject.post(&queue, std::slice::from_ref(&of_assignment)).await;
        assert_eq!(subject.available(&queue).await, expected);
    }
    subject.post(&queue, &[of_assignment]).await;
    assert_eq!(subject.available(&queue).await, [(2, 2), (5, 3), (9, 2)]);
}

pub(in crate::conformance) async fn each_message_of_a_batch_counts_for_the_next(subject: &Subject) {
    let queue = subject.fair_queue("q", 16).await;
    let [first, other] =
        [assignment("a", &[5, 2, 9]), assignment("b", &[9, 7])].map(|assignment| for_assignment(&assignment));

    let ids = subject.post(&queue, &vec![first.clone(); 7]).await;
    assert_eq!(subject.available(&queue).await, [(2, 2), (5, 3), (9, 2)]);
    assert_eq!(subject.preferred_ids(&queue, &[5], 9).await, pick(&ids, &[0, 3, 6]));
    assert_eq!(subject.preferred_ids(&queue, &[2], 9).await, pick(&ids, &[1, 4]));
    assert_eq!(subject.preferred_ids(&queue, &[9], 9).await, pick(&ids, &[2, 5]));
    subject.store().purge_queue(&queue).await.expect("the store answers");

    // Overlapping assignments count each other's messages: 9, 5, 7, 2, 9 (of 9 and 7), and 5.
    subject.post(&queue, &[&other, &first, &other, &first, &other, &first].map(Clone::clone)).await;
    assert_eq!(subject.available(&queue).await, [(2, 1), (5, 2), (7, 1), (9, 2)]);
}

pub(in crate::conformance) async fn placement_counts_delayed_messages_but_not_claimed_ones(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let of_assignment = for_assignment(&assignment("a", &[1, 2]));
    subject.post(&queue, &vec![later(of_assignment.clone(), 100); 2]).await;
    subject.post(&queue, &[later(of_assignment.clone(), 50)]).await;
    assert_eq!(subject.holdings(&queue).await.0, [(1, [0, 2, 0]), (2, [0, 1, 0])]);
    let ids = subject.post(&queue, &vec![of_assignment.clone(); 2]).await;
    assert_eq!(subject.holdings(&queue).await.0, [(1, [1, 2, 0]), (2, [1, 1, 0])]);

    assert_eq!(subject.claimed_ids(&queue, 2, 10 * TTL_S).await, pick(&ids, &[1, 0]));
    subject.post(&queue, std::slice::from_ref(&of_assignment)).await;
    assert_eq!(subject.holdings(&queue).await.0, [(1, [0, 2, 1]), (2, [1, 1, 1])]);
    subject.advance(&queue, 60 * S).await;
    assert_eq!(subject.holdings(&queue).await.0, [(1, [1, 1, 1]), (2, [1, 1, 1])]);
    // All available messages are claimed now, so one delayed message is left in each shard.
    subject.claim(&queue, 2, 10 * TTL_S).await;
    subject.post(&queue, &[of_assignment]).await;
    assert_eq!(subject.holdings(&queue).await.0, [(1, [1, 1, 2]), (2, [0, 1, 2])]);
    subject.advance(&queue, 60 * S).await;
    assert_eq!(subject.holdings(&queue).await.0, [(1, [2, 0, 2]), (2, [1, 0, 2])]);
}

pub(in crate::conformance) async fn messages_of_one_delay_are_placed_before_those_of_the_next(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let of_assignment = for_assignment(&assignment("a", &[1, 2, 3, 4]));
    let late = || later(of_assignment.clone(), 100);

    subject.post(&queue, &[late(), of_assignment.clone(), late(), of_assignment.clone()]).await;

    let expected = [(1, [0, 1, 0]), (2, [0, 1, 0]), (3, [1, 0, 0]), (4, [1, 0, 0])];
    assert_eq!(subject.holdings(&queue).await.0, expected);
}

pub(in crate::conformance) async fn messages_return_to_their_shard_however_a_claim_ends(subject: &Subject) {
    for end in ["release", "expiry", "withdrawal", "return", "return for later"] {
        let queue = subject.fair_queue(&format!("q{}", end.replace(' ', "-")), 8).await;
        let ids = subject.post_into(&queue, &[6, 3, 3, 6, 1]).await;
        let claim = subject.claim(&queue, 4, 100).await;
        assert_eq!(ids_of(&claim.messages), pick(&ids, &[4, 1, 0, 2]), "turns");
        assert_eq!(subject.holdings(&queue).await.0, [(1, [0, 0, 1]), (3, [0, 0, 2]), (6, [1, 0, 1])], "{end}");
        let give_back = async |delay_s| {
            for message in &claim.messages {
                let change = subject.store().return_message(&queue, claim.id, message.id, delay_s).await;
                assert_eq!(change, Ok(ClaimOutcome::Done));
            }
        };

        match end {
            "release" => subject.release(&queue, claim.id).await,
            "expiry" => subject.advance(&queue, 101 * S).await,
            "withdrawal" => subject.store().withdraw_claim(&queue, claim.id).await.expect("the store answers"),
            "return" => give_back(0).await,
            _ => {
                give_back(50).await;
                let expected = [(1, [0, 0, 1]), (3, [0, 0, 2]), (6, [1, 0, 1])];
                assert_eq!(subject.holdings(&queue).await.0, expected, "unavailable");
                subject.advance(&queue, 51 * S).await;
            }
        }

        assert_eq!(subject.available(&queue).await, [(1, 1), (3, 2), (6, 2)], "{end}");
        assert_eq!(subject.feed(&queue).await, ids, "{end}");
        // The last turn was that of shard 3.
        assert_eq!(subject.claim_all(&queue, 2).await, pick(&ids, &[0, 4, 1, 3, 2]), "{end}");
    }
}

pub(in crate::conformance) async fn restored_messages_have_their_old_shard_and_position(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let ids = subject.post_into(&queue, &[6, 3, 3, 6, 1]).await;
    let held = subject.claim(&queue, 1, TTL_S).await;
    assert_eq!(ids_of(&held.messages), ids[4..]);
    let before = subject.details(&queue).await;

    let popped = subject.popped(&queue, 3).await;
    assert_eq!(subject.feed(&queue).await, ids[3..4]);
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.holdings(&queue).await.0, [(1, [0, 0, 1]), (3, [2, 0, 0]), (6, [2, 0, 0])]);
    assert_eq!(subject.details(&queue).await.tenants, before.tenants);
    assert_eq!(subject.feed(&queue).await, ids[..4]);
    // The pop has nevertheless used three turns: 3, 6, 3.
    assert_eq!(subject.claim_all(&queue, 3).await, pick(&ids, &[0, 1, 3, 2]));
}

pub(in crate::conformance) async fn expired_and_deleted_messages_leave_their_shard(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let short = crate::conformance::support::subject::message(100, 0);
    let short = |shard| sukkal_domain::NewMessage { assignment: in_shard(shard).assignment, ..short.clone() };
    subject.post(&queue, &[short(1), short(2), later(short(2), 50), short(3)]).await;
    let ids = subject.post_into(&queue, &[1, 2, 3, 3]).await;
    let claim = subject.claim_from(&queue, &[3], 9).await.expect("a message is available");
    assert_eq!(subject.holdings(&queue).await.0, [(1, [2, 0, 0]), (2, [2, 1, 0]), (3, [0, 0, 3])]);

    assert_eq!(subject.delete_claimed(&queue, &ids[2..3], &[claim.id]).await, sukkal_storage::DeleteOutcome::Done);
    subject.delete_messages(&queue, &ids[1..2]).await;
    assert_eq!(subject.holdings(&queue).await.0, [(1, [2, 0, 0]), (2, [1, 1, 0]), (3, [0, 0, 2])]);
    subject.release(&queue, claim.id).await;
    subject.advance(&queue, 800 * S).await;

    assert_eq!(subject.available(&queue).await, [(1, 1), (3, 1)]);
    assert_eq!(subject.claim_all(&queue, 1).await, pick(&ids, &[0, 3]));
}

pub(in crate::conformance) async fn a_purge_empties_all_shards_and_keeps_the_turn(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    fill(subject, &queue).await;

    subject.store().purge_queue(&queue).await.expect("the store answers");

    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [0; 3]));
    assert_eq!(subject.claim_for(&queue, 9, TTL_S, 60).await, None);
    let ids = subject.post_into(&queue, &[1, 3, 2]).await;
    subject.advance(&queue, 2_000 * S).await;
    assert_eq!(subject.available(&queue).await, [(1, 1), (2, 1), (3, 1)]);
    assert_eq!(subject.claim_all(&queue, 5).await, pick(&ids, &[1, 0, 2]));
}

pub(in crate::conformance) async fn a_recreated_queue_has_no_old_shards(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    fill(subject, &queue).await;

    subject.delete(&queue).await;
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [0; 3]));
    subject.create(&queue).await;
    let plain = subject.post(&queue, &[message(LONG_S, 0)]).await;
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [1, 0, 0]));
    assert!(!subject.page(&queue).await.is_fair);
    assert_eq!(subject.claim_all(&queue, 5).await, plain);

    subject.delete(&queue).await;
    subject.fair_queue("q", 8).await;
    assert_eq!(subject.details(&queue).await.tenants, []);
    let ids = subject.post_into(&queue, &[1, 3, 2]).await;
    assert_eq!(subject.available(&queue).await, [(1, 1), (2, 1), (3, 1)]);
    subject.advance(&queue, 2_000 * S).await;
    assert_eq!(subject.claim_all(&queue, 5).await, pick(&ids, &[0, 2, 1]));
}

/// Posts available, delayed, claimed and returned messages to some shards, of which 2 was served
/// last.
async fn fill(subject: &Subject, queue: &QueueId) -> Vec<MessageId> {
    let ids = subject.post_into(queue, &[1, 1, 2, 2, 3, 3, 4]).await;
    subject.post(queue, &[later(in_shard(3), 900), later(in_shard(5), 900)]).await;
    let claim = subject.claim(queue, 2, TTL_S).await;
    subject.store().return_message(queue, claim.id, ids[0], 700).await.expect("the store answers");
    let expected = [(1, [1, 0, 1]), (2, [1, 0, 1]), (3, [2, 1, 0]), (4, [1, 0, 0]), (5, [0, 1, 0])];
    assert_eq!(subject.holdings(queue).await.0, expected);
    ids
}
