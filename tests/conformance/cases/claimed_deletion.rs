//! Deletion and claims: which deletions require a claim. A refused deletion deletes nothing.

use std::time::Duration;

use sukkal_domain::ClaimId;
use sukkal_storage::DeleteOutcome;

use crate::conformance::support::subject::{LONG_S, Subject, messages};

const TTL_S: u32 = 60;

pub(in crate::conformance) async fn a_claimed_message_can_be_deleted_only_with_its_claim(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    let own = subject.claim(&queue, 2, TTL_S).await.id;
    let other = subject.claim(&queue, 1, TTL_S).await.id;
    let released = subject.claim(&queue, 1, TTL_S).await.id;
    subject.release(&queue, released).await;

    assert_eq!(subject.delete_with_claim(&queue, ids[0], None).await, DeleteOutcome::ClaimRequired);
    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(other)).await, DeleteOutcome::ClaimedByAnother);
    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(released)).await, DeleteOutcome::UnknownClaim);
    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(ClaimId::random())).await, DeleteOutcome::UnknownClaim);
    assert_eq!(subject.delete_with_claim(&queue, ids[3], Some(own)).await, DeleteOutcome::NotClaimed);
    assert_eq!(subject.delete_with_claim(&queue, ids[3], Some(released)).await, DeleteOutcome::NotClaimed);
    subject.assert_available_and_claimed(&queue, &ids[3..], &ids[..3]).await;

    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(own)).await, DeleteOutcome::Done);
    assert_eq!(subject.held_by(&queue, own).await, Some(vec![ids[1]]));
    subject.assert_available_and_claimed(&queue, &ids[3..], &ids[1..3]).await;
    assert_eq!(subject.delete_with_claim(&queue, ids[3], None).await, DeleteOutcome::Done);
    subject.assert_available_and_claimed(&queue, &ids[4..], &ids[1..3]).await;
    // A deletion of a missing message succeeds with any claim.
    for claim in [None, Some(own), Some(other), Some(ClaimId::random())] {
        assert_eq!(subject.delete_with_claim(&queue, ids[0], claim).await, DeleteOutcome::Done);
    }
    assert_eq!(subject.delete_with_claim(&subject.id("never"), ids[1], None).await, DeleteOutcome::Done);
    subject.assert_available_and_claimed(&queue, &ids[4..], &ids[1..3]).await;
}

pub(in crate::conformance) async fn an_expired_claim_allows_no_deletion(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let expired = subject.claim(&queue, 2, TTL_S).await.id;
    subject.advance(&queue, Duration::from_secs(61)).await;

    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(expired)).await, DeleteOutcome::NotClaimed);
    subject.claim(&queue, 1, TTL_S).await;
    assert_eq!(subject.delete_with_claim(&queue, ids[0], Some(expired)).await, DeleteOutcome::UnknownClaim);
    assert_eq!(subject.delete_claimed(&queue, &ids, &[expired]).await, DeleteOutcome::NotClaimed);

    subject.assert_available_and_claimed(&queue, &ids[1..], &ids[..1]).await;
    assert_eq!(subject.delete_with_claim(&queue, ids[1], None).await, DeleteOutcome::Done);
}

pub(in crate::conformance) async fn a_bulk_deletion_of_claimed_messages_is_all_or_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 8)).await;
    let first = subject.claim(&queue, 3, TTL_S).await.id;
    let second = subject.claim(&queue, 3, TTL_S).await.id;

    for (some, claims) in [
        (&ids[..4], &[first][..]),
        (&ids[2..7], &[first, second]),
        (&ids[6..7], &[first]),
        (&ids[..1], &[]),
        (&ids[..1], &[ClaimId::random()]),
    ] {
        assert_eq!(subject.delete_claimed(&queue, some, claims).await, DeleteOutcome::NotClaimed);
        subject.assert_available_and_claimed(&queue, &ids[6..], &ids[..6]).await;
    }

    assert_eq!(subject.delete_claimed(&queue, &ids[1..5], &[first, second]).await, DeleteOutcome::Done);
    subject.assert_available_and_claimed(&queue, &ids[6..], &[ids[0], ids[5]]).await;
    assert_eq!(subject.held_by(&queue, first).await, Some(ids[..1].to_vec()));
    assert_eq!(subject.held_by(&queue, second).await, Some(ids[5..6].to_vec()));
    // Missing messages do not make the deletion fail.
    assert_eq!(subject.delete_claimed(&queue, &ids[..5], &[first]).await, DeleteOutcome::Done);
    subject.assert_available_and_claimed(&queue, &ids[6..], &ids[5..6]).await;
}

pub(in crate::conformance) async fn deleting_by_id_requires_no_claim(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;
    let claim = subject.claim(&queue, 3, TTL_S).await.id;

    subject.delete_messages(&queue, &ids[1..5]).await;

    assert_eq!(subject.held_by(&queue, claim).await, Some(ids[..1].to_vec()));
    subject.assert_available_and_claimed(&queue, &ids[5..], &ids[..1]).await;
    subject.release(&queue, claim).await;
    subject.assert_available_and_claimed(&queue, &[ids[0], ids[5]], &[]).await;
}
