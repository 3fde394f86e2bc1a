//! Taking back what reached nobody: claims are withdrawn, popped messages restored.

use std::time::Duration;

use serde_json::json;
use sukkal::domain::{ClaimId, QueueId};

use super::subject::{LONG_S, Subject, ids_of, messages, metadata};

impl Subject {
    async fn withdraw(&self, queue: &QueueId, claim: ClaimId) {
        self.store().withdraw_claim(queue, claim).await.expect("the store answers");
    }
}

pub(super) async fn a_withdrawn_claim_never_was(subject: &Subject) {
    let queue = subject.queue("q").await;
    let seen = subject.revision(&queue).await;
    let letters = metadata(json!({ "_dead_letter_queue": "dead", "_max_claim_count": 2 }));
    subject.store().update_queue(&queue, seen, &letters).await.expect("the store answers");
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;

    for _ in 0..5 {
        let claim = subject.claim(&queue, 2, 600).await;
        assert_eq!(ids_of(&claim.messages), ids[..2]);
        subject.withdraw(&queue, claim.id).await;
        subject.withdraw(&queue, claim.id).await;
        assert_eq!(subject.held_by(&queue, claim.id).await, None);
        subject.assert_held(&queue, &ids, &[]).await;
    }

    let counts = subject.get_messages(&queue, &ids).await.into_iter().map(|message| message.claim_count);
    assert_eq!(counts.collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(subject.count(&subject.id("dead")).await, 0);
}

pub(super) async fn only_what_a_claim_still_holds_is_withdrawn(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let first = subject.claim(&queue, 2, 60).await.id;
    subject.advance(&queue, Duration::from_secs(61)).await;
    let second = subject.claim(&queue, 1, 600).await.id;

    subject.withdraw(&queue, first).await;

    assert_eq!(subject.held_by(&queue, second).await, Some(ids[..1].to_vec()));
    subject.assert_held(&queue, &ids[1..], &ids[..1]).await;
}

pub(super) async fn restored_messages_are_as_they_were(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 5)).await;
    // One of them has been claimed, and lives longer for it.
    let claim = subject.claim(&queue, 1, 2 * LONG_S).await.id;
    subject.store().release_claim(&queue, claim).await.expect("the store answers");
    let before = subject.get_messages(&queue, &ids).await;

    let popped = subject.store().pop_messages(&queue, 3).await.expect("the store answers");
    assert_eq!(subject.feed(&queue).await, ids[3..]);
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.feed(&queue).await, ids);
    assert_eq!(subject.get_messages(&queue, &ids).await, before);
    assert_eq!(subject.count(&queue).await, 5);
    assert_eq!(subject.claimed_ids(&queue, 5, 60).await, ids);
}

pub(super) async fn restored_messages_end_when_they_would_have(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(100, 2)).await;

    let popped = subject.store().pop_messages(&queue, 2).await.expect("the store answers");
    subject.advance(&queue, Duration::from_secs(90)).await;
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.count(&queue).await, 2);
    subject.advance(&queue, Duration::from_secs(11)).await;
    assert_eq!(subject.count(&queue).await, 0);
}

pub(super) async fn nothing_is_restored_to_a_queue_that_is_gone(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 2)).await;

    let popped = subject.store().pop_messages(&queue, 2).await.expect("the store answers");
    subject.delete(&queue).await;
    subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

    assert_eq!(subject.get(&queue).await, None);
    assert_eq!(subject.feed(&queue).await, []);
}

pub(super) async fn a_withdrawn_claim_prolongs_no_life(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(60, 2)).await;
    // The second one lives longer for a claim before.
    let earlier = subject.claim(&queue, 2, 100).await.id;
    subject.delete_messages(&queue, &ids[..1]).await;
    subject.store().release_claim(&queue, earlier).await.expect("the store answers");
    let fresh = subject.post(&queue, &messages(60, 1)).await;
    let before = subject.get_messages(&queue, &[ids[1], fresh[0]]).await;

    let claim = subject.claim(&queue, 2, 40_000).await.id;
    subject.renew(&queue, claim, 50_000, 60).await;
    subject.withdraw(&queue, claim).await;

    assert_eq!(subject.get_messages(&queue, &[ids[1], fresh[0]]).await, before);
    subject.advance(&queue, Duration::from_secs(62)).await;
    assert_eq!(subject.feed(&queue).await, ids[1..]);
    subject.advance(&queue, Duration::from_secs(before[0].ttl_s.into())).await;
    assert_eq!(subject.count(&queue).await, 0);
}

pub(super) async fn what_a_withdrawn_claim_prolonged_ends_when_it_would_have(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut batch = messages(60, 1);
    batch.extend(messages(120, 1));
    let ids = subject.post(&queue, &batch).await;
    let claim = subject.claim(&queue, 2, 600).await.id;
    // Somebody has looked for what ends meanwhile, and seen the later ends.
    subject.advance(&queue, Duration::from_secs(62)).await;
    assert_eq!(subject.feed(&queue).await, []);

    subject.withdraw(&queue, claim).await;

    assert_eq!(subject.feed(&queue).await, ids[1..]);
    subject.advance(&queue, Duration::from_secs(60)).await;
    assert_eq!(subject.feed(&queue).await, []);
    assert_eq!(subject.count(&queue).await, 0);
}

pub(super) async fn nothing_is_restored_to_a_successor_or_after_a_purge(subject: &Subject) {
    for is_purged in [false, true] {
        let queue = subject.queue(if is_purged { "purged" } else { "deleted" }).await;
        subject.post(&queue, &messages(LONG_S, 2)).await;
        let popped = subject.store().pop_messages(&queue, 2).await.expect("the store answers");
        if is_purged {
            subject.store().purge_messages(&queue).await.expect("the store answers");
        } else {
            subject.delete(&queue).await;
            subject.create(&queue).await;
        }
        let own = subject.post(&queue, &messages(LONG_S, 1)).await;

        subject.store().restore_messages(&queue, &popped).await.expect("the store answers");

        assert_eq!(subject.feed(&queue).await, own);
    }
}

pub(super) async fn a_restoration_happens_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let popped = subject.store().pop_messages(&queue, 2).await.expect("the store answers");
    let restore = async |popped| subject.store().restore_messages(&queue, popped).await.expect("the store answers");
    restore(&popped).await;
    restore(&popped).await;
    assert_eq!(subject.feed(&queue).await, ids);

    let again = subject.store().pop_messages(&queue, 1).await.expect("the store answers");
    restore(&popped).await;
    assert_eq!(subject.feed(&queue).await, ids[1..]);

    restore(&again).await;
    assert_eq!(subject.feed(&queue).await, ids);
}
