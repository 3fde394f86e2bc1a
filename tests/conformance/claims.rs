//! Claims: what they take, hide, show and give back, and when they are over.

use std::time::Duration;

use sukkal::domain::ClaimId;
use sukkal::storage::ClaimChange;

use super::subject::{LONG_S, Subject, client, fresh_project, ids_of, messages, queue_id};

const TTL_S: u32 = 60;
const OVER: Duration = Duration::from_secs(61);

pub(super) async fn a_claim_takes_the_oldest_free_messages(subject: &Subject) {
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

pub(super) async fn there_is_no_claim_when_nothing_is_free(subject: &Subject) {
    let queue = subject.queue("q").await;
    assert_eq!(subject.claim_for(&queue, 1, TTL_S, 60).await, None);
    assert_eq!(subject.claim_for(&subject.id("never"), 1, TTL_S, 60).await, None);
    assert_eq!(subject.get(&subject.id("never")).await, None);

    subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.claim(&queue, 2, TTL_S).await;

    assert_eq!(subject.claim_for(&queue, 1, TTL_S, 60).await, None);
}

/// Row 7.1-8.
pub(super) async fn what_has_ended_is_not_claimed(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 2_000)).await;
    let left = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    assert_eq!(subject.claimed_ids(&queue, 10, TTL_S).await, left);
}

pub(super) async fn claimed_messages_are_hidden_and_still_counted(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;

    let claim = subject.claim(&queue, 2, TTL_S).await;

    subject.assert_held(&queue, &ids[2..], &ids[..2]).await;
    let found = subject.get_messages(&queue, &ids).await;
    assert_eq!(ids_of(&found), ids);
    let holders: Vec<_> = found.iter().map(|message| message.claim).collect();
    assert_eq!(holders, [Some(claim.id), Some(claim.id), None, None, None, None]);
    assert_eq!(ids_of(&subject.pop(&queue, 10).await), ids[2..]);
    subject.assert_held(&queue, &[], &ids[..2]).await;
    assert_eq!(subject.pop(&queue, 10).await, []);
}

pub(super) async fn a_list_with_claimed_ones_is_the_feed_in_order(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut all = Vec::new();
    let mut others = Vec::new();
    for number in 0..40 {
        let ids = subject.post_as(&client(number % 2), &queue, &messages(LONG_S, 3)).await;
        others.extend(if number % 2 == 0 { ids.clone() } else { Vec::new() });
        all.extend(ids);
    }
    // Every other run of five is given back.
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
        assert_eq!(spared, others, "pages of {limit} without own ones");
    }
    let claimed: Vec<_> = claims.iter().skip(1).step_by(2).flat_map(|claim| ids_of(&claim.messages)).collect();
    let free: Vec<_> = all.iter().copied().filter(|id| !claimed.contains(id)).collect();
    subject.assert_held(&queue, &free, &claimed).await;
    assert_eq!(subject.pages(&queue, None, 1, None).await, free);
}

pub(super) async fn a_long_run_of_own_claimed_messages_hides_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post_as(&client(1), &queue, &messages(LONG_S, 1_200)).await;
    let other = subject.post_as(&client(2), &queue, &messages(LONG_S, 1)).await;
    subject.claim(&queue, 700, TTL_S).await;

    assert_eq!(subject.feed_with_claimed(&queue, 1, Some(client(1))).await, other);
}

pub(super) async fn a_released_claim_gives_back_in_the_old_places(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;
    let first = subject.claim(&queue, 2, TTL_S).await;
    let second = subject.claim(&queue, 2, TTL_S).await;

    subject.release(&queue, first.id).await;
    subject.release(&queue, first.id).await;
    subject.release(&queue, ClaimId::random()).await;
    subject.release(&subject.id("never"), second.id).await;

    subject.assert_held(&queue, &[&ids[..2], &ids[4..]].concat(), &ids[2..4]).await;
    assert_eq!(subject.get_claim(&queue, first.id).await, None);
    assert_eq!(subject.renew(&queue, first.id, TTL_S, 60).await, ClaimChange::Gone);
    assert_eq!(subject.get_messages(&queue, &ids[..1]).await[0].claim, None);
    assert_eq!(subject.claimed_ids(&queue, 3, TTL_S).await, [ids[0], ids[1], ids[4]]);
    // The second release of what somebody else has claimed since takes nothing away.
    subject.release(&queue, first.id).await;
    assert_eq!(subject.feed(&queue).await, ids[5..]);
}

pub(super) async fn an_expired_claim_gives_back_in_the_old_places(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 6)).await;
    let short = subject.claim(&queue, 2, TTL_S).await;
    let long = subject.claim(&queue, 2, 200).await;
    subject.assert_held(&queue, &ids[4..], &ids[..4]).await;

    subject.advance(&queue, OVER).await;

    assert_eq!(subject.get_claim(&queue, short.id).await, None);
    assert_eq!(subject.renew(&queue, short.id, TTL_S, 60).await, ClaimChange::Gone);
    assert_eq!(subject.held_by(&queue, long.id).await, Some(ids[2..4].to_vec()));
    subject.assert_held(&queue, &[&ids[..2], &ids[4..]].concat(), &ids[2..4]).await;
    assert_eq!(subject.claimed_ids(&queue, 10, TTL_S).await, [ids[0], ids[1], ids[4], ids[5]]);
    // Its end is no end of the next holder's.
    subject.release(&queue, short.id).await;
    assert_eq!(subject.feed(&queue).await, []);
}

/// Row 7.4-4.
pub(super) async fn a_claim_is_over_exactly_at_its_end(subject: &Subject) {
    let queue = subject.queue("q").await;
    let claimed = subject.post(&queue, &messages(LONG_S, 3)).await;
    let clock_us = async || subject.post(&queue, &messages(LONG_S, 1)).await[0].rank().micros();
    let before_us = clock_us().await;
    let claim = subject.claim(&queue, 3, TTL_S).await;
    assert_eq!(ids_of(&claim.messages), claimed);
    // It began between two looks at the clock, and so it ends.
    let first_us = before_us + u64::from(TTL_S) * 1_000_000;
    let last_us = clock_us().await + u64::from(TTL_S) * 1_000_000;
    let now_us = clock_us().await;
    subject.advance(&queue, Duration::from_micros(first_us - 30_000 - now_us)).await;

    let mut looks = 0;
    loop {
        let before_us = clock_us().await;
        let over = if looks % 2 == 0 {
            subject.get_claim(&queue, claim.id).await.is_none()
        } else {
            subject.list(&queue, None, 1).await[0].id == claimed[0]
        };
        let after_us = clock_us().await;
        looks += 1;

        if over {
            assert!(after_us >= first_us, "over {} µs early", first_us - after_us);
            return;
        }
        assert!(before_us < last_us, "live {} µs after its end", before_us - last_us);
    }
}

pub(super) async fn a_renewed_claim_begins_anew(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    let claim = subject.claim(&queue, 3, TTL_S).await;
    subject.advance(&queue, Duration::from_secs(50)).await;
    let aged = subject.get_claim(&queue, claim.id).await.expect("it is live");
    assert!((50..55).contains(&aged.age_s), "{} s old", aged.age_s);
    assert_eq!(subject.acknowledge(&queue, ids[1], Some(claim.id)).await, sukkal::storage::Deletion::Done);

    assert_eq!(subject.renew(&queue, claim.id, 100, 60).await, ClaimChange::Done);

    let renewed = subject.get_claim(&queue, claim.id).await.expect("it is live");
    assert_eq!((renewed.ttl_s, ids_of(&renewed.messages)), (100, vec![ids[0], ids[2]]));
    assert!(renewed.age_s < 5, "{} s old", renewed.age_s);
    subject.advance(&queue, Duration::from_secs(90)).await;
    subject.assert_held(&queue, &ids[3..], &[ids[0], ids[2]]).await;
    subject.advance(&queue, Duration::from_secs(11)).await;
    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_held(&queue, &[ids[0], ids[2], ids[3]], &[]).await;
}

pub(super) async fn a_renewal_may_make_a_claim_shorter(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, 1_000).await;

    assert_eq!(subject.renew(&queue, claim.id, TTL_S, 60).await, ClaimChange::Done);
    subject.advance(&queue, OVER).await;

    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_held(&queue, &ids, &[]).await;
}

pub(super) async fn a_claim_shows_only_what_is_left_of_it(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    let claim = subject.claim(&queue, 4, TTL_S).await;

    subject.delete_messages(&queue, &ids[1..3]).await;
    assert_eq!(subject.held_by(&queue, claim.id).await, Some(vec![ids[0], ids[3]]));
    subject.assert_held(&queue, &[], &[ids[0], ids[3]]).await;
    subject.delete_messages(&queue, &ids).await;

    assert_eq!(subject.held_by(&queue, claim.id).await, Some(Vec::new()));
    assert_eq!(subject.renew(&queue, claim.id, TTL_S, 60).await, ClaimChange::Done);
    subject.assert_held(&queue, &[], &[]).await;
    subject.advance(&queue, OVER).await;
    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_held(&queue, &[], &[]).await;
}

pub(super) async fn a_claim_opens_nothing_in_another_queue_or_project(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 2, TTL_S).await;

    for other in [subject.queue("other").await, queue_id(&fresh_project(), "q")] {
        assert_eq!(subject.get_claim(&other, claim.id).await, None);
        assert_eq!(subject.renew(&other, claim.id, 1_000, 60).await, ClaimChange::Gone);
        subject.release(&other, claim.id).await;
        subject.acknowledge(&other, ids[0], Some(claim.id)).await;
        subject.delete_claimed(&other, &ids, &[claim.id]).await;
    }

    assert_eq!(subject.held_by(&queue, claim.id).await, Some(ids.clone()));
    subject.advance(&queue, OVER).await;
    assert_eq!(subject.feed(&queue).await, ids);
}

pub(super) async fn a_deleted_queue_takes_its_claims_along(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let claim = subject.claim(&queue, 2, TTL_S).await;

    subject.delete(&queue).await;

    for again in [false, true] {
        assert_eq!(subject.get_claim(&queue, claim.id).await, None, "created again: {again}");
        assert_eq!(subject.renew(&queue, claim.id, TTL_S, 60).await, ClaimChange::Gone, "created again: {again}");
        if !again {
            subject.create(&queue).await;
        }
    }
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.release(&queue, claim.id).await;
    subject.advance(&queue, OVER).await;
    subject.assert_held(&queue, &ids, &[]).await;
}

pub(super) async fn a_thousand_claims_that_end_at_once_come_back_for_the_first_reader(subject: &Subject) {
    for look in 0..4 {
        let queue = subject.queue(&format!("q{look}")).await;
        let ids = subject.post(&queue, &messages(LONG_S, 1_000)).await;
        for _ in 0..1_000 {
            subject.claim(&queue, 1, TTL_S).await;
        }
        subject.advance(&queue, Duration::from_secs(120)).await;

        match look {
            0 => assert_eq!(subject.stats(&queue).await.claimed, 0),
            1 => assert_eq!(ids_of(&subject.list(&queue, None, 1_000).await), ids),
            2 => assert_eq!(subject.claimed_ids(&queue, 1_000, TTL_S).await, ids),
            _ => assert_eq!(ids_of(&subject.pop(&queue, 1_000).await), ids),
        }
    }
}

pub(super) async fn a_thousand_are_claimed_at_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(61, 1_500)).await;

    let claim = subject.claim(&queue, 1_000, 100).await;

    assert_eq!(ids_of(&claim.messages), ids[..1_000]);
    assert_eq!(subject.renew(&queue, claim.id, 200, 60).await, ClaimChange::Done);
    assert_eq!(subject.held_by(&queue, claim.id).await, Some(ids[..1_000].to_vec()));
    subject.advance(&queue, Duration::from_secs(64)).await;
    subject.assert_held(&queue, &[], &ids[..1_000]).await;
    subject.release(&queue, claim.id).await;
    subject.assert_held(&queue, &ids[..1_000], &[]).await;
}

pub(super) async fn two_thousand_claimed_ahead_hide_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2_010)).await;
    for _ in 0..100 {
        subject.claim(&queue, 20, TTL_S).await;
    }

    assert_eq!(subject.claimed_ids(&queue, 5, TTL_S).await, ids[2_000..2_005]);
    assert_eq!(ids_of(&subject.list(&queue, None, 3).await), ids[2_005..2_008]);
    assert_eq!(ids_of(&subject.pop(&queue, 2).await), ids[2_005..2_007]);
}

pub(super) async fn a_clock_that_steps_back_leaves_a_claim_live(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 4)).await;
    let claim = subject.claim(&queue, 2, TTL_S).await;

    subject.rewind(&queue, Duration::from_secs(100)).await;

    let shown = subject.get_claim(&queue, claim.id).await.expect("it is live");
    assert_eq!((shown.age_s, ids_of(&shown.messages)), (0, ids[..2].to_vec()));
    subject.assert_held(&queue, &ids[2..], &ids[..2]).await;
    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, ids[2..3]);
    // A renewal counts from the clock as it is.
    assert_eq!(subject.renew(&queue, claim.id, TTL_S, 60).await, ClaimChange::Done);
    subject.advance(&queue, OVER).await;
    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_held(&queue, &ids, &[]).await;
}

pub(super) async fn a_claim_that_was_seen_to_end_does_not_come_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 2, TTL_S).await;
    subject.advance(&queue, OVER).await;
    assert_eq!(subject.get_claim(&queue, claim.id).await, None);

    subject.rewind(&queue, OVER).await;

    assert_eq!(subject.get_claim(&queue, claim.id).await, None);
    subject.assert_held(&queue, &ids, &[]).await;
}
