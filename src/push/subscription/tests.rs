//! Tests of the state machine.

use super::*;
use sukkal_domain::client::Poster;
use sukkal_domain::message::Nonce;
use sukkal_domain::{Body, ProjectId, QueueId, Revision, SubscriptionId, SubscriptionSettings};

const DISABLE_AFTER: Duration = Duration::from_secs(3_600);
const SUBSCRIBER: &str = "http://a.example/";

fn message(rank: u64) -> Arc<Message> {
    let queue = QueueId::new(ProjectId::new("p").unwrap(), "q".parse().unwrap()).unwrap();
    Arc::new(Message {
        id: MessageId::new(&queue, Rank::new(rank).unwrap(), Nonce::from_bits(1)),
        ttl_s: 60,
        created_s: 0,
        age_s: 0,
        claim: None,
        claim_count: 0,
        first_claim_ms: None,
        state: None,
        origin: None,
        trace: None,
        poster: Poster::from_bytes([0; 8]),
        body: Body::from_msgpack(vec![0xc0].into()),
    })
}

fn subscriber(options: &serde_json::Value) -> SubscriptionDeliveries {
    let settings = SubscriptionSettings::new(SUBSCRIBER.to_owned(), options.as_object().unwrap().into());
    let options = Arc::new(DeliveryOptions::parse(&settings.options).unwrap());
    let policy = RetryPolicy::from_settings(options.retry_policy.as_ref(), None);
    let id = SubscriptionId::random();
    let subscription = Subscription { id, revision: Revision(1), ttl_s: 60, age_s: 0, settings };
    SubscriptionDeliveries::new(subscription, options, policy, Progress::default(), false, Instant::now())
}

fn feed(last: u64, total: u64) -> FeedState {
    FeedState { last: Rank::new(last).unwrap(), total, ..FeedState::default() }
}

fn rank(micros: u64) -> Rank {
    Rank::new(micros).unwrap()
}

fn next(subscriber: &mut SubscriptionDeliveries, now_us: u64) -> Option<Delivery> {
    subscriber.next(now_us, |_, _| Ok::<_, ()>(true)).unwrap()
}

fn end(
    subscriber: &mut SubscriptionDeliveries,
    delivery: &Delivery,
    result: AttemptResult,
    now_us: u64,
) -> Option<String> {
    let attempt = Attempt {
        message: 0,
        number: delivery.attempt,
        at_s: 0,
        status: None,
        duration_ms: 0,
        error: None,
        response: String::new(),
    };
    let outcome = Outcome { message: delivery.message.id, subscriber: SUBSCRIBER.to_owned(), attempt, result };
    subscriber.record(delivery, outcome, now_us, DISABLE_AFTER)
}

const FAILED: AttemptResult = AttemptResult::Failed { retry_after: None, is_given_up: false };

/// Returns a failure with `Retry-After`.
fn failed_for(seconds: u64) -> AttemptResult {
    AttemptResult::Failed { retry_after: Some(Duration::from_secs(seconds)), is_given_up: false }
}

#[test]
fn a_message_that_has_begun_is_in_flight_until_its_outcome() {
    let mut one = subscriber(&serde_json::json!({}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());

    let first = next(&mut one, 0).unwrap();
    let change = one.take_change().unwrap();
    assert_eq!((change.progress.position, &*change.progress.in_flight), (rank(5), &[first.message.id][..]));

    end(&mut one, &first, AttemptResult::Delivered, 0);
    let change = one.take_change().unwrap();
    assert_eq!((change.progress.delivered, change.progress.in_flight.len()), (1, 0));
}

/// Row 8.6-10.
#[test]
fn a_failure_adds_a_retry_in_the_same_change() {
    let mut one = subscriber(&serde_json::json!({"_retry_policy": {"retries_with_no_delay": 0}}));
    one.add_messages(Rank::MIN, rank(9), &[message(5)], Instant::now());
    let first = next(&mut one, 0).unwrap();

    end(&mut one, &first, FAILED, 1_000_000);

    let change = one.take_change().unwrap();
    assert_eq!(change.progress.in_flight, []);
    assert_eq!(change.new_retries.len(), 1);
    assert_eq!((change.new_retries[0].attempts, change.progress.retries), (1, 1));
    assert!(change.progress.next_retry_us >= 6_000_000, "the minimum delay is five seconds");
}

#[test]
fn an_ordered_subscription_sends_one_at_a_time_and_a_failure_holds_back_the_rest() {
    let mut one = subscriber(&serde_json::json!({"ordered": true}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());

    let first = next(&mut one, 0).unwrap();
    assert!(next(&mut one, 0).is_none(), "one at a time");
    end(&mut one, &first, FAILED, 0);
    assert!(next(&mut one, 0).is_none(), "the retry comes first");

    let retries = one.take_change().unwrap().new_retries;
    assert!(one.wants_retries(0).is_some());
    one.add_retries(retries, 0);
    let again = next(&mut one, 0).unwrap();
    assert_eq!((again.message.id, again.attempt), (first.message.id, 2));
    end(&mut one, &again, AttemptResult::Delivered, 0);
    assert_eq!(next(&mut one, 0).unwrap().message.id, message(7).id);
}

#[test]
fn messages_that_were_gone_before_they_were_read_are_missed() {
    let mut one = subscriber(&serde_json::json!({}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());
    while next(&mut one, 0).is_some() {}
    one.note_feed(&feed(9, 5));

    assert_eq!((one.progress.missed, one.progress.position), (3, rank(9)));
    one.note_feed(&feed(9, 5));
    assert_eq!(one.progress.missed, 3, "each is counted once");
}

#[test]
fn messages_that_are_read_again_after_a_request_to_go_back_are_not_counted_twice() {
    let mut one = subscriber(&serde_json::json!({}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());
    while let Some(delivery) = next(&mut one, 0) {
        end(&mut one, &delivery, AttemptResult::Delivered, 0);
    }

    one.seek(rank(4), &feed(9, 2));
    one.add_messages(rank(4), rank(9), &[message(5), message(7)], Instant::now());
    while let Some(delivery) = next(&mut one, 0) {
        end(&mut one, &delivery, AttemptResult::Delivered, 0);
    }

    one.note_feed(&feed(9, 2));
    assert_eq!((one.progress.delivered, one.progress.missed), (4, 0));
}

#[test]
fn a_subscription_without_room_for_retries_reads_no_further() {
    let mut one = subscriber(&serde_json::json!({}));
    assert!(one.wants_messages(&feed(9, 1), Instant::now(), 0).is_some());

    one.progress.retries = RETRIES_MAX;

    assert!(one.wants_messages(&feed(9, 1), Instant::now(), 0).is_none());
}

#[test]
fn a_subscriber_that_is_gone_or_has_failed_for_too_long_is_disabled() {
    let mut one = subscriber(&serde_json::json!({}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());
    let (first, second) = (next(&mut one, 0).unwrap(), next(&mut one, 0).unwrap());

    assert_eq!(end(&mut one, &first, FAILED, 1), None);
    let later_us = 1 + micros(DISABLE_AFTER);
    assert!(end(&mut one, &second, FAILED, later_us).is_some());

    let mut other = subscriber(&serde_json::json!({}));
    other.add_messages(Rank::MIN, rank(9), &[message(5)], Instant::now());
    let delivery = next(&mut other, 0).unwrap();
    assert!(end(&mut other, &delivery, AttemptResult::Gone, 0).is_some());
    assert_eq!(other.progress.retries, 1, "the message is kept");
}

#[test]
fn nothing_is_sent_while_the_subscriber_has_asked_to_wait() {
    let mut one = subscriber(&serde_json::json!({}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());
    let first = next(&mut one, 0).unwrap();
    end(&mut one, &first, failed_for(7), 0);

    assert!(next(&mut one, 6_999_999).is_none());
    assert!(next(&mut one, 7_000_000).is_some());
}

#[test]
fn a_message_has_one_retry_however_often_it_is_requested() {
    let mut one = subscriber(&serde_json::json!({"concurrency": 1, "_retry_policy": {"retries_with_no_delay": 0}}));
    one.add_messages(Rank::MIN, rank(9), &[message(5)], Instant::now());
    let first = next(&mut one, 0).unwrap();

    one.redeliver(&message(5), 0);
    one.seek(rank(4), &feed(9, 1));
    end(&mut one, &first, FAILED, 0);
    one.redeliver(&message(5), 0);
    one.add_messages(rank(4), rank(9), &[message(5)], Instant::now());

    assert!(next(&mut one, 0).is_none(), "the retry is not due");
    let change = one.take_change().unwrap();
    assert_eq!((change.new_retries.len(), change.progress.retries, change.progress.position), (1, 1, rank(9)));
    one.add_retries(change.new_retries, 60_000_000);
    let again = next(&mut one, 60_000_000).unwrap();
    end(&mut one, &again, AttemptResult::Delivered, 60_000_000);
    assert_eq!((one.progress.retries, one.progress.retry_bytes), (0, 0));
}

#[test]
fn a_message_that_is_requested_before_its_turn_is_sent_once() {
    let mut one = subscriber(&serde_json::json!({"concurrency": 1}));
    one.redeliver(&message(5), 0);
    let retries = one.take_change().unwrap().new_retries;
    one.add_retries(retries, 0);
    let first = next(&mut one, 0).unwrap();
    end(&mut one, &first, FAILED, 0);

    one.add_messages(Rank::MIN, rank(9), &[message(5)], Instant::now());

    assert!(next(&mut one, 0).is_none());
    assert_eq!(one.progress.retries, 1);
}

#[test]
fn retries_that_the_store_does_not_have_are_not_counted() {
    let mut one = subscriber(&serde_json::json!({"ordered": true}));
    (one.progress.retries, one.progress.retry_bytes, one.progress.next_retry_us) = (3, 99, 1);
    assert!(one.wants_retries(2).is_some());

    one.add_retries(Vec::new(), 2);

    assert_eq!((one.progress.retries, one.progress.retry_bytes, one.next_due_us(2)), (0, 0, None));
    assert!(one.take_change().is_some() && one.may_read());
}

#[test]
fn a_subscription_that_can_send_nothing_is_due_at_no_past_time() {
    let policy = serde_json::json!({"retries_with_no_delay": 9});
    let mut one = subscriber(&serde_json::json!({"concurrency": 1, "_retry_policy": policy}));
    let both = [message(5), message(7)];
    one.add_messages(Rank::MIN, rank(9), &both, Instant::now());
    for _ in &both {
        let delivery = next(&mut one, 0).unwrap();
        end(&mut one, &delivery, FAILED, 0);
    }
    let retries = one.take_change().unwrap().new_retries;
    one.add_retries(retries, 9);

    let running = next(&mut one, 9).unwrap();
    assert_eq!(one.next_due_us(9), None, "an outcome comes first");
    let hold = failed_for(7);
    end(&mut one, &running, hold, 10);
    one.take_change();
    assert_eq!(one.next_due_us(11), Some(7_000_010));
    assert!(one.is_idle(&feed(9, 2), Instant::now(), 11), "a held subscription has nothing to do");
    assert!(!one.is_idle(&feed(9, 2), Instant::now(), 7_000_010));
    one.stop(SubscriptionState::Paused(None));
    assert!(one.is_idle(&feed(9, 2), Instant::now(), 7_000_010), "a paused one neither");
}

#[test]
fn a_subscription_is_not_due_because_of_a_hold_that_is_over() {
    let mut one = subscriber(&serde_json::json!({}));
    one.progress.hold_until_us = 5;

    assert_eq!((one.next_due_us(4), one.next_due_us(5)), (Some(5), None));
}

#[test]
fn a_message_is_repeated_at_once_a_few_times_only() {
    let policy = serde_json::json!({"retries_with_no_delay": u32::MAX});
    let mut one = subscriber(&serde_json::json!({"_retry_policy": policy}));

    let mut due_us = |attempt| {
        let delivery = one.delivery(message(5), attempt, 0, 0);
        one.running.insert(delivery.message.id, None);
        end(&mut one, &delivery, FAILED, 0);
        one.take_change().unwrap().new_retries[0].due_us
    };

    assert_eq!((due_us(1), due_us(9)), (0, 0));
    assert!(due_us(10) >= 1_000_000);
}

#[test]
fn a_message_whose_dead_letter_is_not_posted_is_sent_again_later() {
    let mut one = subscriber(&serde_json::json!({}));
    let delivery = one.delivery(message(5), 99, 0, 0);
    assert!(delivery.is_last);
    one.running.insert(delivery.message.id, None);

    end(&mut one, &delivery, FAILED, 0);

    let retries = one.take_change().unwrap().new_retries;
    assert!(retries[0].due_us >= 10_000_000);
    one.add_retries(retries, 60_000_000);
    let again = next(&mut one, 60_000_000).unwrap();
    end(&mut one, &again, AttemptResult::Failed { retry_after: None, is_given_up: true }, 60_000_000);
    assert_eq!((one.progress.given_up, one.progress.retries), (1, 0));
}

#[test]
fn a_shorter_wait_does_not_end_a_longer_one() {
    let mut one = subscriber(&serde_json::json!({}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());
    let (first, second) = (next(&mut one, 0).unwrap(), next(&mut one, 0).unwrap());

    end(&mut one, &first, failed_for(7), 0);
    end(&mut one, &second, failed_for(1), 0);

    assert_eq!(one.take_change().unwrap().progress.hold_until_us, 7_000_000);
}

#[test]
fn messages_that_an_earlier_holder_had_in_flight_are_sent_again() {
    let mut one = subscriber(&serde_json::json!({}));
    one.progress.in_flight = vec![message(5).id, message(7).id];

    assert_eq!(one.abandoned().len(), 2);
    one.redeliver_abandoned(&[message(5)], 0);

    let change = one.take_change().unwrap();
    assert_eq!((change.progress.in_flight.len(), change.progress.missed), (0, 1));
    assert_eq!((change.new_retries.len(), change.new_retries[0].attempts), (1, 0));
}

#[test]
fn messages_for_which_there_is_no_memory_are_read_again() {
    let mut one = subscriber(&serde_json::json!({}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());
    let first = next(&mut one, 0).unwrap();
    assert_eq!(one.next_bytes(), 1);

    one.unload();

    assert_eq!(one.next_bytes(), 0);
    assert_eq!(one.wants_messages(&feed(9, 2), Instant::now(), 0), Some(first.message.id.rank()));
}

#[test]
fn a_former_subscriber_neither_disables_nor_delays() {
    let mut one = subscriber(&serde_json::json!({"_retry_policy": {"retries_with_no_delay": 0}}));
    one.add_messages(Rank::MIN, rank(9), &[message(5), message(7)], Instant::now());
    let (first, second) = (next(&mut one, 0).unwrap(), next(&mut one, 0).unwrap());
    one.subscription.settings.subscriber = "http://b.example/".to_owned();

    assert_eq!(end(&mut one, &first, AttemptResult::Gone, 0), None);
    assert_eq!(end(&mut one, &second, failed_for(3_600), 0), None);

    let progress = one.take_change().unwrap().progress;
    assert_eq!((progress.retries, progress.hold_until_us, progress.failing_since_us), (2, 0, 0));
}

#[test]
fn messages_that_were_read_before_a_pause_are_read_again_after_it() {
    let mut one = subscriber(&serde_json::json!({}));
    let (now, feed) = (Instant::now(), feed(3, 3));
    let after = one.wants_messages(&feed, now, 0).unwrap();
    one.add_messages(after, rank(3), &[message(1), message(2), message(3)], now);

    for state in [SubscriptionState::Paused(None), SubscriptionState::Active] {
        let mut subscription = one.subscription.clone();
        subscription.settings.state = state;
        one.update(subscription, one.options.clone());
    }

    assert!(next(&mut one, 0).is_none());
    assert_eq!(one.wants_messages(&feed, now, 0), Some(after));
}
