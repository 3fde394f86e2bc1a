//! Delivery leases: one process at a time delivers the messages of a queue, and only while there is
//! work.

use std::time::Duration;

use sukkal_domain::{NewMessage, SubscriptionId};
use sukkal_storage::LeaseFence;

use super::delivery_helpers::{LEASE_OVER, attempt, delivered, expiring_subscription, retry, settings, subscription};
use crate::conformance::support::subject::{LONG_S, Subject, message, messages};

const OK: &str = "the store answers";
const S: Duration = Duration::from_secs(1);
/// More than half of a lease.
const PART_OF_LEASE: Duration = Duration::from_secs(4);

pub(in crate::conformance) async fn one_process_at_a_time_has_the_lease(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    for queue in [&queue, &other] {
        subject.subscribe(queue, "http://a").await;
    }

    let (fence, _) = subject.lease(&queue, 1).await;

    assert_eq!(subject.try_lease(&queue, 2).await, None);
    assert_eq!(subject.try_lease(&queue, 1).await, Some(fence), "a repeated call gets the same fence");
    assert!(subject.try_lease(&other, 2).await.is_some(), "each queue has a lease of its own");
    subject.advance(&queue, PART_OF_LEASE).await;
    assert_eq!(subject.try_lease(&queue, 2).await, None);
    assert_eq!(subject.try_lease(&queue, 1).await, Some(fence), "a repeated call renews the lease");
    subject.advance(&queue, PART_OF_LEASE).await;
    assert_eq!(subject.try_lease(&queue, 2).await, None);
    subject.advance(&queue, LEASE_OVER).await;
    let next = subject.try_lease(&queue, 2).await.expect("the lease has expired");
    assert!(next > fence, "{next:?} after {fence:?}");
    assert_eq!(subject.try_lease(&queue, 1).await, None);
}

pub(in crate::conformance) async fn a_queue_without_subscriptions_has_no_lease(subject: &Subject) {
    let queue = subject.queue("q").await;
    assert_eq!(subject.try_lease(&subject.id("absent"), 1).await, None);
    assert_eq!(subject.try_lease(&queue, 1).await, None);

    let id = subject.subscribe(&queue, "http://a").await;
    subject.unsubscribe(&queue, id).await;
    assert_eq!(subject.try_lease(&queue, 1).await, None, "the subscription was deleted");
    subject.subscribe(&queue, "http://a").await;
    subject.store().delete_subscriptions(&queue).await.expect(OK);
    assert_eq!(subject.try_lease(&queue, 1).await, None, "all subscriptions were deleted");
    subject.subscribe_with(&queue, expiring_subscription("http://a")).await;
    subject.advance(&queue, 62 * S).await;
    assert_eq!(subject.try_lease(&queue, 1).await, None, "the subscription has expired");

    subject.subscribe(&queue, "http://a").await;
    assert!(subject.try_lease(&queue, 1).await.is_some());
}

pub(in crate::conformance) async fn a_save_renews_the_lease(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.subscribe(&queue, "http://a").await;
    let (fence, _) = subject.lease(&queue, 1).await;

    for changes in [Vec::new(), vec![delivered(id, 1)], Vec::new()] {
        subject.advance(&queue, PART_OF_LEASE).await;
        assert!(subject.save(&queue, fence, &changes).await.is_some());
    }
    subject.advance(&queue, PART_OF_LEASE).await;
    assert_eq!(subject.try_lease(&queue, 2).await, None);
    // A lease that nobody else has taken can be renewed even if it has expired.
    subject.advance(&queue, LEASE_OVER).await;
    assert!(subject.save(&queue, fence, &[]).await.is_some());
    assert_eq!(subject.try_lease(&queue, 2).await, None);
    subject.advance(&queue, LEASE_OVER).await;
    assert!(subject.try_lease(&queue, 2).await.is_some());
}

/// A process that has lost its lease changes nothing, even if it does not know that yet.
pub(in crate::conformance) async fn a_process_without_the_lease_can_change_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let posted = subject.list(&queue, None, 1).await.remove(0);
    let id = subject.subscribe(&queue, "http://a").await;
    let (old, state) = subject.lease(&queue, 1).await;
    subject.advance(&queue, LEASE_OVER).await;
    let (fence, _) = subject.lease(&queue, 2).await;
    let before = subject.progress_of(&queue, id).await;

    let mut change = delivered(id, 7);
    change.attempts.push(attempt(0));
    change.new_retries.push(retry(&posted, state.now_us));
    assert_eq!(subject.save(&queue, old, &[change.clone()]).await, None);

    assert_eq!(subject.progress_of(&queue, id).await, before);
    assert_eq!(subject.attempts(&queue, id).await, Some(Vec::new()));
    assert_eq!(subject.retries(&queue, id).await, []);
    assert!(subject.end_lease(&queue, old, &state).await, "another process has the lease");
    assert_eq!(subject.try_lease(&queue, 3).await, None, "the lease of the other process has not ended");
    assert!(subject.save(&queue, fence, &[change]).await.is_some());
    assert_eq!(subject.progress_of(&queue, id).await.delivered, 7);
}

/// Otherwise a process could write with the fence that it had before.
pub(in crate::conformance) async fn fences_rise_after_everything_was_deleted(subject: &Subject) {
    let queue = subject.queue("q").await;
    let new = subscription("http://a");
    subject.subscribe_with(&queue, new.clone()).await;
    let (mut last, state) = subject.lease(&queue, 1).await;
    let mut assert_new = async |when: &str| {
        assert_eq!(subject.save(&queue, last, &[delivered(new.id, 7)]).await, None, "{when}");
        subject.subscribe_with(&queue, new.clone()).await;
        assert_eq!(subject.save(&queue, last, &[delivered(new.id, 7)]).await, None, "{when}");
        let (fence, _) = subject.lease(&queue, 2).await;
        assert!(fence > last, "{when}: {fence:?} after {last:?}");
        assert_eq!(subject.save(&queue, last, &[delivered(new.id, 7)]).await, None, "{when}");
        assert!(subject.end_lease(&queue, last, &state).await, "{when}");
        assert_eq!(subject.progress_of(&queue, new.id).await.delivered, 0, "{when}");
        assert_eq!(subject.try_lease(&queue, 3).await, None, "{when}");
        last = fence;
    };

    subject.store().delete_subscriptions(&queue).await.expect(OK);
    assert_new("the subscriptions").await;
    subject.delete(&queue).await;
    subject.create(&queue).await;
    assert_new("the queue").await;
}

pub(in crate::conformance) async fn a_lease_that_has_ended_can_be_taken_at_once(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.subscribe(&queue, "http://a").await;
    let mut last: Option<LeaseFence> = None;

    for holder in [1, 2, 2, 1] {
        let (fence, state) = subject.lease(&queue, holder).await;
        assert!(Some(fence) > last, "{fence:?} after {last:?}");
        assert!(subject.end_lease(&queue, fence, &state).await);
        assert!(subject.end_lease(&queue, fence, &state).await, "ending it again has no effect");
        assert_eq!(subject.save(&queue, fence, &[delivered(id, 7)]).await, None, "it is over");
        last = Some(fence);
    }
    assert_eq!(subject.progress_of(&queue, id).await.delivered, 0);
}

pub(in crate::conformance) async fn a_lease_does_not_end_while_a_message_is_unseen(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.subscribe(&queue, "http://a").await;
    let (fence, seen) = subject.lease(&queue, 1).await;
    let later = NewMessage { delay_s: 5, ..message(LONG_S, 0) };
    let posted = subject.post(&queue, &[message(LONG_S, 0), later]).await;

    assert!(!subject.end_lease(&queue, fence, &seen).await);
    assert_eq!(subject.try_lease(&queue, 2).await, None, "the holder still has the lease");
    subject.delete_messages(&queue, &posted[..1]).await;
    assert!(!subject.end_lease(&queue, fence, &seen).await, "a deleted message was visible too");
    let seen = subject.save(&queue, fence, &[]).await.expect("the fence is the holder's");
    subject.advance(&queue, 7 * S).await;
    assert!(!subject.end_lease(&queue, fence, &seen).await, "a delay is over");
    let seen = subject.save(&queue, fence, &[]).await.expect("the fence is the holder's");
    assert_eq!(seen.last, posted[1].rank());

    assert!(subject.end_lease(&queue, fence, &seen).await);
    assert!(subject.try_lease(&queue, 2).await.is_some());
}

pub(in crate::conformance) async fn a_lease_does_not_end_while_a_change_of_a_subscription_is_unseen(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.subscribe(&queue, "http://kept").await;
    let (fence, mut seen) = subject.lease(&queue, 1).await;
    let mut assert_unseen = async |when: &str| {
        assert!(!subject.end_lease(&queue, fence, &seen).await, "after {when}");
        seen = subject.save(&queue, fence, &[]).await.expect("the fence is the holder's");
        seen
    };

    let id = subject.subscribe(&queue, "http://a").await;
    assert_unseen("a creation").await;
    subject.change(&queue, id, settings("http://b"), None).await;
    assert_unseen("an update").await;
    subject.unsubscribe(&queue, id).await;
    let seen = assert_unseen("a deletion").await;

    assert!(subject.end_lease(&queue, fence, &seen).await);
}

/// Without a subscription, nothing is to be delivered.
pub(in crate::conformance) async fn a_lease_ends_if_no_subscription_is_left(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id: SubscriptionId = subject.subscribe(&queue, "http://a").await;
    let (fence, seen) = subject.lease(&queue, 1).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.unsubscribe(&queue, id).await;

    assert!(subject.end_lease(&queue, fence, &seen).await);

    subject.subscribe(&queue, "http://b").await;
    let (fence, seen) = subject.lease(&queue, 2).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.store().delete_subscriptions(&queue).await.expect(OK);
    assert!(subject.end_lease(&queue, fence, &seen).await);
    subject.subscribe(&queue, "http://b").await;
    assert!(subject.try_lease(&queue, 3).await.is_some());
}

pub(in crate::conformance) async fn a_lease_ends_with_the_queue(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.subscribe(&queue, "http://a").await;
    let (fence, seen) = subject.lease(&queue, 1).await;

    subject.delete(&queue).await;

    assert_eq!(subject.save(&queue, fence, &[delivered(id, 1)]).await, None);
    assert!(subject.end_lease(&queue, fence, &seen).await);
    assert_eq!(subject.get(&queue).await, None);
}

pub(in crate::conformance) async fn a_lease_does_not_last_longer_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.subscribe(&queue, "http://a").await;
    subject.advance(&queue, 3_600 * S).await;
    let (fence, _) = subject.lease(&queue, 1).await;

    subject.rewind(&queue, 3_600 * S).await;

    let next = subject.try_lease(&queue, 2).await.expect("the lease has expired");
    assert!(next > fence, "{next:?} after {fence:?}");
}
