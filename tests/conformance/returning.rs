//! Giving back one message of a claim, at once or for later.

use std::time::Duration;

use sukkal::domain::{ClaimId, MessageId, QueueId};
use sukkal::storage::{ClaimChange, Deletion};

use super::subject::{LONG_S, Subject, ids_of, messages};

const S: Duration = Duration::from_secs(1);

impl Subject {
    async fn give_back(&self, queue: &QueueId, claim: ClaimId, id: MessageId, delay_s: u32) -> ClaimChange {
        self.store().return_message(queue, claim, id, delay_s).await.expect("the store answers")
    }
}

pub(super) async fn a_message_that_is_given_back_is_free_in_its_old_place(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    let claim = subject.claim(&queue, 3, 60).await.id;

    assert_eq!(subject.give_back(&queue, claim, ids[1], 0).await, ClaimChange::Done);

    subject.assert_held(&queue, &[ids[1], ids[3], ids[4]], &[ids[0], ids[2]]).await;
    assert_eq!(subject.held_by(&queue, claim).await, Some(vec![ids[0], ids[2]]));
}

pub(super) async fn a_message_that_is_given_back_for_later_is_nobodys_till_then(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let claim = subject.claim(&queue, 2, 600).await.id;
    subject.give_back(&queue, claim, ids[0], 100).await;

    for step in [0, 98] {
        subject.advance(&queue, step * S).await;
        subject.assert_held(&queue, &ids[2..], &ids[..2]).await;
        assert_eq!(subject.held_by(&queue, claim).await, Some(ids[1..2].to_vec()));
        assert_eq!(subject.get_messages(&queue, &ids[..1]).await[0].claim, None);
    }
    subject.advance(&queue, 3 * S).await;

    subject.assert_held(&queue, &[ids[0], ids[2]], &ids[1..2]).await;
    assert_eq!(subject.claimed_ids(&queue, 1, 60).await, ids[..1]);
}

pub(super) async fn what_is_given_back_for_later_takes_no_claim_to_delete(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 2, 600).await.id;
    subject.give_back(&queue, claim, ids[0], 100).await;

    assert_eq!(subject.acknowledge(&queue, ids[0], Some(claim)).await, Deletion::Free);
    assert_eq!(subject.delete_claimed(&queue, &ids, &[claim]).await, Deletion::Free);
    assert_eq!(subject.acknowledge(&queue, ids[0], None).await, Deletion::Done);

    subject.assert_held(&queue, &[], &ids[1..]).await;
    subject.advance(&queue, 101 * S).await;
    subject.assert_held(&queue, &[], &ids[1..]).await;
}

pub(super) async fn only_the_holder_gives_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let [first, second] = [subject.claim(&queue, 1, 60).await.id, subject.claim(&queue, 1, 120).await.id];
    let elsewhere = subject.queue("other").await;

    assert_eq!(subject.give_back(&queue, first, ids[1], 0).await, ClaimChange::Done);
    assert_eq!(subject.give_back(&queue, first, ids[2], 100).await, ClaimChange::Done);
    assert_eq!(subject.give_back(&queue, ClaimId::random(), ids[0], 0).await, ClaimChange::Gone);
    assert_eq!(subject.give_back(&elsewhere, first, ids[0], 0).await, ClaimChange::Gone);
    subject.assert_held(&queue, &ids[2..], &ids[..2]).await;
    subject.advance(&queue, 61 * S).await;
    assert_eq!(subject.give_back(&queue, first, ids[0], 100).await, ClaimChange::Gone);

    subject.assert_held(&queue, &[ids[0], ids[2]], &ids[1..2]).await;
    assert_eq!(subject.held_by(&queue, second).await, Some(ids[1..2].to_vec()));
}

pub(super) async fn an_old_claim_has_no_say_over_what_it_gave_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let old = subject.claim(&queue, 2, 600).await.id;
    subject.give_back(&queue, old, ids[0], 0).await;
    let new = subject.claim(&queue, 1, 300).await.id;

    subject.renew(&queue, old, 1_000, 60).await;
    assert_eq!(subject.give_back(&queue, old, ids[0], 0).await, ClaimChange::Done);
    assert_eq!(subject.acknowledge(&queue, ids[0], Some(old)).await, Deletion::HeldByOther);
    subject.release(&queue, old).await;

    subject.assert_held(&queue, &ids[1..], &ids[..1]).await;
    assert_eq!(subject.held_by(&queue, new).await, Some(ids[..1].to_vec()));
    subject.advance(&queue, 301 * S).await;
    subject.assert_held(&queue, &ids, &[]).await;
}

pub(super) async fn giving_back_prolongs_no_life(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(100, 1)).await;
    let claim = subject.claim(&queue, 1, 60).await;

    subject.give_back(&queue, claim.id, ids[0], 600).await;

    subject.advance(&queue, 98 * S).await;
    assert_eq!(ids_of(&subject.get_messages(&queue, &ids).await), ids);
    subject.advance(&queue, 4 * S).await;
    subject.assert_held(&queue, &[], &[]).await;
    subject.advance(&queue, 600 * S).await;
    subject.assert_held(&queue, &[], &[]).await;
}
