//! Deletion and claims: who may delete what, and that a refusal deletes nothing.

use std::time::Duration;

use sukkal::domain::ClaimId;
use sukkal::storage::{Deletion, GivenClaim};

use super::subject::{LONG_S, Subject, messages};

const TTL_S: u32 = 60;

pub(super) async fn a_message_is_deleted_only_under_the_claim_that_holds_it(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    let own = subject.claim(&queue, 2, TTL_S).await.id;
    let other = subject.claim(&queue, 1, TTL_S).await.id;
    let released = subject.claim(&queue, 1, TTL_S).await.id;
    subject.release(&queue, released).await;
    let malformed = async |id| {
        let deletion = subject.store().delete_message(&queue, id, Some(GivenClaim::Malformed)).await;
        deletion.expect("the store answers")
    };

    assert_eq!(subject.acknowledge(&queue, ids[0], None).await, Deletion::Held);
    assert_eq!(subject.acknowledge(&queue, ids[0], Some(other)).await, Deletion::HeldByOther);
    assert_eq!(subject.acknowledge(&queue, ids[0], Some(released)).await, Deletion::UnknownClaim);
    assert_eq!(subject.acknowledge(&queue, ids[0], Some(ClaimId::random())).await, Deletion::UnknownClaim);
    assert_eq!(subject.acknowledge(&queue, ids[3], Some(own)).await, Deletion::Free);
    assert_eq!(subject.acknowledge(&queue, ids[3], Some(released)).await, Deletion::Free);
    assert_eq!(malformed(ids[0]).await, Deletion::UnknownClaim);
    assert_eq!(malformed(ids[3]).await, Deletion::UnknownClaim);
    subject.assert_held(&queue, &ids[3..], &ids[..3]).await;

    assert_eq!(subject.acknowledge(&queue, ids[0], Some(own)).await, Deletion::Done);
    assert_eq!(subject.held_by(&queue, own).await, Some(vec![ids[1]]));
    subject.assert_held(&queue, &ids[3..], &ids[1..3]).await;
    assert_eq!(subject.acknowledge(&queue, ids[3], None).await, Deletion::Done);
    subject.assert_held(&queue, &ids[4..], &ids[1..3]).await;
    // What is gone is gone, whoever asks.
    for claim in [None, Some(own), Some(other), Some(ClaimId::random())] {
        assert_eq!(subject.acknowledge(&queue, ids[0], claim).await, Deletion::Done);
    }
    assert_eq!(malformed(ids[0]).await, Deletion::Done);
    assert_eq!(subject.acknowledge(&subject.id("never"), ids[1], None).await, Deletion::Done);
    subject.assert_held(&queue, &ids[4..], &ids[1..3]).await;
}

pub(super) async fn a_claim_that_is_over_allows_no_deletion(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let over = subject.claim(&queue, 2, TTL_S).await.id;
    subject.advance(&queue, Duration::from_secs(61)).await;

    assert_eq!(subject.acknowledge(&queue, ids[0], Some(over)).await, Deletion::Free);
    subject.claim(&queue, 1, TTL_S).await;
    assert_eq!(subject.acknowledge(&queue, ids[0], Some(over)).await, Deletion::UnknownClaim);
    assert_eq!(subject.delete_claimed(&queue, &ids, &[over]).await, Deletion::Free);

    subject.assert_held(&queue, &ids[1..], &ids[..1]).await;
    assert_eq!(subject.acknowledge(&queue, ids[1], None).await, Deletion::Done);
}

pub(super) async fn many_are_deleted_under_their_claims_or_not_at_all(subject: &Subject) {
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
        assert_eq!(subject.delete_claimed(&queue, some, claims).await, Deletion::Free);
        subject.assert_held(&queue, &ids[6..], &ids[..6]).await;
    }

    assert_eq!(subject.delete_claimed(&queue, &ids[1..5], &[first, second]).await, Deletion::Done);
    subject.assert_held(&queue, &ids[6..], &[ids[0], ids[5]]).await;
    assert_eq!(subject.held_by(&queue, first).await, Some(ids[..1].to_vec()));
    assert_eq!(subject.held_by(&queue, second).await, Some(ids[5..6].to_vec()));
    // Those that are not there stand in nobody's way.
    assert_eq!(subject.delete_claimed(&queue, &ids[..5], &[first]).await, Deletion::Done);
    subject.assert_held(&queue, &ids[6..], &ids[5..6]).await;
}

pub(super) async fn deleting_by_id_asks_for_no_claim(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;
    let claim = subject.claim(&queue, 3, TTL_S).await.id;

    subject.delete_messages(&queue, &ids[1..5]).await;

    assert_eq!(subject.held_by(&queue, claim).await, Some(ids[..1].to_vec()));
    subject.assert_held(&queue, &ids[5..], &ids[..1]).await;
    subject.release(&queue, claim).await;
    subject.assert_held(&queue, &[ids[0], ids[5]], &[]).await;
}
