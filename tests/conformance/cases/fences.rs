//! Fences: each claim of a queue has a higher one than all claims before it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sukkal_domain::Fence;

use crate::conformance::support::subject::{LONG_S, Subject, messages};

const TTL_S: u32 = 60;
const STEP_BACK: Duration = Duration::from_secs(3_600);

fn assert_rising(fences: &[Fence]) {
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{fences:?}");
}

pub(in crate::conformance) async fn the_fence_of_a_claim_is_the_time_or_follows_the_last_one(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 4)).await;
    let early = SystemTime::now() - Duration::from_secs(600);
    let early_us = early.duration_since(UNIX_EPOCH).expect("it is after 1970").as_micros();
    let early_us = u64::try_from(early_us).expect("it fits");

    let first = subject.claim(&queue, 1, TTL_S).await.fence;
    subject.advance(&queue, STEP_BACK).await;
    let second = subject.claim(&queue, 1, TTL_S).await.fence;
    subject.rewind(&queue, STEP_BACK).await;
    let third = subject.claim(&queue, 1, TTL_S).await.fence;

    assert!((early_us..early_us + 1_200_000_000).contains(&first.0), "{first} is not the time");
    assert!(second.0 >= first.0 + 3_600_000_000, "{second} is not the time, {first} µs was an hour ago");
    assert_eq!(third, Fence(second.0 + 1));
}

pub(in crate::conformance) async fn a_claim_keeps_its_fence(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 1, TTL_S).await;
    let later = subject.claim(&queue, 1, TTL_S).await;
    assert_rising(&[claim.fence, later.fence]);

    for _ in 0..2 {
        assert_eq!(subject.renew(&queue, claim.id, 100, 60).await, Some(claim.fence));
        assert_eq!(subject.get_claim(&queue, claim.id).await.map(|shown| shown.fence), Some(claim.fence));
    }
    subject.release(&queue, claim.id).await;

    assert_eq!(subject.renew(&queue, claim.id, 100, 60).await, None);
    let again = subject.claim(&queue, 1, TTL_S).await;
    assert_rising(&[later.fence, again.fence]);
}

pub(in crate::conformance) async fn fences_rise_after_a_purge_and_in_a_recreated_queue(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.advance(&queue, STEP_BACK).await;
    subject.post(&queue, &messages(LONG_S, 40)).await;
    let mut fences = Vec::new();
    for _ in 0..20 {
        fences.push(subject.claim(&queue, 1, TTL_S).await.fence);
    }
    subject.rewind(&queue, STEP_BACK).await;

    for ends_with_deletion in [false, true, true, false] {
        subject.store().purge_queue(&queue).await.expect("the store answers");
        if ends_with_deletion {
            subject.delete(&queue).await;
            subject.create(&queue).await;
        }
        subject.post(&queue, &messages(LONG_S, 1)).await;
        fences.push(subject.claim(&queue, 1, TTL_S).await.fence);
    }

    assert_rising(&fences);
}
