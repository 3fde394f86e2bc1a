//! The end of messages: on a whole second of the store's clock, for every reader at once.
//!
//! A rank is the store's time when it is given, so a probe (a message posted to the same queue) says
//! what the clock shows. A look between two probes is judged by them, however slow the machine is.

use std::time::Duration;

use sukkal::domain::{MessageId, NewMessage, QueueId};

use super::subject::{LONG_S, Subject, ids_of, message, messages};

const SECOND_US: u64 = 1_000_000;
/// How long before the end the looking begins: as long as a look takes, and somewhat more.
const EARLY_US: u64 = 30_000;

/// What the queue's clock shows, and the probe that told it.
async fn clock_us(subject: &Subject, queue: &QueueId) -> (u64, MessageId) {
    let probe = subject.post(queue, &messages(LONG_S, 1)).await[0];
    (probe.rank().micros(), probe)
}

/// When a message with that id and ttl ends.
fn end_us(id: MessageId, ttl_s: u32) -> u64 {
    (id.rank().micros().div_ceil(SECOND_US) + u64::from(ttl_s)) * SECOND_US
}

/// Moves the clock shortly before a moment.
async fn approach(subject: &Subject, queue: &QueueId, moment_us: u64) {
    let (now_us, _) = clock_us(subject, queue).await;
    subject.advance(queue, Duration::from_micros(moment_us - EARLY_US - now_us)).await;
}

pub(super) async fn a_message_ends_on_the_whole_second_after_its_ttl(subject: &Subject) {
    let queue = subject.queue("q").await;
    for ttl_s in [60, 61, 3_600, 1_209_600] {
        let id = subject.post(&queue, &[message(ttl_s, 0)]).await[0];
        let end_us = end_us(id, ttl_s);
        approach(subject, &queue, end_us).await;

        loop {
            let (before_us, _) = clock_us(subject, &queue).await;
            let found = subject.found(&queue, &[id]).await;
            let (after_us, _) = clock_us(subject, &queue).await;

            if found.is_empty() {
                assert!(after_us >= end_us, "gone {} µs early", end_us - after_us);
                break;
            }
            assert!(before_us < end_us, "there {} µs after its end", before_us - end_us);
        }
    }
}

pub(super) async fn lists_gets_and_counts_agree_about_the_end(subject: &Subject) {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Look {
        List,
        Get,
        Count,
    }
    // Whichever looks first must see it, so each has a queue where it is the only one.
    for look in [Look::List, Look::Get, Look::Count] {
        let queue = subject.queue(&format!("{look:?}")).await;
        let ids = subject.post(&queue, &messages(60, 40)).await;
        let end_us = end_us(ids[0], 60);
        approach(subject, &queue, end_us).await;

        let mut probes = 1;
        loop {
            let (before_us, _) = clock_us(subject, &queue).await;
            probes += 1;
            let left = match look {
                Look::List => subject.list(&queue, None, 40).await.iter().filter(|m| ids.contains(&m.id)).count(),
                Look::Get => subject.found(&queue, &ids).await.len(),
                Look::Count => subject.count(&queue).await - probes,
            };
            let (after_us, _) = clock_us(subject, &queue).await;
            probes += 1;

            assert!(left == 0 || left == 40, "{left} of 40 messages that end together");
            assert!(left == 40 || after_us >= end_us, "{look:?}: gone {} µs early", end_us - after_us);
            assert!(left == 0 || before_us < end_us, "{look:?}: there {} µs after the end", before_us - end_us);
            if left == 0 {
                break;
            }
        }
        assert_eq!(subject.feed(&queue).await.len(), probes);
        assert_eq!(subject.count(&queue).await, probes);
        assert_eq!(subject.found(&queue, &ids).await, []);
    }
}

pub(super) async fn only_what_has_ended_goes(subject: &Subject) {
    let queue = subject.queue("q").await;
    // Interleaved, so that what ends together does not stand together.
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
            // Past the second on which the first ones end, and far from all the others.
            subject.advance(&queue, Duration::from_secs(10)).await;
        }
    }
}

pub(super) async fn three_thousand_ends_at_once_are_one_for_the_first_reader(subject: &Subject) {
    for look in 0..3 {
        let queue = subject.queue(&format!("q{look}")).await;
        let ended = subject.post(&queue, &messages(60, 3_000)).await;
        let left = subject.post(&queue, &messages(LONG_S, 3)).await;
        subject.advance(&queue, Duration::from_secs(62)).await;

        match look {
            0 => assert_eq!(ids_of(&subject.list(&queue, None, 1).await), left[..1]),
            1 => assert_eq!(subject.found(&queue, &[ended[0], ended[2_999], left[2]]).await, left[2..]),
            _ => assert_eq!(subject.count(&queue).await, 3),
        }
        assert_eq!(subject.feed(&queue).await, left);
        assert_eq!(subject.count(&queue).await, 3);
    }
}

pub(super) async fn ended_messages_cannot_hide_those_behind_them(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut left = Vec::new();
    for _ in 0..20 {
        subject.post(&queue, &messages(60, 100)).await;
        left.extend(subject.post(&queue, &messages(LONG_S, 1)).await);
    }
    subject.advance(&queue, Duration::from_secs(62)).await;

    assert_eq!(subject.pages(&queue, None, 1, None).await, left);
}

pub(super) async fn a_marker_whose_message_has_ended_stands_where_it_stood(subject: &Subject) {
    let queue = subject.queue("q").await;
    let before = subject.post(&queue, &messages(LONG_S, 2)).await;
    let ended = subject.post(&queue, &messages(60, 2)).await;
    let behind = subject.post(&queue, &messages(LONG_S, 2)).await;

    subject.advance(&queue, Duration::from_secs(62)).await;

    assert_eq!(subject.feed_after(&queue, Some(ended[0])).await, behind);
    assert_eq!(subject.feed_after(&queue, Some(ended[1])).await, behind);
    assert_eq!(subject.feed_after(&queue, Some(before[1])).await, behind);
    assert_eq!(subject.feed_after(&queue, Some(before[0])).await, [&before[1..], &behind].concat());
}

/// Row 6-4.
pub(super) async fn the_age_of_a_message_is_counted_in_whole_seconds(subject: &Subject) {
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
        assert!(possible.contains(&got[0].age_s), "{} is not in {possible:?}", got[0].age_s);
        assert!(possible.contains(&listed[0].age_s), "{} is not in {possible:?}", listed[0].age_s);
    }
}

pub(super) async fn deleting_an_ended_message_changes_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ended = subject.post(&queue, &messages(60, 700)).await;
    let left = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    subject.delete_messages(&queue, &ended[..1]).await;

    assert_eq!(subject.count(&queue).await, 2);
    assert_eq!(subject.feed(&queue).await, left);
}
