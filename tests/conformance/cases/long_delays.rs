//! Delays of 30 days: ranks, due times and expirations are as exact as with short ones.

use std::time::Duration;

use serde_json::json;
use sukkal_domain::{MessageId, NewMessage, QueueId, Scope};
use sukkal_storage::Listing;

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, messages};

const S: Duration = Duration::from_secs(1);
const DAY_S: u32 = 86_400;
const DELAY_S: u32 = 30 * DAY_S;
const MICROS: u64 = 1_000_000;

impl Subject {
    /// Creates a queue that delays messages, and posts messages with the delay of 30 days to it.
    async fn with_long_delays(&self, ttl_s: u32, count: usize) -> (QueueId, Vec<MessageId>) {
        let queue = self.queue_of("q", json!({"_enable_message_delay": true})).await;
        let late = self.post(&queue, &delayed(DELAY_S, ttl_s, count)).await;
        (queue, late)
    }

    async fn due_in(&self, queue: &QueueId) -> Duration {
        let status = self.store().queue_status(queue).await.expect("the store answers");
        status.next_due.expect("a message is delayed")
    }
}

fn delayed(delay_s: u32, ttl_s: u32, count: usize) -> Vec<NewMessage> {
    messages(ttl_s, count).into_iter().map(|message| NewMessage { delay_s, ..message }).collect()
}

pub(in crate::conformance) async fn a_message_is_delivered_after_30_days_and_not_before(subject: &Subject) {
    let (queue, late) = subject.with_long_delays(2 * DELAY_S, 3).await;
    let early = subject.post(&queue, &delayed(DELAY_S - 10, 2 * DELAY_S, 1)).await;
    let now = subject.post(&queue, &messages(2 * DELAY_S, 1)).await;
    let due_in = subject.due_in(&queue).await;
    assert!(due_in > (DELAY_S - 60) * S && due_in <= (DELAY_S - 10) * S, "due in {due_in:?}");
    let with_delayed = Scope { claimed: false, delayed: true };
    let all = subject.page_of(&queue, &Listing { scope: with_delayed, ..Listing::first(10) }).await;
    assert_eq!(ids_of(&all.messages), [&now[..], &early, &late].concat());

    subject.advance(&queue, (DELAY_S - 60) * S).await;
    let between = subject.post(&queue, &messages(2 * DELAY_S, 1)).await;
    assert_eq!(subject.feed(&queue).await, [&now[..], &between].concat());
    assert_eq!(subject.claimed_ids(&queue, 10, 600).await, [&now[..], &between].concat());
    assert_eq!(subject.count(&queue).await, 6);
    subject.advance(&queue, 61 * S).await;

    assert_eq!(subject.feed(&queue).await, [&early[..], &late].concat());
    assert_eq!(subject.feed_after(&queue, Some(between[0])).await, [&early[..], &late].concat());
    assert_eq!(subject.claimed_ids(&queue, 10, 60).await, [&early[..], &late].concat());
}

pub(in crate::conformance) async fn a_message_that_was_delayed_for_30_days_expires_on_time(subject: &Subject) {
    let (queue, ids) = subject.with_long_delays(DELAY_S + 60, 2).await;

    subject.advance(&queue, (DELAY_S + 40) * S).await;
    let messages = subject.list(&queue, None, 10).await;
    assert_eq!(ids_of(&messages), ids);
    for message in &messages {
        assert_eq!(message.ttl_s, DELAY_S + 60);
        assert!((u64::from(DELAY_S) + 40..u64::from(DELAY_S) + 60).contains(&message.age_s), "{} s", message.age_s);
    }
    subject.advance(&queue, 22 * S).await;

    assert_eq!(subject.feed(&queue).await, []);
    assert_eq!(subject.count(&queue).await, 0);
}

pub(in crate::conformance) async fn a_claim_extends_a_message_that_was_delayed_for_30_days(subject: &Subject) {
    let (queue, ids) = subject.with_long_delays(DELAY_S + 60, 1).await;
    subject.advance(&queue, (DELAY_S + 1) * S).await;

    assert_eq!(subject.claimed_ids(&queue, 1, 600).await, ids);

    subject.advance(&queue, 590 * S).await;
    assert_eq!(subject.found(&queue, &ids).await, ids);
    subject.advance(&queue, 72 * S).await;
    assert_eq!(subject.found(&queue, &ids).await, []);
}

pub(in crate::conformance) async fn a_delay_of_30_days_keeps_its_length_when_the_clock_steps(subject: &Subject) {
    let (queue, first) = subject.with_long_delays(3 * DELAY_S, 1).await;
    subject.advance(&queue, DAY_S * S).await;
    assert_eq!(subject.feed(&queue).await, []);
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.rewind(&queue, DAY_S * S).await;
    let second = subject.post(&queue, &delayed(DELAY_S, 3 * DELAY_S, 1)).await;

    // A day has passed for the first message, and none for the second.
    let between = second[0].rank().micros() - first[0].rank().micros();
    assert!((86_400 * MICROS..86_460 * MICROS).contains(&between), "{between} µs");
    subject.advance(&queue, (DELAY_S - DAY_S - 60) * S).await;
    assert_eq!(subject.claimed_ids(&queue, 10, 60).await, []);
    subject.advance(&queue, 62 * S).await;
    assert_eq!(subject.claimed_ids(&queue, 10, 60).await, first);
    subject.advance(&queue, (DAY_S - 60) * S).await;
    assert!(!subject.feed(&queue).await.contains(&second[0]));
    subject.advance(&queue, 60 * S).await;
    assert!(subject.feed(&queue).await.contains(&second[0]));
}

pub(in crate::conformance) async fn a_recreated_queue_starts_at_the_current_time(subject: &Subject) {
    let (queue, late) = subject.with_long_delays(2 * DELAY_S, 2).await;

    subject.delete(&queue).await;
    subject.create(&queue).await;
    let ids = subject.post(&queue, &messages(LONG_S, 1)).await;

    let ahead = late[0].rank().micros() - ids[0].rank().micros();
    assert!(ahead > u64::from(DELAY_S - 60) * MICROS, "{ahead} µs");
    assert_eq!(subject.found(&queue, &late).await, []);
}
