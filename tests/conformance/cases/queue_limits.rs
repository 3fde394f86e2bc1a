//! Limits of what a queue may have: exact, because they are applied in the same step as the post.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use sukkal::domain::{Creation, IdempotencyKey, MessageId, NewMessage, QueueId, QueueLimits, Quota};
use sukkal::storage::{Post, PostOutcome};

use super::redrives::all_to;
use crate::conformance::support::subject::{LONG_S, Subject, client, message, messages, metadata};

const OK: &str = "the store answers";
const MANY: usize = 64;

/// Returns limits with this maximum number of messages.
fn at_most(messages: u64) -> QueueLimits {
    QueueLimits { messages: Some(messages) }
}

impl Subject {
    async fn post_within(&self, queue: &QueueId, limits: QueueLimits, batch: &[NewMessage]) -> PostOutcome {
        let (last_known_revision, by) = (self.revision(queue).await, client(0));
        let post = Post { last_known_revision, client: &by, messages: batch, trace: None, limits, idempotency: None };
        self.store().post_messages(queue, &post).await.expect(OK)
    }

    /// Posts this many messages, which must be within the limits.
    async fn posted_within(&self, queue: &QueueId, limits: QueueLimits, count: usize) -> Vec<MessageId> {
        match self.post_within(queue, limits, &messages(LONG_S, count)).await {
            PostOutcome::Posted(ids) => ids,
            other => panic!("not posted: {other:?}"),
        }
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
    for limit in [1, 17, 40] {
        let posts = (0..MANY).map(|_| async {
            let batch = messages(LONG_S, 1);
            let limited = subject.post_within(&queue, at_most(limit), &batch);
            futures::join!(limited, subject.posted_within(&other, QueueLimits::default(), 1)).0
        });
        let outcomes = join_all(posts).await;

        let posted = outcomes.iter().filter(|outcome| matches!(outcome, PostOutcome::Posted(_))).count();
        let full = outcomes.iter().filter(|outcome| **outcome == PostOutcome::Full(Quota::MessagesPerQueue)).count();
        assert_eq!((posted, full), (limit as usize, MANY - limit as usize));
        assert_eq!(subject.count(&queue).await, limit as usize);
        subject.store().purge_queue(&queue).await.expect(OK);
    }
}

pub(in crate::conformance) async fn a_repeated_post_returns_the_first_response_although_the_queue_is_full(
    subject: &Subject,
) {
    let queue = subject.queue("q").await;
    let (last_known_revision, by, batch) = (subject.revision(&queue).await, client(1), messages(LONG_S, 3));
    let post = async |key: &str, max| {
        let key = IdempotencyKey::new(key.as_bytes(), b"content").expect("the key is legal");
        let (idempotency, limits) = (Some((&key, 600)), at_most(max));
        let post = Post { last_known_revision, client: &by, messages: &batch, trace: None, limits, idempotency };
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
        (subject.queue("target").await, json!({"_max_claim_count": 0, "_dead_letter_queue": "target"}));
    let queue = subject.id("q");
    let created = subject.store().create_queue(&queue, &metadata(keys)).await;
    assert_eq!(created, Ok(Creation::Created));
    subject.posted_within(&target, at_most(1), 1).await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    assert_eq!(subject.pop(&queue, 10).await, []);
    assert_eq!(subject.count(&target).await, 3);

    let source = subject.queue("source").await;
    subject.post(&source, &messages(LONG_S, 2)).await;
    subject.redrive(&source, &all_to(&target)).await;
    let popped = subject.popped(&target, 2).await;
    subject.posted_within(&target, at_most(4), 1).await;
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

    assert_eq!((measured.usage.messages, measured.usage.messages_max), (8, 5));
}
