//! Claims: which messages they take, hide, show and return, and when they expire.

use std::time::Duration;

use sukkal_domain::ClaimId;
use sukkal_storage::ClaimOutcome;

use super::expiry::assert_ends_between;
use crate::conformance::support::subject::{LONG_S, Subject, client, fresh_project, ids_of, messages, queue_id};

const TTL_S: u32 = 60;
const OVER: Duration = Duration::from_secs(61);

/// Row 7.1-7.
pub(in crate::conformance) async fn a_claim_takes_the_oldest_available_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 10)).await;

    let first = subject.claim(&queue, 3, TTL_S).await;
    let second = subject.claim(&queue, 4, 70).await;
    let third = subject.claim(&queue, 100, TTL_S).await;

    assert_eq!(ids_of(&first.messages), ids[..3]);
    assert_eq!(ids_of(&second.messages), ids[3..7]);
    assert_eq!(ids_of(&third.messages), ids[7..]);
    assert_eq!((first.ttl_s, second.ttl_s), (TTL_S, 70));
    assert!(first.age_s <= 5 && first.id != second.id);
    let bodies: Vec<_> = first.messages.iter().map(|message| message.body.clone()).collect();
    assert_eq!(bodies, messages(LONG_S, 3).into_iter().map(|message| message.body).collect::<Vec<_>>());
}

pub(in crate::conformance) async fn no_claim_is_created_when_no_message_is_available(subject: &Subject) {
    let queue = subject.queue("q").await;
    assert_eq!(subject.claim_for(&queue, 1, TTL_S, 60).await, None);
    assert_eq!(subject.claim_for(&subject.id("never"), 1, TTL_S, 60).await, None);
    assert_eq!(subject.get(&subject.id("never")).await, None);

    subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.claim(&queue, 2, TTL_S).await;

    assert_eq!(subject.claim_for(&queue, 1, TTL_S, 60).await, None);
}

/// Row 7.1-8.
pub(in crate::conformance) async fn expired_messages_are_not_claimed(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 2_000)).await;
    let left = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    assert_eq!(subject.claimed_ids(&queue, 10, TTL_S).await, left);
}

pub(in crate::conformance) async fn claimed_messages_are_hidden_and_still_counted(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;

    let claim = subject.claim(&queue, 2, TTL_S).await;

    subject.assert_available_and_claimed(&queue, &ids[2..], &ids[..2]).await;
    let found = subject.get_messages(&queue, &ids).await;
    assert_eq!(ids_of(&found), ids);
    let holders: Vec<_> = found.iter().map(|message| message.claim).collect();
    assert_eq!(holders, [Some(claim.id), Some(claim.id), None, None, None, None]);
    assert_eq!(ids_of(&subject.pop(&queue, 10).await), ids[2..]);
    subject.assert_available_and_claimed(&queue, &[], &ids[..2]).await;
    assert_eq!(subject.pop(&queue, 10).await, []);
}

pub(in crate::conformance) async fn a_list_that_includes_claimed_messages_is_in_feed_order(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut all = Vec::new();
    let mut others = Vec::new();
    for number in 0..40 {
        let ids = subject.post_as(&client(number % 2), &queue, &messages(LONG_S, 3)).await;
        others.extend(if number % 2 == 0 { ids.clone() } else { Vec::new() });
        all.extend(ids);
    }
    // Every other run of five is returned.
    let mut claims = Vec::new();
    for _ in 0..22 {
        claims.push(subject.claim(&queue, 5, TTL_S).await);
    }
    for claim in claims.iter().step_by(2) {
        subject.release(&queue, claim.id).await;
    }

    for limit in [1, 2, 7, 49, 50, 51, 120, 1_000] {
        assert_eq!(subject.feed_with_claimed(&queue, limit, None).await, all, "pages of {limit}");
        let spared = subject.feed_with_claimed(&queue, limit, Some(client(1))).await;
        assert_eq!(spared, others, "pages of {limit} without excluded messages");
    }
    let claimed: Vec<_> = claims.iter().skip(1).step_by(2).flat_map(|claim| ids_of(&claim.messages)).collect();
    let free: Vec<_> = all.iter().copied().filter(|id| !claimed.contains(id)).collect();
    subject.assert_available_and_claimed(&queue, &free, &claimed).await;
    assert_eq!(subject.pages(&queue, None, 1, None).await, free);
}

pub(in crate::conformance) async fn many_own_claimed_messages_do_not_hide_later_ones(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post_as(&client(1), &queue, &messages(LONG_S, 1_200)).await;
    let other = subject.post_as(&client(2), &queue, &messages(LONG_S, 1)).await;
    subject.claim(&queue, 700, TTL_S).await;

    assert_eq!(subject.feed_with_claimed(&queue, 1, Some(client(1))).await, other);
}

/// Rows 6-3, 7.4-2.
pub(in crate::conformance) async fn a_released_claim_returns_its_messages_at_their_old_positions(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;
    let first = subject.claim(&queue, 2, TTL_S).await;
    let second = subject.claim(&queue, 2, TTL_S).await;

    subject.release(&queue, first.id).await;
    subject.release(&queue, first.id).await;
    subject.release(&queue, ClaimId::random()).await;
    subject.release(&subject.id("never"), second.id).await;

    subject.assert_available_and_claimed(&queue, &[&ids[..2], &ids[4..]].concat(), &ids[2..4]).await;
    assert_eq!(subject.get_claim(&queue, first.id).await, None);
    assert_eq!(subject.renew(&queue, first.id, TTL_S, 60).await, None);
    assert_eq!(subject.get_messages(&queue, &ids[..1]).await[0].claim, None);
    assert_eq!(subject.claimed_ids(&queue, 3, TTL_S).await, [ids[0], ids[1], ids[4]]);
    // A second release of the same claim does not take messages from their new holder.
    subject.release(&queue, first.id).await;
    assert_eq!(subject.feed(&queue).await, ids[5..]);
}

/// Rows 7.2-5, 7.3-6, 7.4-4.
pub(in crate::conformance) async fn an_expired_claim_returns_its_messages_at_their_old_positions(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;
    let short = subject.claim(&queue, 2, TTL_S).await;
    let long = subject.claim(&queue, 2, 200).await;
    subject.assert_available_and_claimed(&queue, &ids[4..], &ids[..4]).await;

    subject.advance(&queue, OVER).await;

    assert_eq!(subject.get_claim(&queue, short.id).await, None);
    assert_eq!(subject.renew(&queue, short.id, TTL_S, 60).await, None);
    assert_eq!(subject.held_by(&queue, long.id).await, Some(ids[2..4].to_vec()));
    subject.assert_available_and_claimed(&queue, &[&ids[..2], &ids[4..]].concat(), &ids[2..4]).await;
    assert_eq!(subject.claimed_ids(&queue, 10, TTL_S).await, [ids[0], ids[1], ids[4], ids[5]]);
    // Releasing the expired claim does not take the messages from the next holder.
    subject.release(&queue, short.id).await;
    assert_eq!(subject.feed(&queue).await, []);
}

/// Row 7.4-4.
pub(in crate::conformance) async fn a_claim_expires_exactly_after_its_ttl(subject: &Subject) {
    let queue = subject.queue("q").await;
    let claimed = subject.post(&queue, &messages(LONG_S, 3)).await;
    let clock_us = async || subject.post(&queue, &messages(LONG_S, 1)).await[0].rank().micros();
    let before_us = clock_us().await;
    let claim = subject.claim(&queue, 3, TTL_S).await;
    assert_eq!(ids_of(&claim.messages), claimed);
    // The claim began between the two reads of the clock, and so it expires between their sums.
    let first_us = before_us + u64::from(TTL_S) * 1_000_000;
    let last_us = clock_us().await + u64::from(TTL_S) * 1_000_000;
    let mut reads = 0;
    let is_over = async || {
        reads += 1;
        if reads % 2 == 0 {
            subject.get_claim(&queue, claim.id).await.is_none()
        } else {
            subject.list(&queue, None, 1).await[0].id == claimed[0]
        }
    };
    assert_ends_between(subject, &queue, [first_us, last_us], is_over).await;
}

pub(in crate::conformance) async fn a_renewal_restarts_the_ttl_and_the_age(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    let claim = subject.claim(&queue, 3, TTL_S).await;
    subject.advance(&queue, Duration::from_secs(50)).await;
    let aged = subject.get_claim(&queue, claim.id).await.expect("it is live");
    assert!((50..55).contains(&aged.age_s), "{} s old", aged.age_s);
    assert_eq!(subject.delete_with_claim(&queue, ids[1], Some(claim.id)).await, sukkal_storage::DeleteOutcome::Done);

    assert_eq!(subject.renew(&queue, claim.id, 100, 60).await, Some(claim.fence));

    let renewed = subject.get_claim(&queue, claim.id).await.expect("it is live");
    assert_eq!((renewed.ttl_s, ids_of(&renewed.messages)), (100, vec![ids[0], ids[2]]));
    assert!(renewed.age_s < 5, "{} s old", renewed.age_s);
    subject.advance(&queue, Duration::from_secs(90)).await;
    subject.assert_available_and_claimed(&queue, &ids[3..], &[ids[0], ids[2]]).await;
    subject.advance(&queue, Duration::from_secs(11)).await;
    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_available_and_claimed(&queue, &[ids[0], ids[2], ids[3]], &[]).await;
}

pub(in crate::conformance) async fn a_renewal_can_shorten_a_claim(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, 1_000).await;

    assert_eq!(subject.renew(&queue, claim.id, TTL_S, 60).await, Some(claim.fence));
    subject.advance(&queue, OVER).await;

    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
}

/// Row 7.2-2.
pub(in crate::conformance) async fn a_claim_ends_with_the_last_message_that_it_holds(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    let claim = subject.claim(&queue, 4, TTL_S).await;

    subject.delete_messages(&queue, &ids[1..3]).await;
    assert_eq!(subject.held_by(&queue, claim.id).await, Some(vec![ids[0], ids[3]]));
    subject.assert_available_and_claimed(&queue, &[], &[ids[0], ids[3]]).await;
    subject.delete_with_claim(&queue, ids[0], Some(claim.id)).await;
    let returned = subject.store().return_message(&queue, claim.id, ids[3], 0).await;
    assert_eq!(returned, Ok(ClaimOutcome::Done));

    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    assert_eq!(subject.live_claims(&queue, 20).await, []);
    assert_eq!(subject.renew(&queue, claim.id, TTL_S, 60).await, None);
    subject.assert_available_and_claimed(&queue, &ids[3..], &[]).await;
}

pub(in crate::conformance) async fn a_claim_id_is_valid_only_in_its_own_queue_and_project(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 2, TTL_S).await;

    for other in [subject.queue("other").await, queue_id(&fresh_project(), "q")] {
        assert_eq!(subject.get_claim(&other, claim.id).await, None);
        assert_eq!(subject.renew(&other, claim.id, 1_000, 60).await, None);
        subject.release(&other, claim.id).await;
        subject.delete_with_claim(&other, ids[0], Some(claim.id)).await;
        subject.delete_claimed(&other, &ids, &[claim.id]).await;
    }

    assert_eq!(subject.held_by(&queue, claim.id).await, Some(ids.clone()));
    subject.advance(&queue, OVER).await;
    assert_eq!(subject.feed(&queue).await, ids);
}

/// Rows 4.5-4, 7.2-5, 7.3-6.
pub(in crate::conformance) async fn deleting_a_queue_deletes_its_claims(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let claim = subject.claim(&queue, 2, TTL_S).await;

    subject.delete(&queue).await;

    for again in [false, true] {
        assert_eq!(subject.get_claim(&queue, claim.id).await, None, "created again: {again}");
        assert_eq!(subject.renew(&queue, claim.id, TTL_S, 60).await, None, "created again: {again}");
        if !again {
            subject.create(&queue).await;
        }
    }
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.release(&queue, claim.id).await;
    subject.advance(&queue, OVER).await;
    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
}

pub(in crate::conformance) async fn a_thousand_claims_that_expire_together_are_all_returned_to_the_next_reader(
    subject: &Subject,
) {
    for number in 0..4 {
        let queue = subject.queue(&format!("q{number}")).await;
        let ids = subject.post(&queue, &messages(LONG_S, 1_000)).await;
        for _ in 0..1_000 {
            subject.claim(&queue, 1, TTL_S).await;
        }
        subject.advance(&queue, Duration::from_secs(120)).await;

        match number {
            0 => assert_eq!(subject.stats(&queue).await.claimed, 0),
            1 => assert_eq!(ids_of(&subject.list(&queue, None, 1_000).await), ids),
            2 => assert_eq!(subject.claimed_ids(&queue, 1_000, TTL_S).await, ids),
            _ => assert_eq!(ids_of(&subject.pop(&queue, 1_000).await), ids),
        }
    }
}

pub(in crate::conformance) async fn a_claim_can_hold_a_thousand_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(61, 1_500)).await;

    let claim = subject.claim(&queue, 1_000, 100).await;

    assert_eq!(ids_of(&claim.messages), ids[..1_000]);
    assert_eq!(subject.renew(&queue, claim.id, 200, 60).await, Some(claim.fence));
    assert_eq!(subject.held_by(&queue, claim.id).await, Some(ids[..1_000].to_vec()));
    subject.advance(&queue, Duration::from_secs(64)).await;
    subject.assert_available_and_claimed(&queue, &[], &ids[..1_000]).await;
    subject.release(&queue, claim.id).await;
    subject.assert_available_and_claimed(&queue, &ids[..1_000], &[]).await;
}

pub(in crate::conformance) async fn two_thousand_claimed_messages_do_not_hide_later_ones(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2_010)).await;
    for _ in 0..100 {
        subject.claim(&queue, 20, TTL_S).await;
    }

    assert_eq!(subject.claimed_ids(&queue, 5, TTL_S).await, ids[2_000..2_005]);
    assert_eq!(ids_of(&subject.list(&queue, None, 3).await), ids[2_005..2_008]);
    assert_eq!(ids_of(&subject.pop(&queue, 2).await), ids[2_005..2_007]);
}

pub(in crate::conformance) async fn a_claim_stays_live_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    let claim = subject.claim(&queue, 2, TTL_S).await;

    subject.rewind(&queue, Duration::from_secs(100)).await;

    let shown = subject.get_claim(&queue, claim.id).await.expect("it is live");
    assert_eq!((shown.age_s, ids_of(&shown.messages)), (0, ids[..2].to_vec()));
    subject.assert_available_and_claimed(&queue, &ids[2..], &ids[..2]).await;
    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, ids[2..3]);
    // A renewal counts from the current time of the clock.
    assert_eq!(subject.renew(&queue, claim.id, TTL_S, 60).await, Some(claim.fence));
    subject.advance(&queue, OVER).await;
    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
}

pub(in crate::conformance) async fn an_expired_claim_stays_expired_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 2, TTL_S).await;
    subject.advance(&queue, OVER).await;
    assert_eq!(subject.get_claim(&queue, claim.id).await, None);

    subject.rewind(&queue, OVER).await;

    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_available_and_claimed(&queue, &ids, &[]).await;
}
