//! Claims extend the life of messages: a message that would expire before its claim lives until the
//! claim's ttl and grace are over.

use std::time::Duration;

use sukkal_domain::{Message, MessageId, QueueId};

use super::expiry::assert_ends_between;
use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message, messages};

const SECOND_US: u64 = 1_000_000;

async fn get(subject: &Subject, queue: &QueueId, id: MessageId) -> Message {
    subject.get_messages(queue, &[id]).await.pop().expect("it is there")
}

/// Rows 7.1-14, 7.1-15, 7.1-16.
pub(in crate::conformance) async fn a_message_that_would_expire_before_its_claim_is_extended(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &[message(100, 0), message(1_000, 1)]).await;
    let posted = subject.get_messages(&queue, &ids).await;

    let claim = subject.claim_for(&queue, 2, 300, 70).await.expect("both are available");

    let ttls: Vec<_> = claim.messages.iter().map(|message| message.ttl_s).collect();
    assert_eq!(ttls, [370, 1_000]);
    assert_eq!([claim.messages[0].created_s, claim.messages[1].created_s], [posted[0].created_s; 2]);
    assert!(claim.messages[0].age_s < 5);
    // Past the old expiry, which the store has already examined; then past the claim.
    subject.advance(&queue, Duration::from_secs(110)).await;
    assert_eq!(subject.held_by(&queue, claim.id).await, Some(ids.clone()));
    subject.assert_available_and_claimed(&queue, &[], &ids).await;
    subject.advance(&queue, Duration::from_secs(200)).await;
    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
    let freed = get(subject, &queue, ids[0]).await;
    assert_eq!((freed.ttl_s, freed.created_s, freed.claim), (370, posted[0].created_s, None));
    assert!((310..320).contains(&freed.age_s), "{} s old", freed.age_s);
    subject.advance(&queue, Duration::from_secs(62)).await;
    subject.assert_available_and_claimed(&queue, &ids[1..], &[]).await;
    subject.advance(&queue, Duration::from_secs(630)).await;
    subject.assert_available_and_claimed(&queue, &[], &[]).await;
}

pub(in crate::conformance) async fn an_extended_message_expires_exactly_after_ttl_and_grace(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.post(&queue, &messages(60, 1)).await[0];
    let clock_us = async || subject.post(&queue, &messages(LONG_S, 1)).await[0].rank().micros();
    let expiry_us = |now_us: u64| (now_us.div_ceil(SECOND_US) + 300 + 60) * SECOND_US;
    let first_us = expiry_us(clock_us().await);
    subject.claim_for(&queue, 1, 300, 60).await.expect("the message is available");
    let last_us = expiry_us(clock_us().await);

    let is_gone = async || subject.found(&queue, &[id]).await.is_empty();
    assert_ends_between(subject, &queue, [first_us, last_us], is_gone).await;
}

/// Row 7.3-5.
pub(in crate::conformance) async fn a_renewal_extends_the_messages_again(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(60, 2)).await;
    let claim = subject.claim_for(&queue, 2, 100, 60).await.expect("both are available");
    assert_eq!(claim.messages[0].ttl_s, 160);
    assert_eq!(subject.delete_with_claim(&queue, ids[1], Some(claim.id)).await, sukkal_storage::DeleteOutcome::Done);

    for _ in 0..5 {
        subject.advance(&queue, Duration::from_secs(90)).await;
        assert_eq!(subject.renew(&queue, claim.id, 100, 70).await, Some(claim.fence));
        assert_eq!(get(subject, &queue, ids[0]).await.ttl_s, 170);
    }

    subject.assert_available_and_claimed(&queue, &[], &ids[..1]).await;
    subject.advance(&queue, Duration::from_secs(102)).await;
    subject.assert_available_and_claimed(&queue, &ids[..1], &[]).await;
    subject.advance(&queue, Duration::from_secs(70)).await;
    subject.assert_available_and_claimed(&queue, &[], &[]).await;
}

pub(in crate::conformance) async fn a_renewal_never_shortens_the_life_of_a_message(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(60, 1)).await;
    let claim = subject.claim_for(&queue, 1, 100, 1_000).await.expect("the message is available");

    assert_eq!(subject.renew(&queue, claim.id, 500, 0).await, Some(claim.fence));

    assert_eq!(get(subject, &queue, ids[0]).await.ttl_s, 1_100);
    subject.advance(&queue, Duration::from_secs(1_090)).await;
    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
    subject.advance(&queue, Duration::from_secs(12)).await;
    subject.assert_available_and_claimed(&queue, &[], &[]).await;
}

pub(in crate::conformance) async fn a_release_does_not_revoke_the_extension(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(60, 40)).await;
    let claim = subject.claim_for(&queue, 30, 200, 60).await.expect("they are available");

    subject.release(&queue, claim.id).await;

    subject.advance(&queue, Duration::from_secs(62)).await;
    subject.assert_available_and_claimed(&queue, &ids[..30], &[]).await;
    subject.advance(&queue, Duration::from_secs(190)).await;
    subject.assert_available_and_claimed(&queue, &ids[..30], &[]).await;
    subject.advance(&queue, Duration::from_secs(10)).await;
    subject.assert_available_and_claimed(&queue, &[], &[]).await;
}

pub(in crate::conformance) async fn short_claims_do_not_change_when_a_message_expires(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(200, 3)).await;
    let claim = subject.claim(&queue, 3, 60).await;
    subject.release(&queue, claim.id).await;
    let again = subject.claim(&queue, 1, 60).await;
    assert_eq!(again.messages[0].ttl_s, 200);
    subject.advance(&queue, Duration::from_secs(195)).await;
    assert_eq!(subject.feed(&queue).await, ids);

    subject.advance(&queue, Duration::from_secs(7)).await;

    subject.assert_available_and_claimed(&queue, &[], &[]).await;
}

pub(in crate::conformance) async fn the_next_claim_extends_the_message_again(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(60, 1)).await;

    for _ in 0..4 {
        let claim = subject.claim_for(&queue, 1, 100, 60).await.expect("the message is available");
        assert_eq!((ids_of(&claim.messages), claim.messages[0].ttl_s), (ids.clone(), 160));
        subject.advance(&queue, Duration::from_secs(110)).await;
    }

    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
    subject.advance(&queue, Duration::from_secs(52)).await;
    subject.assert_available_and_claimed(&queue, &[], &[]).await;
}
