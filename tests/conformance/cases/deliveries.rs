//! Deliveries: the progress of each subscription, its retries and its attempts.

use std::time::Duration;

use serde_json::json;
use sukkal_domain::{
    ATTEMPTS_KEPT, MessageId, NewMessage, NewSubscription, Origin, Progress, QueueId, Rank, SubscriptionId,
    SubscriptionSettings, SubscriptionState, TraceContext,
};
use sukkal_storage::{DeliveryChange, FeedState};
use uuid::Uuid;

use super::delivery_helpers::{attempt, delivered, expiring_subscription, retry, settings, subscription};
use crate::conformance::support::subject::{LONG_S, Subject, body, message, messages};

const OK: &str = "the store answers";
const S: Duration = Duration::from_secs(1);

impl Subject {
    /// Creates a subscription that begins after this position.
    async fn subscribe_after(&self, queue: &QueueId, subscriber: &str, after: Option<Rank>) -> SubscriptionId {
        self.subscribe_with(queue, NewSubscription { after, ..subscription(subscriber) }).await
    }

    /// Returns the state of the feed. The queue must have a subscription.
    async fn feed_state(&self, queue: &QueueId) -> FeedState {
        self.lease(queue, 1).await.1
    }

    /// Saves a change with the lease of the first holder.
    async fn save_change(&self, queue: &QueueId, change: &DeliveryChange) {
        let (fence, _) = self.lease(queue, 1).await;
        assert!(self.save(queue, fence, std::slice::from_ref(change)).await.is_some());
    }
}

fn last_of(ids: &[MessageId]) -> Rank {
    ids.last().expect("messages were posted").rank()
}

fn delayed(delay_s: u32) -> NewMessage {
    NewMessage { delay_s, ..message(LONG_S, 0) }
}

pub(in crate::conformance) async fn a_new_subscription_begins_at_the_end_of_the_feed(subject: &Subject) {
    let queue = subject.queue("q").await;
    let empty = subject.subscribe(&queue, "http://empty").await;
    let state = subject.feed_state(&queue).await;
    let expected = Progress { position: state.last, counted_to: state.last, ..Progress::default() };
    assert_eq!(subject.progress_of(&queue, empty).await, expected);
    let posted = subject.post(&queue, &messages(LONG_S, 3)).await;
    assert!(posted[0].rank() > state.last);
    subject.post(&queue, &[delayed(600)]).await;
    subject.delete_messages(&queue, &posted[1..]).await;

    let id = subject.subscribe(&queue, "http://a").await;

    let last = last_of(&posted);
    let expected = Progress { position: last, counted_to: last, feed_total: 3, ..Progress::default() };
    assert_eq!(subject.progress_of(&queue, id).await, expected);
    assert_eq!(subject.list_subscriptions(&queue, None, 10).await.len(), 2);
}

pub(in crate::conformance) async fn a_new_subscription_can_begin_at_an_earlier_position(subject: &Subject) {
    let queue = subject.queue("q").await;
    let posted = subject.post(&queue, &messages(LONG_S, 3)).await;
    let last = last_of(&posted);
    let beyond = Rank::new(last.micros() + 1);

    for (after, position) in [
        (Some(posted[0].rank()), posted[0].rank()),
        (Some(Rank::MIN), Rank::MIN),
        (Some(last), last),
        (beyond, last),
        (Some(Rank::MAX), last),
    ] {
        let id = subject.subscribe_after(&queue, &format!("http://{after:?}"), after).await;

        let expected = Progress { position, counted_to: last, feed_total: 3, ..Progress::default() };
        assert_eq!(subject.progress_of(&queue, id).await, expected, "after {after:?}");
    }
}

pub(in crate::conformance) async fn a_new_subscription_begins_after_messages_whose_delay_is_over(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    let due = subject.post(&queue, &[delayed(5)]).await;
    subject.advance(&queue, 7 * S).await;

    let id = subject.subscribe(&queue, "http://a").await;

    let last = last_of(&due);
    let expected = Progress { position: last, counted_to: last, feed_total: 3, ..Progress::default() };
    assert_eq!(subject.progress_of(&queue, id).await, expected);
}

pub(in crate::conformance) async fn the_feed_total_counts_messages_when_they_become_visible(subject: &Subject) {
    let queue = subject.queue("q").await;
    let early = subject.post(&queue, &messages(LONG_S, 2)).await;
    subject.subscribe(&queue, "http://a").await;
    let expect = async |total, last, when| {
        let state = subject.feed_state(&queue).await;
        assert_eq!((state.total, state.last), (total, last), "{when}");
    };
    expect(2, last_of(&early), "before").await;

    let posted = subject.post(&queue, &messages(LONG_S, 3)).await;
    expect(5, last_of(&posted), "after a post").await;
    let later = subject.post(&queue, &[delayed(5), delayed(600), delayed(600), delayed(600)]).await;
    expect(5, last_of(&posted), "after a delayed post").await;
    subject.advance(&queue, 7 * S).await;
    expect(6, later[0].rank(), "after the release of a message").await;
    subject.delete_messages(&queue, &posted).await;
    subject.claim(&queue, 1, 60).await;
    expect(6, later[0].rank(), "after a deletion and a claim").await;
    subject.delete_messages(&queue, &later[1..2]).await;
    expect(7, later[0].rank(), "after the deletion of a delayed message").await;
    subject.store().purge_queue(&queue).await.expect(OK);
    expect(9, later[0].rank(), "after a purge with two delayed messages").await;
    let last = subject.post(&queue, &messages(LONG_S, 1)).await;
    expect(10, last_of(&last), "after a post to the purged queue").await;
}

pub(in crate::conformance) async fn visible_messages_are_pending_until_they_are_done(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    let id = subject.subscribe(&queue, "http://a").await;
    let expect = async |pending, when| {
        let found = subject.find_subscription(&queue, id).await.expect("it exists");
        assert_eq!(found.pending, pending, "{when}");
    };
    expect(0, "of a new subscription").await;

    let posted = subject.post(&queue, &messages(LONG_S, 3)).await;
    expect(3, "after a post").await;
    subject.post(&queue, &[delayed(5), delayed(600)]).await;
    expect(3, "after a delayed post").await;
    subject.advance(&queue, 7 * S).await;
    expect(4, "when a delay is over").await;
    let paused = SubscriptionSettings { state: SubscriptionState::Paused(None), ..settings("http://a") };
    subject.change(&queue, id, paused, None).await;
    expect(4, "after a pause").await;
    let mut change = delivered(id, 1);
    change.progress =
        Progress { feed_total: 2, read: 3, in_flight: posted[..1].to_vec(), retries: 1, ..change.progress };
    subject.save_change(&queue, &change).await;
    expect(3, "with one that was not read, one in flight and one with a retry").await;
}

pub(in crate::conformance) async fn each_change_of_a_subscription_changes_their_version(subject: &Subject) {
    let queue = subject.queue("q").await;
    let keep = subject.subscribe(&queue, "http://keep").await;
    let mut versions = vec![subject.feed_state(&queue).await.subscriptions_version];
    let mut assert_new = async |when: &str| {
        let state = subject.feed_state(&queue).await;
        assert_eq!(subject.feed_state(&queue).await.subscriptions_version, state.subscriptions_version);
        assert!(!versions.contains(&state.subscriptions_version), "after {when}");
        versions.push(state.subscriptions_version);
    };

    let id = subject.subscribe_with(&queue, expiring_subscription("http://a")).await;
    assert_new("a creation").await;
    subject.change(&queue, id, settings("http://b"), None).await;
    assert_new("an update").await;
    subject.change(&queue, id, settings("http://b"), Some(50)).await;
    assert_new("a new time to live").await;
    subject.advance(&queue, 62 * S).await;
    assert_eq!(subject.list_subscriptions(&queue, None, 10).await.len(), 1);
    assert_new("an expiry").await;
    let id = subject.subscribe(&queue, "http://a").await;
    assert_new("a creation").await;
    subject.unsubscribe(&queue, id).await;
    assert_new("a deletion").await;
    subject.store().delete_subscriptions(&queue).await.expect(OK);
    subject.subscribe(&queue, "http://a").await;
    assert_new("the deletion of all").await;

    // Posts, and progress that is saved, do not change it.
    let before = subject.feed_state(&queue).await.subscriptions_version;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.save_change(&queue, &delivered(keep, 1)).await;
    assert_eq!(subject.feed_state(&queue).await.subscriptions_version, before);
}

pub(in crate::conformance) async fn saved_progress_is_returned(subject: &Subject) {
    let queue = subject.queue("q").await;
    let posted = subject.post(&queue, &messages(LONG_S, 3)).await;
    let (id, other) = (subject.subscribe(&queue, "http://a").await, subject.subscribe(&queue, "http://b").await);
    let untouched = subject.progress_of(&queue, other).await;
    let progress = Progress {
        position: posted[0].rank(),
        counted_to: posted[1].rank(),
        read: 1,
        feed_total: 2,
        missed: 3,
        delivered: 4,
        given_up: 5,
        attempts: 6,
        failing_since_us: 7,
        last_request: 8,
        next_retry_us: 9,
        retries: 10,
        retry_bytes: 11,
        hold_until_us: 99,
        in_flight: vec![posted[2], posted[0]],
    };

    subject.save_change(&queue, &DeliveryChange { progress: progress.clone(), ..delivered(id, 0) }).await;

    assert_eq!(subject.progress_of(&queue, id).await, progress);
    assert_eq!(subject.progress_of(&queue, other).await, untouched);
    let listed = subject.list_subscriptions(&queue, None, 10).await;
    assert!(listed.iter().any(|found| found.subscription.id == id && found.progress == progress));
    subject.save_change(&queue, &delivered(id, 0)).await;
    assert_eq!(subject.progress_of(&queue, id).await, Progress::default());
}

/// Another reader never sees a part of the changes.
pub(in crate::conformance) async fn the_changes_of_a_save_are_stored_together(subject: &Subject) {
    let queue = subject.queue("q").await;
    for subscriber in ["http://a", "http://b", "http://c"] {
        subject.subscribe(&queue, subscriber).await;
    }
    let ids = subject.subscription_ids(&queue).await;
    let (fence, _) = subject.lease(&queue, 1).await;
    let writer = {
        let (subject, queue) = (subject.clone(), queue.clone());
        tokio::spawn(async move {
            for number in 1..=200 {
                let changes: Vec<_> = ids.iter().map(|id| delivered(*id, number)).collect();
                assert!(subject.save(&queue, fence, &changes).await.is_some());
            }
        })
    };

    let mut last = 0;
    while last < 200 {
        let listed = subject.list_subscriptions(&queue, None, 10).await;
        let numbers: Vec<_> = listed.iter().map(|found| found.progress.delivered).collect();
        assert!(numbers.len() == 3 && numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
        assert!(numbers[0] >= last, "{numbers:?} after {last}");
        last = numbers[0];
        tokio::task::yield_now().await;
        let first = async || subject.list_subscriptions(&queue, None, 1).await[0].progress.delivered;
        assert!(!writer.is_finished() || last == 200 || first().await == 200);
    }
    writer.await.expect("each save succeeds");
}

pub(in crate::conformance) async fn repeating_a_save_has_no_effect(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let posted = subject.list(&queue, None, 3).await;
    let id = subject.subscribe(&queue, "http://a").await;
    let (fence, state) = subject.lease(&queue, 1).await;
    let retries = [0, 1, 2].map(|number| retry(&posted[number], state.now_us + number as u64));
    let mut first = delivered(id, 1);
    first.attempts = (0..3).map(attempt).collect();
    first.new_retries = retries[..2].to_vec();
    let mut second = delivered(id, 2);
    second.attempts = (3..5).map(attempt).collect();
    second.ended_retries = retries[..2].iter().map(|retry| (retry.message.id, retry.due_us)).collect();
    let mut replaced = retry(&posted[1], state.now_us + 50);
    replaced.attempts = 2;
    second.new_retries = vec![retries[2].clone(), replaced];

    for change in [first, second] {
        let change = [change];
        subject.save(&queue, fence, &change).await.expect("the fence is the holder's");
        let contents = async || {
            let dues: Vec<_> = subject.retries(&queue, id).await.iter().map(|retry| retry.due_us).collect();
            (subject.progress_of(&queue, id).await, subject.attempts(&queue, id).await, dues)
        };
        let once = contents().await;

        subject.save(&queue, fence, &change).await.expect("the fence is the holder's");

        assert_eq!(contents().await, once);
    }
}

pub(in crate::conformance) async fn changes_of_a_deleted_subscription_have_no_effect(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let message = subject.list(&queue, None, 1).await.remove(0);
    let (id, left) = (subject.subscribe(&queue, "http://a").await, subject.subscribe(&queue, "http://b").await);
    let (fence, state) = subject.lease(&queue, 1).await;
    let changes = [id, left, SubscriptionId::random()].map(|id| {
        let mut change = delivered(id, 7);
        change.attempts.push(attempt(0));
        change.new_retries.push(retry(&message, state.now_us));
        change
    });
    subject.unsubscribe(&queue, id).await;

    assert!(subject.save(&queue, fence, &changes).await.is_some());

    assert_eq!(subject.subscription_ids(&queue).await, [left]);
    for change in &changes {
        let exists = change.subscription == left;
        let found = subject.find_subscription(&queue, change.subscription).await;
        assert_eq!(found.map(|found| found.progress.delivered), exists.then_some(7));
        assert_eq!(subject.attempts(&queue, change.subscription).await.is_some(), exists);
        assert_eq!(subject.retries(&queue, change.subscription).await.len(), usize::from(exists));
    }
}

pub(in crate::conformance) async fn retries_are_listed_in_the_order_in_which_they_are_due(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 5)).await;
    let posted = subject.list(&queue, None, 5).await;
    let (id, other) = (subject.subscribe(&queue, "http://a").await, subject.subscribe(&queue, "http://b").await);
    let now_us = subject.feed_state(&queue).await.now_us;
    let dues_us = [now_us + 9_000_000, now_us - 1, 255, 256, now_us + 8_000_000_000];
    let mut change = delivered(id, 0);
    change.new_retries = posted.iter().zip(dues_us).map(|(message, due_us)| retry(message, due_us)).collect();
    subject.save_change(&queue, &change).await;
    let mut elsewhere = delivered(other, 0);
    elsewhere.new_retries = vec![retry(&posted[0], 1)];
    subject.save_change(&queue, &elsewhere).await;

    let expected = [2, 3, 1, 0, 4].map(|at: usize| (posted[at].id, dues_us[at]));
    for limit in 1..=6 {
        let listed = subject.store().list_retries(&queue, id, None, limit).await.expect(OK);
        let listed: Vec<_> = listed.iter().map(|retry| (retry.message.id, retry.due_us)).collect();
        assert_eq!(listed, expected[..limit.min(5)]);
    }
    for start in 0..5 {
        let after = Some((expected[start].1, expected[start].0));
        let listed = subject.store().list_retries(&queue, id, after, 2).await.expect(OK);
        let listed: Vec<_> = listed.iter().map(|retry| (retry.message.id, retry.due_us)).collect();
        assert_eq!(listed, expected[start + 1..(start + 3).min(5)]);
    }
    assert_eq!(subject.retries(&queue, other).await.len(), 1);
}

pub(in crate::conformance) async fn a_retry_keeps_its_message(subject: &Subject) {
    let queue = subject.queue("q").await;
    let trace = Some(TraceContext::from_bytes([7; TraceContext::BYTES]));
    let origin =
        (Origin { queue: "other".parse().unwrap(), id: MessageId::from_bits(9), claim_count: 0 }, 1_000_000_000);
    let letter = NewMessage { body: body(&json!({"a": ["ä", null]})), ..message(50, 0) };
    subject.post_dead_letter(&queue, letter, &origin, trace).await;
    let message = subject.list(&queue, None, 1).await.remove(0);
    let id = subject.subscribe(&queue, "http://a").await;
    let due_us = subject.feed_state(&queue).await.now_us + 5;
    let mut change = delivered(id, 0);
    change.new_retries = vec![retry(&message, due_us)];
    change.new_retries[0].attempts = 3;
    subject.save_change(&queue, &change).await;

    subject.delete_messages(&queue, &[message.id]).await;
    subject.advance(&queue, 100 * S).await;

    let kept = subject.retries(&queue, id).await.remove(0);
    assert_eq!((kept.attempts, kept.due_us), (3, due_us));
    let kept = kept.message;
    assert_eq!((kept.id, kept.ttl_s, kept.created_s, kept.trace), (message.id, 50, message.created_s, trace));
    assert_eq!(kept.body, message.body);
    let passed_s = kept.age_s - message.age_s;
    assert!((100..=103).contains(&passed_s), "{passed_s} s later");
}

pub(in crate::conformance) async fn a_retry_can_be_replaced_and_ended(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let posted = subject.list(&queue, None, 3).await;
    let (id, other) = (subject.subscribe(&queue, "http://a").await, subject.subscribe(&queue, "http://b").await);
    let now_us = subject.feed_state(&queue).await.now_us;
    for id in [id, other] {
        let mut change = delivered(id, 0);
        change.new_retries = posted.iter().zip([10, 20, 30]).map(|(message, s)| retry(message, now_us + s)).collect();
        subject.save_change(&queue, &change).await;
    }

    let mut change = delivered(id, 0);
    change.ended_retries = vec![(posted[0].id, now_us + 10), (posted[1].id, now_us + 20)];
    let mut replacement = retry(&posted[0], now_us + 40);
    replacement.attempts = 2;
    change.new_retries = vec![replacement];
    subject.save_change(&queue, &change).await;

    let listed: Vec<_> = subject.retries(&queue, id).await;
    let listed: Vec<_> = listed.iter().map(|retry| (retry.message.id, retry.due_us, retry.attempts)).collect();
    assert_eq!(listed, [(posted[2].id, now_us + 30, 1), (posted[0].id, now_us + 40, 2)]);
    assert_eq!(subject.retries(&queue, other).await.len(), 3);
    let mut change = delivered(id, 0);
    change.ended_retries = vec![(posted[2].id, now_us + 30), (posted[0].id, now_us + 40)];
    subject.save_change(&queue, &change).await;
    assert_eq!(subject.retries(&queue, id).await, []);
}

pub(in crate::conformance) async fn the_last_attempts_are_kept_newest_first(subject: &Subject) {
    let queue = subject.queue("q").await;
    let (id, other) = (subject.subscribe(&queue, "http://a").await, subject.subscribe(&queue, "http://b").await);
    let kept = ATTEMPTS_KEPT as u64;
    let mut next = 0;
    for count in [3, 1, kept - 4, 1, 2 * kept + 7, 5] {
        let mut change = delivered(id, 0);
        change.attempts = (next..next + count).map(attempt).collect();
        subject.save_change(&queue, &change).await;
        next += count;

        let expected: Vec<_> = (0..next).rev().take(ATTEMPTS_KEPT).map(|number| attempt(number).1).collect();
        assert_eq!(subject.attempts(&queue, id).await, Some(expected), "after {next}");
    }
    assert_eq!(subject.attempts(&queue, other).await, Some(Vec::new()));
    assert_eq!(subject.attempts(&queue, SubscriptionId::random()).await, None);
    let mut success = attempt(next);
    (success.1.error, success.1.status, success.1.response) = (None, None, String::new());
    let mut change = delivered(id, 0);
    change.attempts = vec![success.clone()];
    subject.save_change(&queue, &change).await;
    assert_eq!(subject.attempts(&queue, id).await.expect("it exists")[0], success.1);
}

/// The holder knows the new state of the feed without another call.
pub(in crate::conformance) async fn a_save_returns_the_state_of_the_feed(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.subscribe(&queue, "http://a").await;
    let (fence, before) = subject.lease(&queue, 1).await;
    assert_eq!(before.total, 0);
    subject.post(&queue, &messages(LONG_S, 2)).await;
    let due = subject.post(&queue, &[delayed(5)]).await;
    subject.change(&queue, id, settings("http://b"), None).await;
    subject.advance(&queue, 7 * S).await;

    let after = subject.save(&queue, fence, &[]).await.expect("the fence is the holder's");

    assert_eq!((after.total, after.last), (3, last_of(&due)), "a message whose delay is over is visible");
    assert_ne!(after.subscriptions_version, before.subscriptions_version);
    let passed_us = after.now_us - before.now_us;
    assert!((7_000_000..60_000_000).contains(&passed_us), "{passed_us} µs");
    let taken = subject.store().take_delivery_lease(&queue, Uuid::from_u128(1)).await.expect(OK);
    assert_eq!(taken.map(|(fence, state)| (fence, FeedState { now_us: after.now_us, ..state })), Some((fence, after)));
}
