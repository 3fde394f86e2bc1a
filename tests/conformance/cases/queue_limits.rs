//! Limits of what a queue may have: exact, because they are applied in the same step as the post.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use sukkal_domain::{Creation, IdempotencyKey, MessageId, NewMessage, QueueId, QueueLimits, Quota};
use sukkal_storage::{Post, PostOutcome, stored_bytes};

use super::redrives::all_to;
use crate::conformance::support::subject::{LONG_S, Subject, body, client, message, messages, metadata};
use support::calls::plain_post;

const OK: &str = "the store answers";
const MANY: usize = 64;

/// Returns limits with this maximum number of messages.
fn at_most(messages: u64) -> QueueLimits {
    QueueLimits { messages: Some(messages), bytes: None }
}

/// Returns limits with this maximum number of bytes.
fn at_most_bytes(bytes: u64) -> QueueLimits {
    QueueLimits { messages: None, bytes: Some(bytes) }
}

/// Returns a message whose body is a text of this length, and its size.
fn sized(length: usize) -> (NewMessage, u64) {
    let message = NewMessage { body: body(&json!("x".repeat(length))), ..message(LONG_S, 0) };
    let bytes = stored_bytes([&message.body], None);
    (message, bytes)
}

impl Subject {
    async fn post_within(&self, queue: &QueueId, limits: QueueLimits, batch: &[NewMessage]) -> PostOutcome {
        let (last_known_revision, by) = (self.revision(queue).await, client(0));
        let post = Post { limits, ..plain_post(last_known_revision, &by, batch) };
        self.store().post_messages(queue, &post).await.expect(OK)
    }

    /// Posts this many messages, which must be within the limits.
    async fn posted_within(&self, queue: &QueueId, limits: QueueLimits, count: usize) -> Vec<MessageId> {
        match self.post_within(queue, limits, &messages(LONG_S, count)).await {
            PostOutcome::Posted(ids) => ids,
            other => panic!("not posted: {other:?}"),
        }
    }

    /// Returns the sum of the sizes of the messages in all queues.
    async fn bytes(&self) -> u64 {
        self.store().measure_queues(self.project(), None, 100).await.expect(OK).usage.bytes
    }

    /// Posts this many messages, which must exceed the maximum number of messages.
    async fn refused_within(&self, queue: &QueueId, limits: QueueLimits, count: usize) {
        let outcome = self.post_within(queue, limits, &messages(LONG_S, count)).await;
        assert_eq!(outcome, PostOutcome::Full(Quota::MessagesPerQueue));
    }
}

pub(in crate::conformance) async fn a_post_over_the_limit_stores_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.refused_within(&queue, at_most(0), 1).await;
    subject.refused_within(&queue, at_most(4), 5).await;
    subject.posted_within(&queue, at_most(5), 4).await;
    subject.refused_within(&queue, at_most(5), 2).await;
    let last = subject.posted_within(&queue, at_most(5), 1).await;
    subject.refused_within(&queue, at_most(5), 1).await;
    assert_eq!(subject.count(&queue).await, 5);

    subject.delete_messages(&queue, &last).await;
    subject.posted_within(&queue, at_most(5), 1).await;
    assert_eq!(subject.pop(&queue, 2).await.len(), 2);
    subject.posted_within(&queue, at_most(5), 2).await;
    subject.refused_within(&queue, at_most(5), 1).await;
    subject.store().purge_queue(&queue).await.expect(OK);
    subject.posted_within(&queue, at_most(5), 5).await;
    subject.posted_within(&queue, QueueLimits::default(), 1).await;
}

pub(in crate::conformance) async fn claimed_and_delayed_messages_count_and_expired_ones_do_not(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 1_000)).await;
    subject.post(&queue, &[NewMessage { delay_s: 500, ..message(LONG_S, 0) }]).await;
    subject.claim(&queue, 5, 40).await;
    subject.refused_within(&queue, at_most(1_001), 1).await;

    subject.advance(&queue, Duration::from_secs(300)).await;

    subject.posted_within(&queue, at_most(2), 1).await;
    subject.refused_within(&queue, at_most(2), 1).await;
}

/// Posts that arrive at the same time share a script, and some of them fit.
pub(in crate::conformance) async fn concurrent_posts_fill_a_queue_to_its_limit(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    for limit in [1_usize, 17, 40] {
        let posts = (0..MANY).map(|_| async {
            let batch = messages(LONG_S, 1);
            let limited = subject.post_within(&queue, at_most(limit as u64), &batch);
            futures::join!(limited, subject.posted_within(&other, QueueLimits::default(), 1)).0
        });
        let outcomes = join_all(posts).await;

        let posted = outcomes.iter().filter(|outcome| matches!(outcome, PostOutcome::Posted(_))).count();
        let full = outcomes.iter().filter(|outcome| **outcome == PostOutcome::Full(Quota::MessagesPerQueue)).count();
        assert_eq!((posted, full), (limit, MANY - limit));
        assert_eq!(subject.count(&queue).await, limit);
        subject.store().purge_queue(&queue).await.expect(OK);
    }
}

/// Before all processes know a new limit, posts with and without it arrive at the same time.
pub(in crate::conformance) async fn posts_without_limits_count_for_posts_with_limits(subject: &Subject) {
    const LIMIT: usize = 40;
    let (queue, (one, size)) = (subject.queue("q").await, sized(100));
    let batch = [one];
    let posts = (0..MANY).map(|number| {
        let is_limited = number % 2 == 1;
        let limits = if is_limited { at_most(LIMIT as u64) } else { QueueLimits::default() };
        let batch = &batch;
        let queue = &queue;
        async move { (subject.post_within(queue, limits, batch).await, is_limited) }
    });
    let mut posted = Vec::new();
    for (outcome, is_limited) in join_all(posts).await {
        match outcome {
            PostOutcome::Posted(ids) => posted.push((ids[0].rank(), is_limited)),
            other => assert!(is_limited && other == PostOutcome::Full(Quota::MessagesPerQueue), "{other:?}"),
        }
    }

    posted.sort();
    assert!(posted.len() >= LIMIT && !posted[LIMIT..].iter().any(|(_, is_limited)| *is_limited), "{posted:?}");
    assert_eq!((subject.count(&queue).await, subject.bytes().await), (posted.len(), posted.len() as u64 * size));
}

pub(in crate::conformance) async fn a_repeated_post_returns_the_first_response_although_the_queue_is_full(
    subject: &Subject,
) {
    let queue = subject.queue("q").await;
    let (last_known_revision, by, batch) = (subject.revision(&queue).await, client(1), messages(LONG_S, 3));
    let post = async |key: &str, max| {
        let key = IdempotencyKey::new(key.as_bytes(), b"content").expect("the key is legal");
        let (idempotency, limits) = (Some((&key, 600)), at_most(max));
        let post = Post { limits, idempotency, ..plain_post(last_known_revision, &by, &batch) };
        subject.store().post_messages(&queue, &post).await.expect(OK)
    };
    let first = post("one", 3).await;

    assert_eq!(post("one", 0).await, first);
    assert_eq!(post("two", 3).await, PostOutcome::Full(Quota::MessagesPerQueue));
    subject.store().purge_queue(&queue).await.expect(OK);
    assert!(matches!(post("two", 3).await, PostOutcome::Posted(_)), "a refused post keeps no outcome");
}

/// A message that moves must not be lost, so it may exceed a limit.
pub(in crate::conformance) async fn moved_and_restored_messages_may_exceed_a_limit(subject: &Subject) {
    let (target, keys) =
        (subject.queue("target").await, json!({"_max_claim_count": 1, "_dead_letter_queue": "target"}));
    let queue = subject.id("q");
    let created = subject.store().create_queue(&queue, &metadata(keys)).await;
    assert_eq!(created, Ok(Creation::Created));
    subject.posted_within(&target, at_most(1), 1).await;
    subject.post_delivered(&queue, &messages(LONG_S, 2)).await;
    assert_eq!(subject.pop(&queue, 10).await, []);
    assert_eq!(subject.count(&target).await, 3);

    let source = subject.queue("source").await;
    subject.post(&source, &messages(LONG_S, 2)).await;
    subject.redrive(&source, &all_to(&target)).await;
    let popped = subject.popped(&target, 2).await;
    // Popped messages count until they are deleted.
    let limit = if popped[0].is_final { 4 } else { 6 };
    subject.posted_within(&target, at_most(limit), 1).await;
    subject.store().restore_messages(&target, &popped).await.expect(OK);

    assert_eq!(subject.count(&target).await, 6);
    subject.refused_within(&target, at_most(6), 1).await;
}

pub(in crate::conformance) async fn a_measurement_has_the_messages_of_all_queues(subject: &Subject) {
    let queues = [subject.queue("a").await, subject.queue("b").await, subject.queue("c").await];
    for (queue, count) in queues.iter().zip([2, 5, 1]) {
        subject.post(queue, &messages(LONG_S, count)).await;
    }
    subject.claim(&queues[1], 2, 60).await;

    let measured = subject.store().measure_queues(subject.project(), None, 10).await.expect(OK);

    let usage = measured.usage;
    assert_eq!((usage.messages, usage.messages_max), (8, 5));
    let one = stored_bytes([&message(LONG_S, 0).body], None);
    assert_eq!((usage.bytes, usage.bytes_max), (8 * one, 5 * one));
}

pub(in crate::conformance) async fn bytes_are_limited_like_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ((small, bytes), (large, large_bytes)) = (sized(10), sized(10_000));
    let refused = PostOutcome::Full(Quota::BytesPerQueue);
    let limits = at_most_bytes(large_bytes + 2 * bytes);
    assert!((10_000..11_500).contains(&large_bytes));

    assert_eq!(subject.post_within(&queue, at_most_bytes(0), std::slice::from_ref(&small)).await, refused);
    assert_eq!(
        subject.post_within(&queue, at_most_bytes(large_bytes - 1), std::slice::from_ref(&large)).await,
        refused
    );
    let posted = subject.post_within(&queue, limits, &[large.clone(), small.clone()]).await;
    let PostOutcome::Posted(ids) = posted else { panic!("{posted:?}") };
    assert_eq!(subject.post_within(&queue, limits, &[small.clone(), small.clone()]).await, refused);
    assert!(matches!(subject.post_within(&queue, limits, std::slice::from_ref(&small)).await, PostOutcome::Posted(_)));
    assert_eq!(subject.post_within(&queue, limits, std::slice::from_ref(&small)).await, refused);
    subject.delete_messages(&queue, &ids[..1]).await;
    assert!(matches!(subject.post_within(&queue, limits, &[large]).await, PostOutcome::Posted(_)));
    assert_eq!(subject.post_within(&queue, limits, &[small]).await, refused);
}

/// Posts that arrive at the same time share a script, and some of them fit.
pub(in crate::conformance) async fn concurrent_posts_fill_a_queue_to_its_bytes(subject: &Subject) {
    let queue = subject.queue("q").await;
    let (message, bytes) = sized(100);
    for limit in [1_usize, 17, 40] {
        let batch = std::slice::from_ref(&message);
        let posts = (0..MANY).map(|_| subject.post_within(&queue, at_most_bytes(limit as u64 * bytes), batch));
        let outcomes = join_all(posts).await;

        let posted = outcomes.iter().filter(|outcome| matches!(outcome, PostOutcome::Posted(_))).count();
        let full = outcomes.iter().filter(|outcome| **outcome == PostOutcome::Full(Quota::BytesPerQueue)).count();
        assert_eq!((posted, full), (limit, MANY - limit));
        assert_eq!(subject.bytes().await, limit as u64 * bytes);
        subject.store().purge_queue(&queue).await.expect(OK);
    }
}

/// One message remains in each queue, because the sum of an empty queue is always right.
pub(in crate::conformance) async fn the_bytes_of_a_queue_follow_every_change(subject: &Subject) {
    let queue = subject.queue("q").await;
    let (large, bytes) = sized(3_000);
    let (kept, kept_bytes) = sized(1);
    subject.post(&queue, &[NewMessage { ttl_s: 100_000, ..kept }]).await;
    let delayed = NewMessage { delay_s: 100, ..large.clone() };
    let ids = subject.post(&queue, &[large.clone(), delayed, large.clone(), large.clone()]).await;
    assert_eq!(subject.bytes().await, kept_bytes + 4 * bytes);
    subject.claim(&queue, 2, 60).await;
    subject.advance(&queue, Duration::from_secs(200)).await;
    assert_eq!(subject.feed(&queue).await.len(), 5);
    assert_eq!(subject.bytes().await, kept_bytes + 4 * bytes, "claims and delays change nothing");

    subject.delete_messages(&queue, &ids[2..]).await;
    assert_eq!(subject.bytes().await, kept_bytes + 2 * bytes);
    let popped = subject.popped(&queue, 2).await;
    let popped_bytes = if popped[0].is_final { kept_bytes + bytes } else { 0 };
    assert_eq!(subject.bytes().await, kept_bytes + 2 * bytes - popped_bytes);
    subject.store().restore_messages(&queue, &popped).await.expect(OK);
    assert_eq!(subject.bytes().await, kept_bytes + 2 * bytes);
    subject.advance(&queue, Duration::from_secs(u64::from(LONG_S) + 10)).await;
    assert_eq!(subject.count(&queue).await, 1);
    assert_eq!(subject.bytes().await, kept_bytes);
    subject.store().purge_queue(&queue).await.expect(OK);
    assert_eq!(subject.bytes().await, 0);
}

pub(in crate::conformance) async fn the_bytes_of_moved_messages_move_with_them(subject: &Subject) {
    let (small, bytes) = sized(1);
    let (large, large_bytes) = sized(3_000);
    let target = subject.queue("target").await;
    let queue = subject.queue_of("q", json!({"_max_claim_count": 1, "_dead_letter_queue": "target"})).await;
    subject.post(&target, std::slice::from_ref(&small)).await;
    subject.post(&queue, &[large.clone(), large]).await;
    subject.claim(&queue, 2, 60).await;
    subject.advance(&queue, Duration::from_secs(100)).await;
    assert_eq!(subject.pop(&queue, 2).await, []);
    subject.post(&queue, std::slice::from_ref(&small)).await;

    assert_eq!(subject.count(&target).await, 3);
    let measured = subject.bytes().await;
    assert!((2 * bytes + 2 * large_bytes..2 * bytes + 2 * large_bytes + 1_500).contains(&measured), "{measured}");
    let ids = subject.feed(&target).await;
    subject.delete_messages(&target, &ids[1..]).await;
    assert_eq!(subject.bytes().await, 2 * bytes);

    let moved = subject.queue("moved").await;
    subject.redrive(&target, &all_to(&moved)).await;
    assert_eq!((subject.count(&moved).await, subject.bytes().await), (1, 2 * bytes));
}
