//! Undelivered messages: claims are withdrawn, and popped messages are restored.

use std::time::Duration;

use serde_json::json;
use sukkal_domain::{ClaimId, QueueId};

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, messages, without_ages};

impl Subject {
    async fn withdraw(&self, queue: &QueueId, claim: ClaimId) {
        self.store().withdraw_claim(queue, claim).await.expect("the store answers");
    }
}

pub(in crate::conformance) async fn a_withdrawn_claim_leaves_no_trace(subject: &Subject) {
    let queue = subject.queue_of("q", json!({ "_dead_letter_queue": "dead", "_max_claim_count": 2 })).await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;

    for _ in 0..5 {
        let claim = subject.claim(&queue, 2, 600).await;
        assert_eq!(ids_of(&claim.messages), ids[..2]);
        subject.withdraw(&queue, claim.id).await;
        subject.withdraw(&queue, claim.id).await;
        assert_eq!(subject.held_by(&queue, claim.id).await, None);
        subject.assert_available_and_claimed(&queue, &ids, &[]).await;
    }

    let counts = subject.get_messages(&queue, &ids).await.into_iter().map(|message| message.claim_count);
    assert_eq!(counts.collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(subject.count(&subject.id("dead")).await, 0);
}

pub(in crate::conformance) async fn a_withdrawal_returns_only_messages_that_the_claim_still_holds(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let first = subject.claim(&queue, 2, 60).await.id;
    subject.advance(&queue, Duration::from_secs(61)).await;
    let second = subject.claim(&queue, 1, 600).await.id;

    subject.withdraw(&queue, first).await;

    assert_eq!(subject.held_by(&queue, second).await, Some(ids[..1].to_vec()));
    subject.assert_available_and_claimed(&queue, &ids[1..], &ids[..1]).await;
}

pub(in crate::conformance) async fn restored_messages_are_unchanged(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    // One of them has been claimed, which extended its life.
    let claim = subject.claim(&queue, 1, 2 * LONG_S).await.id;
    subject.store().release_claim(&queue, claim).await.expect("the store answers");
    let before = without_ages(subject.get_messages(&queue, &ids).await);

    let popped = subject.popped(&queue, 3).await;
    assert_eq!(subject.feed(&queue).await, ids[3..]);
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.feed(&queue).await, ids);
    assert_eq!(without_ages(subject.get_messages(&queue, &ids).await), before);
    assert_eq!(subject.count(&queue).await, 5);
    assert_eq!(subject.claimed_ids(&queue, 5, 60).await, ids);
}

pub(in crate::conformance) async fn restored_messages_expire_at_their_original_time(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(100, 2)).await;

    let popped = subject.popped(&queue, 2).await;
    subject.advance(&queue, Duration::from_secs(90)).await;
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.count(&queue).await, 2);
    subject.advance(&queue, Duration::from_secs(11)).await;
    assert_eq!(subject.count(&queue).await, 0);
}

pub(in crate::conformance) async fn a_withdrawn_claim_does_not_extend_its_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(60, 2)).await;
    // An earlier claim extended the life of the second message.
    let earlier = subject.claim(&queue, 2, 100).await.id;
    subject.delete_messages(&queue, &ids[..1]).await;
    subject.store().release_claim(&queue, earlier).await.expect("the store answers");
    let fresh = subject.post(&queue, &messages(60, 1)).await;
    let before = without_ages(subject.get_messages(&queue, &[ids[1], fresh[0]]).await);

    let claim = subject.claim(&queue, 2, 40_000).await.id;
    subject.renew(&queue, claim, 50_000, 60).await;
    subject.withdraw(&queue, claim).await;

    assert_eq!(without_ages(subject.get_messages(&queue, &[ids[1], fresh[0]]).await), before);
    subject.advance(&queue, Duration::from_secs(62)).await;
    assert_eq!(subject.feed(&queue).await, ids[1..]);
    subject.advance(&queue, Duration::from_secs(before[0].ttl_s.into())).await;
    assert_eq!(subject.count(&queue).await, 0);
}

pub(in crate::conformance) async fn messages_of_a_withdrawn_claim_expire_at_their_original_time(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut batch = messages(60, 1);
    batch.extend(messages(120, 1));
    let ids = subject.post(&queue, &batch).await;
    let claim = subject.claim(&queue, 2, 600).await.id;
    // A read in between has examined the expirations and seen only later ones.
    subject.advance(&queue, Duration::from_secs(62)).await;
    assert_eq!(subject.feed(&queue).await, []);

    subject.withdraw(&queue, claim).await;

    assert_eq!(subject.feed(&queue).await, ids[1..]);
    subject.advance(&queue, Duration::from_secs(60)).await;
    assert_eq!(subject.feed(&queue).await, []);
    assert_eq!(subject.count(&queue).await, 0);
}

pub(in crate::conformance) async fn nothing_is_restored_to_a_deleted_recreated_or_purged_queue(subject: &Subject) {
    for is_purged in [false, true] {
        let queue = subject.queue(if is_purged { "purged" } else { "deleted" }).await;
        subject.post(&queue, &messages(LONG_S, 2)).await;
        let popped = subject.popped(&queue, 2).await;
        if is_purged {
            subject.store().purge_queue(&queue).await.expect("the store answers");
        } else {
            subject.delete(&queue).await;
            subject.store().restore_messages(&queue, &popped).await.expect("the store answers");
            assert_eq!(subject.get(&queue).await, None);
            subject.create(&queue).await;
        }
        let own = subject.post(&queue, &messages(LONG_S, 1)).await;

        subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

        assert_eq!(subject.feed(&queue).await, own);
    }
}

pub(in crate::conformance) async fn messages_are_restored_only_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let popped = subject.popped(&queue, 2).await;
    let restore = async |popped| subject.store().restore_messages(&queue, popped).await.expect("the store answers");
    restore(&popped).await;
    restore(&popped).await;
    assert_eq!(subject.feed(&queue).await, ids);

    let again = subject.popped(&queue, 1).await;
    restore(&popped).await;
    assert_eq!(subject.feed(&queue).await, ids[1..]);

    restore(&again).await;
    assert_eq!(subject.feed(&queue).await, ids);
}
