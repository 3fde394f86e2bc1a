//! Returning one message of a claim, immediately or with a delay.

use std::time::Duration;

use sukkal_domain::{ClaimId, MessageId, QueueId};
use sukkal_storage::{ClaimOutcome, DeleteOutcome};

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, messages};

const S: Duration = Duration::from_secs(1);

impl Subject {
    async fn return_message(&self, queue: &QueueId, claim: ClaimId, id: MessageId, delay_s: u32) -> ClaimOutcome {
        self.store().return_message(queue, claim, id, delay_s).await.expect("the store answers")
    }
}

pub(in crate::conformance) async fn a_returned_message_is_available_at_its_old_position(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    let claim = subject.claim(&queue, 3, 60).await.id;

    assert_eq!(subject.return_message(&queue, claim, ids[1], 0).await, ClaimOutcome::Done);

    subject.assert_available_and_claimed(&queue, &[ids[1], ids[3], ids[4]], &[ids[0], ids[2]]).await;
    assert_eq!(subject.held_by(&queue, claim).await, Some(vec![ids[0], ids[2]]));
}

pub(in crate::conformance) async fn a_message_returned_with_a_delay_is_unavailable_until_it_is_due(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let claim = subject.claim(&queue, 2, 600).await.id;
    subject.return_message(&queue, claim, ids[0], 100).await;

    for step in [0, 98] {
        subject.advance(&queue, step * S).await;
        subject.assert_available_and_claimed(&queue, &ids[2..], &ids[..2]).await;
        assert_eq!(subject.held_by(&queue, claim).await, Some(ids[1..2].to_vec()));
        assert_eq!(subject.get_messages(&queue, &ids[..1]).await[0].claim, None);
    }
    subject.advance(&queue, 3 * S).await;

    subject.assert_available_and_claimed(&queue, &[ids[0], ids[2]], &ids[1..2]).await;
    assert_eq!(subject.claimed_ids(&queue, 1, 60).await, ids[..1]);
}

pub(in crate::conformance) async fn a_message_returned_with_a_delay_can_be_deleted_without_a_claim(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 2, 600).await.id;
    subject.return_message(&queue, claim, ids[0], 100).await;

    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(claim)).await, DeleteOutcome::NotClaimed);
    assert_eq!(subject.delete_claimed(&queue, &ids, &[claim]).await, DeleteOutcome::NotClaimed);
    assert_eq!(subject.delete_with_claim(&queue, ids[0], None).await, DeleteOutcome::Done);

    subject.assert_available_and_claimed(&queue, &[], &ids[1..]).await;
    subject.advance(&queue, 101 * S).await;
    subject.assert_available_and_claimed(&queue, &[], &ids[1..]).await;
}

pub(in crate::conformance) async fn only_the_claim_that_holds_a_message_can_return_it(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let [first, second] = [subject.claim(&queue, 1, 60).await.id, subject.claim(&queue, 1, 120).await.id];
    let elsewhere = subject.queue("other").await;

    assert_eq!(subject.return_message(&queue, first, ids[1], 0).await, ClaimOutcome::NotHeld);
    assert_eq!(subject.return_message(&queue, first, ids[2], 100).await, ClaimOutcome::NotHeld);
    assert_eq!(subject.return_message(&queue, ClaimId::random(), ids[0], 0).await, ClaimOutcome::Gone);
    assert_eq!(subject.return_message(&elsewhere, first, ids[0], 0).await, ClaimOutcome::Gone);
    subject.assert_available_and_claimed(&queue, &ids[2..], &ids[..2]).await;
    subject.advance(&queue, 61 * S).await;
    assert_eq!(subject.return_message(&queue, first, ids[0], 100).await, ClaimOutcome::Gone);

    subject.assert_available_and_claimed(&queue, &[ids[0], ids[2]], &ids[1..2]).await;
    assert_eq!(subject.held_by(&queue, second).await, Some(ids[1..2].to_vec()));
}

pub(in crate::conformance) async fn a_claim_has_no_rights_to_a_message_that_it_returned(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let old = subject.claim(&queue, 2, 600).await.id;
    subject.return_message(&queue, old, ids[0], 0).await;
    let new = subject.claim(&queue, 1, 300).await.id;

    subject.renew(&queue, old, 1_000, 60).await;
    assert_eq!(subject.return_message(&queue, old, ids[0], 0).await, ClaimOutcome::NotHeld);
    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(old)).await, DeleteOutcome::ClaimedByAnother);
    subject.release(&queue, old).await;

    subject.assert_available_and_claimed(&queue, &ids[1..], &ids[..1]).await;
    assert_eq!(subject.held_by(&queue, new).await, Some(ids[..1].to_vec()));
    subject.advance(&queue, 301 * S).await;
    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
}

pub(in crate::conformance) async fn returning_a_message_does_not_extend_its_life(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(100, 1)).await;
    let claim = subject.claim(&queue, 1, 60).await;

    subject.return_message(&queue, claim.id, ids[0], 600).await;

    subject.advance(&queue, 80 * S).await;
    assert_eq!(ids_of(&subject.get_messages(&queue, &ids).await), ids);
    subject.advance(&queue, 22 * S).await;
    subject.assert_available_and_claimed(&queue, &[], &[]).await;
    subject.advance(&queue, 600 * S).await;
    subject.assert_available_and_claimed(&queue, &[], &[]).await;
}
