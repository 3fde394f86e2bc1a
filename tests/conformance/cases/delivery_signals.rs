//! Signals: a store announces that deliveries may be due in a queue with subscriptions.

use std::time::Duration;

use serde_json::json;
use sukkal_domain::{NewMessage, QueueId};

use super::delivery_helpers::{LEASE_OVER, settings, subscription};
use super::redrives::all_to;
use crate::conformance::support::subject::{LONG_S, Subject, message, messages};

const OK: &str = "the store answers";
const S: Duration = Duration::from_secs(1);

impl Subject {
    /// Takes the lease and ends it at once.
    async fn finish(&self, queue: &QueueId) {
        let (fence, state) = self.lease(queue, 9).await;
        assert!(self.end_lease(queue, fence, &state).await, "no work is due");
    }
}

pub(in crate::conformance) async fn a_post_sends_a_signal(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.subscribe(&queue, "http://a").await;
    subject.drain_signals(&queue).await;

    let post = async || drop(subject.post(&queue, &messages(LONG_S, 2)).await);
    subject.assert_signals(&queue, post).await;
    // Work may be due whether or not a process has the lease.
    subject.lease(&queue, 1).await;
    subject.drain_signals(&queue).await;
    subject.assert_signals(&queue, post).await;
}

pub(in crate::conformance) async fn a_queue_without_subscriptions_sends_no_signal(subject: &Subject) {
    let queue = subject.queue("q").await;
    let post = async || {
        subject.post(&queue, &messages(LONG_S, 2)).await;
        subject.run_maintenance().await;
    };

    subject.assert_no_signal(&queue, post).await;
    let id = subject.subscribe(&queue, "http://a").await;
    subject.unsubscribe(&queue, id).await;
    subject.drain_signals(&queue).await;
    subject.assert_no_signal(&queue, post).await;
    subject.subscribe(&queue, "http://a").await;
    subject.store().delete_subscriptions(&queue).await.expect(OK);
    subject.drain_signals(&queue).await;
    subject.assert_no_signal(&queue, post).await;
}

pub(in crate::conformance) async fn a_delayed_message_sends_a_signal_when_it_is_posted_and_when_it_is_due(
    subject: &Subject,
) {
    let queue = subject.queue("q").await;
    subject.subscribe(&queue, "http://a").await;
    subject.drain_signals(&queue).await;
    let later = NewMessage { delay_s: 5, ..message(LONG_S, 0) };

    subject.assert_signals(&queue, async || drop(subject.post(&queue, &[later]).await)).await;
    subject.advance(&queue, 7 * S).await;
    subject.assert_signals(&queue, async || assert_eq!(subject.count(&queue).await, 1)).await;
}

pub(in crate::conformance) async fn messages_from_other_queues_send_a_signal(subject: &Subject) {
    let dead = subject.queue("dead").await;
    subject.subscribe(&dead, "http://a").await;
    subject.drain_signals(&dead).await;
    let keys = json!({"_max_claim_count": 1, "_dead_letter_queue": "dead"});
    let source = subject.queue_of("source", keys).await;
    subject.post_delivered(&source, &messages(LONG_S, 1)).await;

    let pop = async || assert_eq!(subject.pop(&source, 1).await, []);
    subject.assert_signals(&dead, pop).await;

    let plain = subject.queue("plain").await;
    subject.post(&plain, &messages(LONG_S, 1)).await;
    subject.drain_signals(&dead).await;
    let redrive = async || drop(subject.redrive(&plain, &all_to(&dead)).await);
    subject.assert_signals(&dead, redrive).await;
}

pub(in crate::conformance) async fn each_change_of_a_subscription_sends_a_signal(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.subscribe(&queue, "http://kept").await;
    let new = subscription("http://a");

    subject.drain_signals(&queue).await;
    subject
        .assert_signals(&queue, async || assert_eq!(subject.subscribe_with(&queue, new.clone()).await, new.id))
        .await;
    subject.drain_signals(&queue).await;
    subject.assert_signals(&queue, async || subject.change(&queue, new.id, settings("http://b"), None).await).await;
    subject.drain_signals(&queue).await;
    subject.assert_signals(&queue, async || subject.unsubscribe(&queue, new.id).await).await;
    subject.drain_signals(&queue).await;
    let delete_all = async || subject.store().delete_subscriptions(&queue).await.expect(OK);
    subject.assert_signals(&queue, delete_all).await;
}

/// A signal may have been lost, and a process may have crashed.
pub(in crate::conformance) async fn maintenance_signals_work_that_is_due(subject: &Subject) {
    let queue = subject.queue("q").await;
    let maintain = async || subject.run_maintenance().await;
    subject.subscribe(&queue, "http://a").await;
    subject.drain_signals(&queue).await;
    subject.assert_signals(&queue, maintain).await;

    subject.finish(&queue).await;
    subject.drain_signals(&queue).await;
    subject.assert_no_signal(&queue, maintain).await;

    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.drain_signals(&queue).await;
    subject.assert_signals(&queue, maintain).await;
    subject.finish(&queue).await;

    subject.subscribe(&queue, "http://b").await;
    subject.drain_signals(&queue).await;
    subject.assert_signals(&queue, maintain).await;
    subject.finish(&queue).await;

    let later = NewMessage { delay_s: 5, ..message(LONG_S, 0) };
    subject.post(&queue, &[later]).await;
    subject.drain_signals(&queue).await;
    subject.assert_no_signal(&queue, maintain).await;
    subject.advance(&queue, 7 * S).await;
    subject.assert_signals(&queue, maintain).await;
}

pub(in crate::conformance) async fn maintenance_signals_a_queue_whose_lease_has_expired(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.subscribe(&queue, "http://a").await;
    subject.finish(&queue).await;
    let (fence, _) = subject.lease(&queue, 1).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let maintain = async || subject.run_maintenance().await;

    subject.drain_signals(&queue).await;
    subject.assert_no_signal(&queue, maintain).await;
    subject.save(&queue, fence, &[]).await.expect("the fence is the holder's");
    subject.advance(&queue, LEASE_OVER).await;
    subject.assert_signals(&queue, maintain).await;

    // Even if there is nothing new: the holder may have crashed in the middle of its work.
    subject.finish(&queue).await;
    subject.lease(&queue, 1).await;
    subject.advance(&queue, LEASE_OVER).await;
    subject.drain_signals(&queue).await;
    subject.assert_signals(&queue, maintain).await;
}

pub(in crate::conformance) async fn maintenance_signals_a_queue_whose_retry_is_due(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.subscribe(&queue, "http://a").await;
    let maintain = async || subject.run_maintenance().await;
    let (fence, seen) = subject.lease(&queue, 1).await;
    let due_us = seen.now_us + 100_000_000;
    assert_eq!(subject.store().end_delivery_lease(&queue, fence, &seen, Some(due_us)).await, Ok(true));
    subject.drain_signals(&queue).await;

    subject.assert_no_signal(&queue, maintain).await;
    subject.advance(&queue, 90 * S).await;
    subject.assert_no_signal(&queue, maintain).await;
    subject.advance(&queue, 11 * S).await;
    subject.assert_signals(&queue, maintain).await;

    // The next holder has no retry.
    subject.finish(&queue).await;
    subject.drain_signals(&queue).await;
    subject.assert_no_signal(&queue, maintain).await;
}
