//! Steps of the clock: the feed keeps its order even if the store's clock jumps.

use std::time::Duration;

use crate::conformance::support::subject::{LONG_S, Subject, assert_ascending, ids_of, messages};

const HOUR: Duration = Duration::from_secs(3_600);

pub(in crate::conformance) async fn posts_follow_every_marker_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut all = subject.post(&queue, &messages(LONG_S, 3)).await;

    for step in [Duration::from_micros(1), Duration::from_millis(5), HOUR, HOUR * 24 * 30] {
        let marker = all.last().copied();
        subject.rewind(&queue, step).await;
        let first = subject.post(&queue, &messages(LONG_S, 1_200)).await;
        let second = subject.post(&queue, &messages(LONG_S, 2)).await;
        let new = [first, second].concat();

        assert_eq!(subject.feed_after(&queue, marker).await, new, "after a step of {step:?}");
        all.extend(new);
        assert_ascending(&all);
    }
    // No message is lost, whatever the clock showed when it was posted.
    assert_eq!(subject.feed(&queue).await, all);
}

pub(in crate::conformance) async fn ranks_stay_ahead_after_the_clock_was_ahead(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.advance(&queue, HOUR).await;
    let ahead = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.rewind(&queue, HOUR).await;

    let back = subject.post(&queue, &messages(LONG_S, 2)).await;

    assert_eq!(subject.feed_after(&queue, Some(ahead[1])).await, back);
    assert_eq!(back[0].rank().micros(), ahead[1].rank().micros() + 1);
}

pub(in crate::conformance) async fn ranks_follow_the_clock_once_it_has_caught_up(subject: &Subject) {
    let queue = subject.queue("q").await;
    let before = subject.post(&queue, &messages(LONG_S, 1)).await[0].rank().micros();

    subject.advance(&queue, HOUR).await;

    let after = subject.post(&queue, &messages(LONG_S, 1)).await[0].rank().micros();
    let passed = Duration::from_micros(after - before);
    assert!((HOUR..HOUR * 2).contains(&passed), "{passed:?} elapsed between the ranks");
}

pub(in crate::conformance) async fn an_expired_message_stays_expired_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ended = subject.post(&queue, &messages(60, 1_300)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;
    assert_eq!(subject.count(&queue).await, 0);

    subject.rewind(&queue, Duration::from_secs(62)).await;

    assert_eq!(subject.count(&queue).await, 0);
    assert_eq!(subject.feed(&queue).await, []);
    assert_eq!(subject.found(&queue, &ended[..100]).await, []);
}

pub(in crate::conformance) async fn a_ttl_counts_from_the_clock_not_from_the_rank(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.advance(&queue, HOUR).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.rewind(&queue, HOUR).await;

    let ids = subject.post(&queue, &messages(60, 2)).await;

    let listed = subject.list(&queue, None, 3).await;
    assert_eq!(ids_of(&listed[1..]), ids);
    assert!(listed[1].age_s < 60, "{} s old at once", listed[1].age_s);
    subject.advance(&queue, Duration::from_secs(62)).await;
    assert_eq!(subject.found(&queue, &ids).await, []);
    assert_eq!(subject.count(&queue).await, 1);
}
