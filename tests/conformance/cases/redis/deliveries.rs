//! Deliveries over Redis: keys that are left behind, the index of due queues, signals between
//! processes, and a store without memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sukkal_domain::{NewSubscription, QueueId, SubscriptionId};
use sukkal_storage::{DeliverySignal, Error, Schedule, SubscriptionCreation};
use tokio::sync::broadcast::Receiver;
use uuid::Uuid;

use super::keys::{existing_parts, key};
use crate::conformance::cases::delivery_helpers::{
    attempt, delivered, expiring_subscription, next_signal, retry, settings, subscription,
};
use crate::conformance::support::drivers::redis_at;
use crate::conformance::support::subject::{LONG_S, Subject, messages};
use support::redis::{RedisServer, Reply};
use support::waiting::{in_time, until};

const OK: &str = "the store answers";
/// The index of due queues on a server that is not a cluster.
const DUE: &str = "sukkal:{3560}:due";
const NEXT: Schedule = Schedule { pause: Duration::ZERO, walk: Duration::from_secs(3_600) };
/// The channel of the signals.
const SIGNALS: &str = "sukkal:deliveries";

/// Starts a server with a queue that has messages, and a subscription with attempts and retries.
async fn backend() -> (Arc<RedisServer>, Subject, QueueId, SubscriptionId) {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let id = subject.subscribe(&queue, "http://a").await;
    let (fence, state) = subject.lease(&queue, 1).await;
    let mut change = delivered(id, 1);
    change.attempts.push(attempt(0));
    change.new_retries =
        subject.list(&queue, None, 3).await.iter().map(|message| retry(message, state.now_us)).collect();
    subject.save(&queue, fence, &[change]).await.expect("the lease is live");
    (server, subject, queue, id)
}

/// Returns the time (µs) at which the index of due queues has the queue.
fn due_at(server: &RedisServer, queue: &QueueId) -> Option<u64> {
    match server.command(&["ZSCORE", DUE, &queue.to_string()]) {
        Reply::Bulk(None) => None,
        score => Some(score.as_text().parse().expect("a score is a number")),
    }
}

#[tokio::test]
async fn a_deleted_subscription_leaves_no_keys() {
    let (server, subject, queue, id) = backend().await;
    assert!(existing_parts(&server, &queue).contains(&"retry_times"));
    let left = ["queue", "messages", "ready", "expirations", "deliveries"];

    subject.unsubscribe(&queue, id).await;

    // What is left of deliveries is the version of the subscriptions.
    assert_eq!(existing_parts(&server, &queue), left);
    subject.subscribe(&queue, "http://a").await;
    subject.store().delete_subscriptions(&queue).await.expect(OK);
    assert_eq!(existing_parts(&server, &queue), left);
    subject.subscribe_with(&queue, expiring_subscription("http://a")).await;
    subject.advance(&queue, Duration::from_secs(62)).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), left);
    subject.subscribe(&queue, "http://a").await;
    subject.delete(&queue).await;
    assert_eq!(existing_parts(&server, &queue), [""; 0]);
}

#[tokio::test]
async fn the_due_index_has_a_queue_until_no_work_is_due() {
    let (server, subject, queue, id) = backend().await;
    let (fence, seen) = subject.lease(&queue, 1).await;
    let lease_s = 7_000_000;
    subject.store().maintain(&NEXT).await.expect(OK);
    let expiry = due_at(&server, &queue).expect("the lease expires");
    assert!((seen.now_us + lease_s - 1_000_000..=seen.now_us + lease_s).contains(&expiry), "{expiry} after {seen:?}");

    // A retry, then the expiry of the subscription.
    let retry_us = seen.now_us + 90_000_000;
    assert_eq!(subject.store().end_delivery_lease(&queue, fence, &seen, Some(retry_us)).await, Ok(true));
    server.command(&["ZADD", DUE, "0", &queue.to_string()]);
    subject.store().maintain(&NEXT).await.expect(OK);
    assert_eq!(due_at(&server, &queue), Some(retry_us));
    let (fence, seen) = subject.lease(&queue, 2).await;
    assert!(subject.end_lease(&queue, fence, &seen).await);
    subject.change(&queue, id, settings("http://a"), Some(500)).await;
    let (fence, seen) = subject.lease(&queue, 2).await;
    assert!(subject.end_lease(&queue, fence, &seen).await);
    subject.store().maintain(&NEXT).await.expect(OK);
    let end_us = due_at(&server, &queue).expect("the subscription expires");
    assert!((seen.now_us + 490_000_000..=seen.now_us + 500_000_000).contains(&end_us), "{end_us} after {seen:?}");

    subject.post(&queue, &messages(LONG_S, 1)).await;
    for _ in 0..2 {
        assert_eq!(subject.store().maintain(&NEXT).await, Ok(1), "work stays due until a process has seen it");
    }
    subject.unsubscribe(&queue, id).await;
    subject.store().maintain(&NEXT).await.expect(OK);
    let messages_end_us = due_at(&server, &queue).expect("its messages expire");
    assert!(messages_end_us > seen.now_us + u64::from(LONG_S) * 900_000);
}

#[tokio::test]
async fn a_subscription_can_live_until_the_year_9999() {
    let (server, subject, queue, _id) = backend().await;
    let ttl_s = 250_000_000_000;

    let id = subject.subscribe_with(&queue, NewSubscription { ttl_s, ..subscription("http://b") }).await;

    subject.run_maintenance().await;
    assert_eq!(subject.subscription(&queue, id).await.ttl_s, ttl_s);
    assert_eq!(subject.store().check().await.expect(OK).findings, [""; 0]);
    assert!(due_at(&server, &queue).is_some());
}

/// What a subscriber has been sent is recorded, and owners can delete what they no longer need.
#[tokio::test]
async fn deliveries_go_on_in_a_full_redis() {
    let (server, subject, queue, id) = backend().await;
    let other = subject.subscribe(&queue, "http://b").await;
    let (fence, seen) = subject.lease(&queue, 1).await;
    let held = subject.retries(&queue, id).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);

    let refused = subject.store().create_subscription(&queue, &subscription("http://c"), 10).await;
    assert!(matches!(refused, Err(Error::MemoryFull(_))), "{refused:?}");
    let mut change = delivered(id, 2);
    change.attempts.push(attempt(1));
    change.ended_retries = held.iter().map(|retry| (retry.message.id, retry.due_us)).collect();
    let saved = subject.save(&queue, fence, &[change]).await.expect("the lease is live");
    assert_eq!(saved.last, seen.last);
    assert_eq!(subject.progress_of(&queue, id).await.delivered, 2);
    assert_eq!(subject.retries(&queue, id).await, []);
    subject.change(&queue, id, settings("http://d"), None).await;
    subject.unsubscribe(&queue, id).await;
    let (_, seen) = subject.lease(&queue, 1).await;
    assert!(subject.end_lease(&queue, fence, &seen).await);
    subject.lease(&queue, 2).await;
    subject.store().delete_subscriptions(&queue).await.expect(OK);
    subject.run_maintenance().await;

    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(subject.find_subscription(&queue, other).await, None);
    assert_eq!(subject.store().check().await.expect(OK).findings, [""; 0]);
    assert_eq!(subject.try_subscribe(&queue, &subscription("http://c")).await, SubscriptionCreation::Created);
}

#[tokio::test]
async fn a_subscriber_without_its_subscription_is_an_error() {
    let (server, subject, queue, _id) = backend().await;
    server.command(&["HSET", &key(&queue, "subscribers"), "http://b", "0123456789abcdef"]);

    let refused = subject.store().create_subscription(&queue, &subscription("http://b"), 10).await;

    assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
}

/// Waits until this number of processes receives signals.
async fn wait_for_receivers(server: &RedisServer, count: i64) {
    let receivers = async || server.command(&["PUBSUB", "NUMSUB", SIGNALS]).items()[1].as_int();
    until("the processes receive signals", async || receivers().await == count).await;
}

/// Returns the next signal for the queue.
async fn received(signals: &mut Receiver<DeliverySignal>, queue: &QueueId) -> DeliverySignal {
    in_time("a signal arrives", next_signal(signals, queue)).await
}

/// Asserts that no signal for the queue has been sent to this process before one for another queue.
async fn assert_no_signal(signals: &mut Receiver<DeliverySignal>, queue: &QueueId, subject: &Subject) {
    let later = subject.queue(&Uuid::new_v4().to_string()).await;
    subject.subscribe(&later, "http://a").await;
    let is_relevant = |signal: &DeliverySignal| signal.queue == *queue || signal.queue == later;
    let first = async {
        loop {
            let signal = signals.recv().await.expect("the store sends signals");
            if is_relevant(&signal) {
                return signal;
            }
        }
    };
    assert_eq!(in_time("a signal arrives", first).await.queue, later);
}

#[tokio::test]
async fn one_of_the_processes_that_share_a_store_acts_at_once() {
    let (server, subject, _queue, _id) = backend().await;
    let other = redis_at(server.clone());
    let (mut signals, mut other_signals) = (subject.store().delivery_signals(), other.store().delivery_signals());
    wait_for_receivers(&server, 2).await;
    let mut acts = async |name: &str| {
        let queue = subject.queue(name).await;
        subject.subscribe(&queue, "http://a").await;
        [received(&mut signals, &queue).await, received(&mut other_signals, &queue).await].map(|signal| signal.is_own)
    };
    // A process that does not know the other one always acts.
    let (mut number, mut seen) = (0, HashSet::new());
    until("the processes know each other", async || {
        number += 1;
        seen.insert(acts(&format!("before-{number}")).await);
        seen.contains(&[true, false]) && seen.contains(&[false, true])
    })
    .await;

    let mut own = 0;
    for number in 0..16 {
        let [first, second] = acts(&format!("q{number}")).await;
        assert_ne!(first, second);
        own += u32::from(first);
    }
    assert!((1..16).contains(&own), "both processes share the work: {own} of 16");
}

#[tokio::test]
async fn only_the_holder_of_a_live_lease_gets_signals() {
    let (server, subject, queue, _id) = backend().await;
    let other = redis_at(server.clone());
    let (mut signals, mut other_signals) = (subject.store().delivery_signals(), other.store().delivery_signals());
    wait_for_receivers(&server, 2).await;

    subject.post(&queue, &messages(LONG_S, 1)).await;

    assert!(received(&mut signals, &queue).await.is_own);
    assert_no_signal(&mut other_signals, &queue, &subject).await;
    let (fence, seen) = subject.lease(&queue, 1).await;
    assert!(subject.end_lease(&queue, fence, &seen).await);
    other.store().take_delivery_lease(&queue, Uuid::from_u128(2)).await.expect(OK).expect("the lease has ended");
    subject.post(&queue, &messages(LONG_S, 1)).await;
    assert!(received(&mut other_signals, &queue).await.is_own);
    assert_no_signal(&mut signals, &queue, &subject).await;
}

#[tokio::test]
async fn signals_go_on_after_the_connection_was_lost() {
    let (server, subject, queue, _id) = backend().await;
    let mut signals = subject.store().delivery_signals();
    wait_for_receivers(&server, 1).await;

    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    wait_for_receivers(&server, 1).await;
    while signals.try_recv().is_ok() {}
    subject.post(&queue, &messages(LONG_S, 1)).await;

    received(&mut signals, &queue).await;
}

/// A process of an earlier release changes the version only.
#[tokio::test]
async fn a_change_by_an_earlier_release_makes_the_changes_unknown() {
    let (server, subject, queue, id) = backend().await;
    let version = async || subject.lease(&queue, 1).await.1.subscriptions_version;
    let changed_since = async |since| subject.store().changed_subscriptions(&queue, since).await.expect(OK);
    let known = version().await;

    server.command(&["HINCRBY", &format!("sukkal:{{{queue}}}:deliveries"), "v", "1"]);
    let next = version().await;
    subject.change(&queue, id, settings("http://a"), None).await;

    assert_eq!(changed_since(known).await, None);
    assert_eq!(changed_since(next).await, Some(vec![id]));
}
