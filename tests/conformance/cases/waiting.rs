//! Waiting: a waiter is notified in time when a message becomes available, and not without a
//! reason.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use serde_json::json;
use sukkal_domain::{NewMessage, QueueId, Rank};
use sukkal_storage::{Listing, QueueStatus, Watch};
use tokio::time::timeout;

use crate::conformance::support::subject::{LONG_S, Subject, body, client, ids_of, messages};

/// Timeout for a notification that normally arrives within milliseconds.
const WAKE_UP_TIMEOUT: Duration = Duration::from_secs(20);

impl Subject {
    async fn watch(&self, queue: &QueueId) -> Watch {
        self.store().watch(queue).await.expect("the store answers")
    }

    async fn queue_status(&self, queue: &QueueId) -> QueueStatus {
        self.store().queue_status(queue).await.expect("the store answers")
    }

    async fn post_delayed(&self, queue: &QueueId, delay_s: u32) {
        self.post(queue, &[NewMessage { ttl_s: LONG_S, delay_s, body: body(&json!(0)), assignment: None }]).await;
    }

    /// Claims one message for a second.
    async fn claim_for_one_second(&self, queue: &QueueId) {
        let claim = self.claim(queue, 1, 1).await;
        assert_eq!(claim.messages.len(), 1);
    }

    /// Runs the action, and returns the lowest older position that a reader is notified of.
    async fn older_position_after(&self, queue: &QueueId, action: impl AsyncFnOnce()) -> Option<Rank> {
        let watch = self.watch(queue).await;
        let mut reader = watch.reader(false);
        self.store().query_finished(queue);

        action().await;

        timeout(WAKE_UP_TIMEOUT, reader.changed()).await.expect("the reader is notified");
        reader.catch_up()
    }

    /// Runs the action, and asserts that it wakes a waiting worker and a waiting reader.
    async fn assert_wakes_waiters(&self, queue: &QueueId, action: impl AsyncFnOnce()) {
        let watch = self.watch(queue).await;
        let mut worker = pin!(watch.worker());
        worker.as_mut().enable();
        let mut reader = watch.reader(false);
        self.store().query_finished(queue);

        action().await;

        timeout(WAKE_UP_TIMEOUT, worker).await.expect("the worker is notified");
        timeout(WAKE_UP_TIMEOUT, reader.changed()).await.expect("the reader is notified");
    }
}

pub(in crate::conformance) async fn a_post_wakes_waiters(subject: &Subject) {
    let queue = subject.queue("q").await;

    subject.assert_wakes_waiters(&queue, async || drop(subject.post(&queue, &messages(LONG_S, 1)).await)).await;
}

pub(in crate::conformance) async fn a_waiter_can_wait_for_a_queue_that_does_not_exist_yet(subject: &Subject) {
    let queue = subject.id("q");
    let action = async || {
        subject.create(&queue).await;
        subject.post(&queue, &messages(LONG_S, 1)).await;
    };

    subject.assert_wakes_waiters(&queue, action).await;
}

pub(in crate::conformance) async fn the_end_of_a_delay_wakes_waiters(subject: &Subject) {
    let queue = subject.queue("q").await;

    subject.assert_wakes_waiters(&queue, async || subject.post_delayed(&queue, 1).await).await;
}

pub(in crate::conformance) async fn the_end_of_a_delay_that_began_earlier_wakes_waiters(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post_delayed(&queue, 1).await;

    subject.assert_wakes_waiters(&queue, async || {}).await;
}

pub(in crate::conformance) async fn the_expiry_of_a_claim_wakes_waiters(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.claim_for_one_second(&queue).await;

    subject.assert_wakes_waiters(&queue, async || {}).await;
}

pub(in crate::conformance) async fn the_expiry_of_a_claim_created_during_the_wait_wakes_waiters(subject: &Subject) {
    let queue = subject.queue("q").await;
    let watch = subject.watch(&queue).await;
    let mut reader = watch.reader(false);
    subject.store().query_finished(&queue);
    subject.post(&queue, &messages(LONG_S, 1)).await;
    timeout(WAKE_UP_TIMEOUT, reader.changed()).await.expect("the reader is notified");

    subject.claim_for_one_second(&queue).await;
    // A waiter does this after it was notified and its query returned nothing.
    subject.store().query_finished(&queue);

    timeout(WAKE_UP_TIMEOUT, reader.changed()).await.expect("the reader is notified again");
}

pub(in crate::conformance) async fn a_release_wakes_waiters(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, 600).await.id;

    subject
        .assert_wakes_waiters(&queue, async || {
            subject.store().release_claim(&queue, claim).await.expect("the store answers");
        })
        .await;
}

pub(in crate::conformance) async fn a_returned_message_wakes_waiters(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 2)).await;
    let claim = subject.claim(&queue, 2, 600).await.id;
    let return_message = async |place: usize, delay_s| {
        let change = subject.store().return_message(&queue, claim, ids[place], delay_s).await;
        change.expect("the store answers");
    };

    subject.assert_wakes_waiters(&queue, async || return_message(0, 0).await).await;
    subject.pop(&queue, 1).await;
    subject.assert_wakes_waiters(&queue, async || return_message(1, 1).await).await;
}

pub(in crate::conformance) async fn a_notification_has_the_lowest_position_of_returned_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let rank = |place: usize| Some(ids[place].rank());

    let posting = async || drop(subject.post(&queue, &messages(LONG_S, 1)).await);
    assert_eq!(subject.older_position_after(&queue, posting).await, None);

    let claim = subject.claim(&queue, 3, 600).await.id;
    let return_message = async || {
        let change = subject.store().return_message(&queue, claim, ids[1], 0).await;
        change.expect("the store answers");
    };
    assert_eq!(subject.older_position_after(&queue, return_message).await, rank(1));
    assert_eq!(subject.older_position_after(&queue, async || subject.release(&queue, claim).await).await, rank(0));

    subject.claim_for_one_second(&queue).await;
    assert_eq!(subject.older_position_after(&queue, async || {}).await, rank(0), "at the expiry of a claim");

    let popped = subject.popped(&queue, 2).await;
    let restore = async || subject.store().restore_messages(&queue, &popped).await.expect("the store answers");
    assert_eq!(subject.older_position_after(&queue, restore).await, rank(0));
}

pub(in crate::conformance) async fn an_empty_page_says_how_far_the_query_got(subject: &Subject) {
    let queue = subject.id("q");
    let read_after = async |after: Option<Rank>| {
        let listing = Listing { after, not_from: Some(client(0)), ..Listing::first(10) };
        let page = subject.store().list_messages(&queue, &listing).await.expect("the store answers");
        (ids_of(&page.messages), page.reached)
    };
    assert_eq!(read_after(Rank::new(7)).await, (vec![], Rank::new(7)), "of no queue");
    subject.create(&queue).await;
    assert_eq!(read_after(None).await.0, []);

    // More messages than a script examines.
    let own = subject.post(&queue, &messages(LONG_S, 1_000)).await;
    let last = Some(own[999].rank());
    assert_eq!(read_after(None).await, (vec![], last));
    assert_eq!(read_after(last).await, (vec![], last));
    let other = subject.post_as(&client(1), &queue, &messages(LONG_S, 1)).await;
    assert_eq!(read_after(last).await, (other.clone(), Some(other[0].rank())));
}

pub(in crate::conformance) async fn a_renewal_that_shortens_a_claim_wakes_waiters_sooner(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let claim = subject.claim(&queue, 1, 600).await.id;
    let renew = async || {
        // The waiter knows by now that the claim expires in ten minutes.
        subject.queue_status(&queue).await;
        let term = sukkal_domain::Term { ttl_s: 1, grace_s: 60 };
        subject.store().renew_claim(&queue, claim, term).await.expect("the store answers");
    };

    subject.assert_wakes_waiters(&queue, renew).await;
}

pub(in crate::conformance) async fn one_worker_is_woken_per_message(subject: &Subject) {
    let queue = subject.queue("q").await;
    let watches = [subject.watch(&queue).await, subject.watch(&queue).await, subject.watch(&queue).await];
    let mut workers: Vec<_> = watches.iter().map(|watch| Box::pin(watch.worker())).collect();
    for worker in &mut workers {
        worker.as_mut().enable();
    }
    let mut reader = watches[0].reader(false);

    subject.post(&queue, &messages(LONG_S, 2)).await;
    timeout(WAKE_UP_TIMEOUT, reader.changed()).await.expect("the reader is notified");

    let mut workers = workers.into_iter();
    for worker in workers.by_ref().take(2) {
        timeout(WAKE_UP_TIMEOUT, worker).await.expect("the worker is notified");
    }
    let last = workers.next().expect("there are three workers");
    assert!(last.now_or_never().is_none(), "a third worker is notified of two messages");
}

pub(in crate::conformance) async fn each_message_of_a_fair_queue_wakes_a_worker(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    let watches = [subject.watch(&queue).await, subject.watch(&queue).await, subject.watch(&queue).await];
    let mut workers: Vec<_> = watches.iter().map(|watch| Box::pin(watch.worker())).collect();
    for worker in &mut workers {
        worker.as_mut().enable();
    }
    let mut reader = watches[0].reader(false);

    // Two writes into one shard: both are notified.
    for _ in 0..2 {
        let _older = reader.catch_up();
        subject.post_into(&queue, &[5]).await;
        timeout(WAKE_UP_TIMEOUT, reader.changed()).await.expect("the reader is notified");
    }

    let mut workers = workers.into_iter();
    for worker in workers.by_ref().take(2) {
        timeout(WAKE_UP_TIMEOUT, worker).await.expect("the worker is notified");
        assert_eq!(subject.claim(&queue, 1, 600).await.messages.len(), 1);
    }
    let last = workers.next().expect("there are three workers");
    assert!(last.now_or_never().is_none(), "a third worker is notified of two messages");
}

pub(in crate::conformance) async fn messages_returned_to_a_fair_queue_wake_waiters(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    subject.post_into(&queue, &[7]).await;
    let claim = subject.claim(&queue, 1, 600).await.id;

    subject.assert_wakes_waiters(&queue, async || subject.release(&queue, claim).await).await;

    subject.claim_for_one_second(&queue).await;
    subject.assert_wakes_waiters(&queue, async || {}).await;
    subject.pop(&queue, 1).await;
    let late = super::fair_helpers::later(super::fair_helpers::in_shard(3), 1);
    subject.assert_wakes_waiters(&queue, async || drop(subject.post(&queue, &[late]).await)).await;
}

pub(in crate::conformance) async fn an_unused_wake_up_is_passed_to_the_next_waiter(subject: &Subject) {
    let queue = subject.queue("q").await;
    let (first, second) = (subject.watch(&queue).await, subject.watch(&queue).await);
    let mut dropped = Box::pin(first.worker());
    dropped.as_mut().enable();
    let mut next = pin!(second.worker());
    next.as_mut().enable();
    let mut reader = first.reader(false);

    subject.post(&queue, &messages(LONG_S, 1)).await;
    timeout(WAKE_UP_TIMEOUT, reader.changed()).await.expect("the reader is notified");
    drop(dropped);

    timeout(WAKE_UP_TIMEOUT, next).await.expect("the next worker is notified");
}

pub(in crate::conformance) async fn a_delayed_message_wakes_readers_that_include_delayed_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let watch = subject.watch(&queue).await;
    let mut reader = watch.reader(true);

    subject.post_delayed(&queue, 900).await;

    timeout(WAKE_UP_TIMEOUT, reader.changed()).await.expect("the reader is notified");
}

pub(in crate::conformance) async fn a_queue_can_be_watched_again(subject: &Subject) {
    let queue = subject.queue("q").await;
    for _ in 0..3 {
        subject.assert_wakes_waiters(&queue, async || drop(subject.post(&queue, &messages(LONG_S, 1)).await)).await;
        subject.pop(&queue, 1).await;
    }
}

/// A queue that was created again is purged later than the deleted one.
pub(in crate::conformance) async fn watchers_are_notified_of_each_purge_of_subscriptions(subject: &Subject) {
    for _ in 0..2 {
        let queue = subject.queue("q").await;
        let watch = subject.watch(&queue).await;
        for _ in 0..2 {
            let stored = subject.queue_status(&queue).await.subscription_purge;
            let known = watch.subscription_purge().max(stored);
            subject.store().delete_subscriptions(&queue).await.expect("the store answers");
            timeout(WAKE_UP_TIMEOUT, watch.subscriptions_purged_after(known)).await.expect("the watcher is notified");
        }
        subject.store().delete_queue(&queue).await.expect("the store answers");
    }
}

pub(in crate::conformance) async fn the_queue_status_shows_counts_and_positions(subject: &Subject) {
    let queue = subject.queue("q").await;
    let empty = subject.queue_status(&queue).await;
    assert_eq!((empty.available, empty.next_due), (0, None));

    let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
    let last = ids[2].rank();
    let status = subject.queue_status(&queue).await;
    assert!(empty.position() < ids[0].rank(), "later posts follow the position");
    assert!(status.position() >= last, "earlier posts are at or before the position");
    assert_eq!((status.available, status.last, status.next_due), (3, last, None));

    subject.claim(&queue, 1, 600).await;
    subject.post_delayed(&queue, 60).await;
    let status = subject.queue_status(&queue).await;
    let minute = Duration::from_secs(60);
    assert_eq!((status.available, status.last), (2, last));
    assert!(status.next_due.is_some_and(|due| due <= minute && due > minute / 2), "{status:?}");
    assert_eq!(subject.queue_status(&subject.id("missing")).await.available, 0);
}

pub(in crate::conformance) async fn the_position_does_not_go_back_when_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.rewind(&queue, Duration::from_secs(100)).await;

    assert_eq!(subject.queue_status(&queue).await.position(), ids[0].rank());
}
