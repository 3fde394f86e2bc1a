//! Expiry of messages: on a whole second of the store's clock, for every reader at once.
//!
//! A rank is the store's time when it is assigned. A probe is a message posted to the same queue,
//! so its rank shows that time. A read between two probes is judged by their times, so a slow
//! machine does not matter.

use std::time::Duration;

use sukkal_domain::{MessageId, NewMessage, QueueId};

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, message, messages};

const SECOND_US: u64 = 1_000_000;
/// Time before the expiry at which the reads begin, in microseconds: somewhat more than one read
/// takes.
const FIRST_READ_BEFORE_US: u64 = 30_000;

/// Returns the time of the queue's clock, and the probe that showed it.
async fn clock_us(subject: &Subject, queue: &QueueId) -> (u64, MessageId) {
    let probe = subject.post(queue, &messages(LONG_S, 1)).await[0];
    (probe.rank().micros(), probe)
}

/// Returns the time at which a message with this id and ttl expires, in microseconds.
fn expiry_us(id: MessageId, ttl_s: u32) -> u64 {
    (id.rank().micros().div_ceil(SECOND_US) + u64::from(ttl_s)) * SECOND_US
}

/// Advances the clock to shortly before a time.
async fn advance_to_shortly_before(subject: &Subject, queue: &QueueId, moment_us: u64) {
    let (now_us, _) = clock_us(subject, queue).await;
    subject.advance(queue, Duration::from_micros(moment_us - FIRST_READ_BEFORE_US - now_us)).await;
}

/// Asserts that something ends after the first and before the second of two times of the queue's
/// clock. Repeats the read from shortly before until it shows the end.
pub(in crate::conformance) async fn assert_ends_between(
    subject: &Subject,
    queue: &QueueId,
    [first_us, last_us]: [u64; 2],
    mut has_ended: impl AsyncFnMut() -> bool,
) {
    advance_to_shortly_before(subject, queue, first_us).await;
    loop {
        let (before_us, _) = clock_us(subject, queue).await;
        let is_over = has_ended().await;
        let (after_us, _) = clock_us(subject, queue).await;

        if is_over {
            assert!(after_us >= first_us, "the end is {} µs early", first_us - after_us);
            return;
        }
        assert!(before_us < last_us, "the end is {} µs late", before_us - last_us);
    }
}

pub(in crate::conformance) async fn a_message_expires_on_the_whole_second_after_its_ttl(subject: &Subject) {
    let queue = subject.queue("q").await;
    for ttl_s in [60, 61, 3_600, 1_209_600] {
        let id = subject.post(&queue, &[message(ttl_s, 0)]).await[0];
        let expiry_us = expiry_us(id, ttl_s);
        let is_gone = async || subject.found(&queue, &[id]).await.is_empty();
        assert_ends_between(subject, &queue, [expiry_us; 2], is_gone).await;
    }
}

pub(in crate::conformance) async fn lists_gets_and_counts_agree_on_expiry(subject: &Subject) {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Read {
        List,
        Get,
        Count,
    }
    // The first read must see the expiry, so each kind of read has a queue of its own.
    for read in [Read::List, Read::Get, Read::Count] {
        let queue = subject.queue(&format!("{read:?}")).await;
        let ids = subject.post(&queue, &messages(60, 40)).await;
        let expiry_us = expiry_us(ids[0], 60);
        advance_to_shortly_before(subject, &queue, expiry_us).await;

        let mut probes = 1;
        loop {
            let (before_us, _) = clock_us(subject, &queue).await;
            probes += 1;
            let left = match read {
                Read::List => subject.list(&queue, None, 40).await.iter().filter(|m| ids.contains(&m.id)).count(),
                Read::Get => subject.found(&queue, &ids).await.len(),
                Read::Count => subject.count(&queue).await - probes,
            };
            let (after_us, _) = clock_us(subject, &queue).await;
            probes += 1;

            assert!(left == 0 || left == 40, "{left} of 40 messages that expire together");
            assert!(
                left == 40 || after_us >= expiry_us,
                "{read:?}: missing {} µs before the expiry",
                expiry_us - after_us
            );
            assert!(
                left == 0 || before_us < expiry_us,
                "{read:?}: still there {} µs after the expiry",
                before_us - expiry_us
            );
            if left == 0 {
                break;
            }
        }
        assert_eq!(subject.feed(&queue).await.len(), probes);
        assert_eq!(subject.count(&queue).await, probes);
        assert_eq!(subject.found(&queue, &ids).await, []);
    }
}

pub(in crate::conformance) async fn only_expired_messages_are_removed(subject: &Subject) {
    let queue = subject.queue("q").await;
    // The ttls are interleaved, so that messages that expire together are not neighbors.
    let ttls: Vec<u32> = (0..90).map(|number| [100, 200, 300][number % 3]).collect();
    let posted: Vec<NewMessage> = ttls.iter().map(|ttl_s| message(*ttl_s, 0)).collect();
    let ids = subject.post(&queue, &posted).await;

    for ended_s in [0, 100, 200, 300] {
        let left: Vec<_> = ids.iter().zip(&ttls).filter(|(_, ttl_s)| **ttl_s > ended_s).map(|(id, _)| *id).collect();
        assert_eq!(subject.feed(&queue).await, left, "after {ended_s} s");
        assert_eq!(subject.count(&queue).await, left.len(), "after {ended_s} s");
        assert_eq!(subject.found(&queue, &ids).await, left, "after {ended_s} s");

        subject.advance(&queue, Duration::from_secs(100)).await;
        if ended_s == 0 {
            // Past the second in which the first messages expire, and far from all others.
            subject.advance(&queue, Duration::from_secs(10)).await;
        }
    }
}

pub(in crate::conformance) async fn the_first_reader_sees_three_thousand_messages_expire_together(subject: &Subject) {
    for read in 0..3 {
        let queue = subject.queue(&format!("q{read}")).await;
        let ended = subject.post(&queue, &messages(60, 3_000)).await;
        let left = subject.post(&queue, &messages(LONG_S, 3)).await;
        subject.advance(&queue, Duration::from_secs(62)).await;

        match read {
            0 => assert_eq!(ids_of(&subject.list(&queue, None, 1).await), left[..1]),
            1 => assert_eq!(subject.found(&queue, &[ended[0], ended[2_999], left[2]]).await, left[2..]),
            _ => assert_eq!(subject.count(&queue).await, 3),
        }
        assert_eq!(subject.feed(&queue).await, left);
        assert_eq!(subject.count(&queue).await, 3);
    }
}

pub(in crate::conformance) async fn expired_messages_do_not_hide_later_ones(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut left = Vec::new();
    for _ in 0..20 {
        subject.post(&queue, &messages(60, 100)).await;
        left.extend(subject.post(&queue, &messages(LONG_S, 1)).await);
    }
    subject.advance(&queue, Duration::from_secs(62)).await;

    assert_eq!(subject.pages(&queue, None, 1, None).await, left);
}

/// Row 6.2-13.
pub(in crate::conformance) async fn a_marker_keeps_its_position_when_its_message_expires(subject: &Subject) {
    let queue = subject.queue("q").await;
    let before = subject.post(&queue, &messages(LONG_S, 2)).await;
    let ended = subject.post(&queue, &messages(60, 2)).await;
    let after = subject.post(&queue, &messages(LONG_S, 2)).await;

    subject.advance(&queue, Duration::from_secs(62)).await;

    assert_eq!(subject.feed_after(&queue, Some(ended[0])).await, after);
    assert_eq!(subject.feed_after(&queue, Some(ended[1])).await, after);
    assert_eq!(subject.feed_after(&queue, Some(before[1])).await, after);
    assert_eq!(subject.feed_after(&queue, Some(before[0])).await, [&before[1..], &after].concat());
}

/// Row 6-4.
pub(in crate::conformance) async fn the_age_of_a_message_is_in_whole_seconds(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.post(&queue, &messages(LONG_S, 1)).await[0];
    let posted_s = id.rank().micros() / SECOND_US;

    for step_ms in [0, 400, 700, 59_000, 3_600_000] {
        subject.advance(&queue, Duration::from_millis(step_ms)).await;

        let (before_us, _) = clock_us(subject, &queue).await;
        let got = subject.get_messages(&queue, &[id]).await;
        let listed = subject.list(&queue, None, 1).await;
        let (after_us, _) = clock_us(subject, &queue).await;

        assert_eq!([got[0].created_s, listed[0].created_s], [posted_s; 2]);
        let possible = before_us / SECOND_US - posted_s..=after_us / SECOND_US - posted_s;
        assert!(possible.contains(&got[0].age_s), "{} is not one of {possible:?}", got[0].age_s);
        assert!(possible.contains(&listed[0].age_s), "{} is not one of {possible:?}", listed[0].age_s);
    }
}

pub(in crate::conformance) async fn deleting_an_expired_message_changes_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ended = subject.post(&queue, &messages(60, 700)).await;
    let left = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    subject.delete_messages(&queue, &ended[..1]).await;

    assert_eq!(subject.count(&queue).await, 2);
    assert_eq!(subject.feed(&queue).await, left);
}
