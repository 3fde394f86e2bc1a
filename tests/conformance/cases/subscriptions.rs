//! Subscriptions of a queue: created, listed, changed, deleted and expired.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Map, json};
use sukkal_domain::{
    Author, DeliveryRequest, NewSubscription, NumberedRequest, QueueId, Revision, SignatureAlgorithm, SigningKey,
    SubscriptionId, SubscriptionSettings, SubscriptionState,
};
use sukkal_storage::{SubscriptionChange, SubscriptionCreation, SubscriptionUpdate};

use super::delivery_helpers::{
    LASTING_S, MANY, attempt, delivered, expiring_subscription, retry, settings, subscription,
};
use crate::conformance::support::subject::{LONG_S, Subject, fresh_project, messages, queue_id};

const OK: &str = "the store answers";
const S: Duration = Duration::from_secs(1);

/// Returns settings that have a value everywhere.
fn full_settings(subscriber: &str) -> SubscriptionSettings {
    SubscriptionSettings {
        subscriber: subscriber.to_owned(),
        options: (&Map::from_iter([("a".to_owned(), json!([1, null, {"b": "ä"}])), ("c".to_owned(), json!(0.5))]))
            .into(),
        confirmed: false,
        keys: vec![
            SigningKey { algorithm: SignatureAlgorithm::Ed25519, bytes: vec![0, 255, 7].into(), until_s: None },
            SigningKey { algorithm: SignatureAlgorithm::HmacSha256, bytes: vec![1].into(), until_s: Some(u64::MAX) },
        ],
        state: SubscriptionState::Disabled("gone".to_owned()),
        requests: vec![
            NumberedRequest { number: 7, request: DeliveryRequest::Seek(5) },
            NumberedRequest { number: 8, request: DeliveryRequest::Redeliver(vec![u128::MAX, 0]) },
        ],
        author: Some(Author { user: Some("user:ö".to_owned()), roles: vec!["producer".to_owned()] }),
    }
}

pub(in crate::conformance) async fn a_new_subscription_has_what_its_owner_has_set(subject: &Subject) {
    let queue = subject.queue("q").await;
    let new = NewSubscription { ttl_s: 70, settings: full_settings("http://a"), ..subscription("") };
    let before_us = subject.store().queue_status(&queue).await.expect(OK).now_us;

    let id = subject.subscribe_with(&queue, new.clone()).await;

    let found = subject.subscription(&queue, id).await;
    assert_eq!((found.id, found.ttl_s, &found.settings), (id, 70, &new.settings));
    assert!(found.age_s <= 2, "{} s old", found.age_s);
    assert!(found.revision.0 >= before_us, "{:?} is before {before_us}", found.revision);
    subject.advance(&queue, 30 * S).await;
    let age_s = subject.subscription(&queue, id).await.age_s;
    assert!((30..=32).contains(&age_s), "{age_s} s old after 30 s");
    assert_eq!(subject.attempts(&queue, id).await, Some(Vec::new()));
    assert_eq!(subject.retries(&queue, id).await, []);
}

pub(in crate::conformance) async fn repeating_a_creation_has_no_effect(subject: &Subject) {
    let queue = subject.queue("q").await;
    let new = subscription("http://a");
    let id = subject.subscribe_with(&queue, new.clone()).await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let first = subject.find_subscription(&queue, id).await;

    let other = NewSubscription { settings: settings("http://b"), ttl_s: 7, ..new.clone() };
    for repeated in [&new, &other] {
        let creation = subject.store().create_subscription(&queue, repeated, 1).await;
        assert_eq!(creation, Ok(SubscriptionCreation::Created), "even if the queue has the maximum number");
    }

    assert_eq!(subject.find_subscription(&queue, id).await, first);
    assert_eq!(subject.subscription_ids(&queue).await, [id]);
}

pub(in crate::conformance) async fn a_queue_has_one_subscription_of_a_subscriber(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    let id = subject.subscribe(&queue, "http://a").await;
    let first = subject.subscription(&queue, id).await;

    for count_max in [MANY, 1] {
        let creation = subject.store().create_subscription(&queue, &subscription("http://a"), count_max).await;
        assert_eq!(creation, Ok(SubscriptionCreation::Exists(first.clone())), "at most {count_max}");
    }
    subject.subscribe(&queue, "http://a/").await;
    subject.subscribe(&other, "http://a").await;
    assert_eq!(subject.subscription_ids(&queue).await.len(), 2);

    subject.unsubscribe(&queue, id).await;
    subject.subscribe(&queue, "http://a").await;
}

pub(in crate::conformance) async fn concurrent_creations_of_a_subscriber_create_one(subject: &Subject) {
    let queue = subject.queue("q").await;
    let all: Vec<_> = (0..8).map(|_| subscription("http://a")).collect();

    let outcomes = join_all(all.iter().map(|new| subject.try_subscribe(&queue, new))).await;

    let created = outcomes.iter().filter(|outcome| **outcome == SubscriptionCreation::Created).count();
    assert_eq!(created, 1, "{outcomes:?}");
    let listed = subject.subscription_ids(&queue).await;
    assert_eq!(listed.len(), 1);
    for outcome in outcomes {
        match outcome {
            SubscriptionCreation::Exists(other) => assert_eq!(other.id, listed[0]),
            outcome => assert_eq!(outcome, SubscriptionCreation::Created),
        }
    }
}

/// The subscription that has the subscriber may be deleted before a creation has read it.
pub(in crate::conformance) async fn a_creation_succeeds_or_finds_a_subscription_that_is_being_deleted(
    subject: &Subject,
) {
    let queue = subject.queue("q").await;
    let create_and_delete = async || {
        for _ in 0..20 {
            let new = subscription("http://a");
            match subject.try_subscribe(&queue, &new).await {
                SubscriptionCreation::Created => subject.unsubscribe(&queue, new.id).await,
                SubscriptionCreation::Exists(other) => assert_eq!(other.settings, new.settings),
                outcome => panic!("{outcome:?}"),
            }
        }
    };

    join_all((0..4).map(|_| create_and_delete())).await;

    assert_eq!(subject.subscription_ids(&queue).await, []);
}

pub(in crate::conformance) async fn a_queue_has_a_maximum_number_of_subscriptions(subject: &Subject) {
    let queue = subject.queue("q").await;
    let create = async |new: NewSubscription| subject.store().create_subscription(&queue, &new, 3).await.expect(OK);
    let first = subject.subscribe(&queue, "http://a").await;
    assert_eq!(create(expiring_subscription("http://b")).await, SubscriptionCreation::Created);
    assert_eq!(create(subscription("http://c")).await, SubscriptionCreation::Created);

    assert_eq!(create(subscription("http://d")).await, SubscriptionCreation::TooMany);
    assert_eq!(subject.subscription_ids(&queue).await.len(), 3);

    subject.unsubscribe(&queue, first).await;
    assert_eq!(create(subscription("http://d")).await, SubscriptionCreation::Created);
    assert_eq!(create(subscription("http://e")).await, SubscriptionCreation::TooMany);
    subject.advance(&queue, 62 * S).await;
    assert_eq!(create(subscription("http://e")).await, SubscriptionCreation::Created, "expired ones do not count");
    assert_eq!(create(subscription("http://f")).await, SubscriptionCreation::TooMany);
}

pub(in crate::conformance) async fn a_queue_that_does_not_exist_has_no_subscriptions(subject: &Subject) {
    let queue = subject.id("absent");
    let new = subscription("http://a");
    let change = SubscriptionChange { last_known_revision: Revision(1), settings: settings("http://a"), ttl_s: None };

    assert_eq!(subject.try_subscribe(&queue, &new).await, SubscriptionCreation::NoQueue);

    assert_eq!(subject.get(&queue).await, None);
    assert_eq!(subject.find_subscription(&queue, new.id).await, None);
    assert_eq!(subject.subscription_ids(&queue).await, []);
    assert_eq!(subject.attempts(&queue, new.id).await, None);
    assert_eq!(subject.retries(&queue, new.id).await, []);
    let update = subject.store().update_subscription(&queue, new.id, &change).await;
    assert_eq!(update, Ok(SubscriptionUpdate::Stale));
    subject.unsubscribe(&queue, new.id).await;
    subject.store().delete_subscriptions(&queue).await.expect(OK);
    assert_eq!(subject.get(&queue).await, None);
}

pub(in crate::conformance) async fn subscriptions_are_listed_in_the_order_of_their_ids(subject: &Subject) {
    let queue = subject.queue("q").await;
    let mut ids = Vec::new();
    for number in 0..7 {
        ids.push(subject.subscribe(&queue, &format!("http://{number}")).await);
    }
    ids.sort_unstable();

    for limit in [1, 2, 3, 7, 8] {
        let mut listed = Vec::new();
        for _ in 0..=ids.len().div_ceil(limit) {
            let expected = limit.min(ids.len() - listed.len());
            let page = subject.list_subscriptions(&queue, listed.last().copied(), limit).await;
            assert_eq!(page.len(), expected, "a page is shorter than {limit} only at the end");
            listed.extend(page.iter().map(|found| found.subscription.id));
        }
        assert_eq!(listed, ids, "in pages of {limit}");
    }
    subject.unsubscribe(&queue, ids[2]).await;
    let after = subject.list_subscriptions(&queue, Some(ids[2]), 1).await;
    assert_eq!(after[0].subscription.id, ids[3], "a list can start after an id that does not exist any more");
}

pub(in crate::conformance) async fn a_page_of_subscriptions_has_a_bounded_size(subject: &Subject) {
    let queue = subject.queue("q").await;
    let options = Map::from_iter([("a".to_owned(), json!("x".repeat(60_000)))]);
    let mut ids = Vec::new();
    for number in 0..20 {
        let settings = SubscriptionSettings { options: (&options).into(), ..settings(&format!("http://{number}")) };
        ids.push(subject.subscribe_with(&queue, NewSubscription { settings, ..subscription("") }).await);
    }
    ids.sort_unstable();

    let (mut listed, mut pages) = (Vec::new(), Vec::new());
    while pages.last().is_none_or(|(_, is_last)| !is_last) {
        let page = subject.store().list_subscriptions(&queue, listed.last().copied(), 20).await.expect(OK);
        listed.extend(page.subscriptions.iter().map(|found| found.subscription.id));
        pages.push((page.subscriptions.len(), page.reached.is_none()));
    }

    assert_eq!(pages, [(8, false), (8, false), (4, true)], "512 KiB are in a page");
    assert_eq!(listed, ids);
}

pub(in crate::conformance) async fn the_subscriptions_that_have_changed_are_known(subject: &Subject) {
    let queue = subject.queue("q").await;
    let [changed, deleted, last] = [
        subject.subscribe(&queue, "http://changed").await,
        subject.subscribe(&queue, "http://deleted").await,
        subject.subscribe(&queue, "http://last").await,
    ];
    let expiring = subject.subscribe_with(&queue, expiring_subscription("http://expiring")).await;
    let version = async || subject.lease(&queue, 1).await.1.subscriptions_version;
    let changed_since = async |since| {
        let ids = subject.store().changed_subscriptions(&queue, since).await.expect(OK);
        ids.map(|ids| ids.into_iter().collect::<HashSet<_>>())
    };
    let known = version().await;
    assert_eq!(changed_since(known).await, Some(HashSet::new()));
    assert_eq!(changed_since(1).await, None, "the queue has not had this version");

    let created = subject.subscribe(&queue, "http://created").await;
    subject.change(&queue, changed, settings("http://other"), None).await;
    subject.unsubscribe(&queue, deleted).await;
    subject.advance(&queue, 62 * S).await;

    let next = version().await;
    assert_eq!(changed_since(known).await, Some(HashSet::from([created, changed, deleted, expiring])));
    assert_eq!(changed_since(next).await, Some(HashSet::new()));
    for _ in 0..64 {
        subject.change(&queue, last, settings("http://last"), None).await;
    }
    assert_eq!(changed_since(next).await, Some(HashSet::from([last])));
    assert_eq!(changed_since(known).await, None, "the last 64 changes are known");
    let before = version().await;
    subject.store().delete_subscriptions(&queue).await.expect(OK);
    subject.subscribe(&queue, "http://new").await;
    assert_eq!(changed_since(before).await, None, "all subscriptions have been deleted");
}

pub(in crate::conformance) async fn a_list_shows_each_subscription_as_a_get_does(subject: &Subject) {
    let queue = subject.queue("q").await;
    for number in 0..3 {
        let settings = full_settings(&format!("http://{number}"));
        subject.subscribe_with(&queue, NewSubscription { settings, ..subscription("") }).await;
    }

    subject.post(&queue, &messages(LONG_S, 2)).await;

    let listed = subject.list_subscriptions(&queue, None, 10).await;

    assert_eq!(listed.len(), 3);
    for listed in listed {
        let mut found = subject.find_subscription(&queue, listed.subscription.id).await.expect("it exists");
        assert_eq!(found.pending, 2);
        // A second may begin between two calls.
        found.subscription.age_s = listed.subscription.age_s;
        assert_eq!(listed, found);
    }
    let before_all = SubscriptionId::from_bytes([0; 16]);
    assert_eq!(subject.find_subscription(&queue, before_all).await, None);
}

/// Row 8.1-3.
pub(in crate::conformance) async fn an_expired_subscription_does_not_exist(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;
    let message = subject.list(&queue, None, 1).await.remove(0);
    let left = subject.subscribe(&queue, "http://left").await;
    let id = subject.subscribe_with(&queue, expiring_subscription("http://a")).await;
    let (fence, state) = subject.lease(&queue, 1).await;
    let mut change = delivered(id, 1);
    change.attempts.push(attempt(0));
    change.new_retries.push(retry(&message, state.now_us));
    assert!(subject.save(&queue, fence, &[change.clone()]).await.is_some());
    let revision = subject.subscription(&queue, id).await.revision;

    subject.advance(&queue, 40 * S).await;
    assert!(subject.find_subscription(&queue, id).await.is_some(), "it lives for its ttl");
    assert_eq!(subject.subscription_ids(&queue).await.len(), 2);
    subject.advance(&queue, 22 * S).await;

    assert_eq!(subject.find_subscription(&queue, id).await, None);
    assert_eq!(subject.subscription_ids(&queue).await, [left]);
    assert_eq!(subject.attempts(&queue, id).await, None);
    assert_eq!(subject.retries(&queue, id).await, []);
    let update = SubscriptionChange { last_known_revision: revision, settings: settings("http://b"), ttl_s: Some(600) };
    assert_eq!(subject.store().update_subscription(&queue, id, &update).await, Ok(SubscriptionUpdate::Stale));
    let (fence, _) = subject.lease(&queue, 2).await;
    assert!(subject.save(&queue, fence, &[change]).await.is_some());
    assert_eq!(subject.list_subscriptions(&queue, None, 10).await.len(), 1);
    assert_eq!(subject.retries(&queue, id).await, []);
    let again = subject.subscribe(&queue, "http://a").await;
    assert_eq!(subject.attempts(&queue, again).await, Some(Vec::new()));
}

pub(in crate::conformance) async fn hundreds_of_subscriptions_can_expire_together(subject: &Subject) {
    let queue = subject.queue("q").await;
    for number in 0..320 {
        subject.subscribe_with(&queue, expiring_subscription(&format!("http://{number}"))).await;
    }
    let left = subject.subscribe(&queue, "http://left").await;

    subject.advance(&queue, 62 * S).await;

    let create = async |new| subject.store().create_subscription(&queue, &new, 2).await.expect(OK);
    assert_eq!(create(subscription("http://0")).await, SubscriptionCreation::Created);
    assert_eq!(create(subscription("http://1")).await, SubscriptionCreation::TooMany);
    let listed = subject.subscription_ids(&queue).await;
    assert_eq!(listed.len(), 2);
    assert!(listed.contains(&left));
}

pub(in crate::conformance) async fn an_update_replaces_the_settings(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.subscribe(&queue, "http://a").await;
    let (fence, _) = subject.lease(&queue, 1).await;
    subject.save(&queue, fence, &[delivered(id, 9)]).await.expect("the fence is the holder's");
    let before = subject.find_subscription(&queue, id).await.expect("it exists");

    subject.change(&queue, id, full_settings("http://b"), None).await;

    let after = subject.find_subscription(&queue, id).await.expect("it exists");
    assert_eq!(after.subscription.settings, full_settings("http://b"));
    let revisions = [&before, &after].map(|found| found.subscription.revision);
    assert!(revisions[0] < revisions[1], "{revisions:?}");
    assert_eq!(after.progress, before.progress);
    subject.subscribe(&queue, "http://a").await;
    let taken = subject.try_subscribe(&queue, &subscription("http://b")).await;
    assert!(matches!(taken, SubscriptionCreation::Exists(other) if other.id == id));
    // Its own subscriber does not prevent an update.
    subject.change(&queue, id, settings("http://b"), None).await;
}

pub(in crate::conformance) async fn an_update_of_a_changed_subscription_is_stale(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.subscribe(&queue, "http://a").await;
    subject.subscribe(&queue, "http://b").await;
    let old = subject.subscription(&queue, id).await.revision;
    let change = |settings| SubscriptionChange { last_known_revision: old, settings, ttl_s: Some(600) };
    let try_update = async |id, change| subject.store().update_subscription(&queue, id, &change).await.expect(OK);

    let updates = join_all((0..4).map(|number| try_update(id, change(settings(&format!("http://a{number}")))))).await;

    let done = updates.iter().position(|update| *update == SubscriptionUpdate::Done).expect("one succeeds");
    let stale = updates.iter().filter(|update| **update == SubscriptionUpdate::Stale).count();
    assert_eq!(stale, 3, "{updates:?}");
    let changed = subject.subscription(&queue, id).await;
    assert_eq!(changed.settings, settings(&format!("http://a{done}")));
    // A stale update is refused as such even if its subscriber is taken.
    assert_eq!(try_update(id, change(settings("http://b"))).await, SubscriptionUpdate::Stale);
    assert_eq!(try_update(SubscriptionId::random(), change(settings("http://c"))).await, SubscriptionUpdate::Stale);
    assert_eq!(subject.subscription(&queue, id).await.revision, changed.revision);
    subject.unsubscribe(&queue, id).await;
    let late = SubscriptionChange { last_known_revision: changed.revision, ..change(settings("http://d")) };
    assert_eq!(try_update(id, late).await, SubscriptionUpdate::Stale);
    assert_eq!(subject.subscription_ids(&queue).await.len(), 1);
}

pub(in crate::conformance) async fn an_update_cannot_take_the_subscriber_of_another_subscription(subject: &Subject) {
    let queue = subject.queue("q").await;
    let other = subject.subscribe(&queue, "http://other").await;
    let id = subject.subscribe(&queue, "http://a").await;
    let before = subject.subscription(&queue, id).await;

    let settings = settings("http://other");
    let change = SubscriptionChange { last_known_revision: before.revision, settings: settings.clone(), ttl_s: None };
    let update = subject.store().update_subscription(&queue, id, &change).await;

    assert_eq!(update, Ok(SubscriptionUpdate::SubscriberTaken(other)));
    let after = subject.subscription(&queue, id).await;
    assert_eq!((after.revision, after.settings), (before.revision, before.settings));
    subject.unsubscribe(&queue, other).await;
    subject.change(&queue, id, settings, None).await;
}

pub(in crate::conformance) async fn a_revision_rises_even_if_the_clock_steps_back(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.subscribe(&queue, "http://a").await;
    let mut last = subject.subscription(&queue, id).await.revision;

    for _ in 0..3 {
        subject.rewind(&queue, 3_600 * S).await;
        subject.change(&queue, id, settings("http://a"), None).await;

        let revision = subject.subscription(&queue, id).await.revision;
        assert!(revision > last, "{revision:?} after {last:?}");
        last = revision;
    }
}

pub(in crate::conformance) async fn a_new_time_to_live_starts_with_the_update(subject: &Subject) {
    let queue = subject.queue("q").await;
    let [id, unchanged, shortened] = [(); 3].map(|()| SubscriptionId::random());
    for (id, ttl_s) in [(id, 60), (unchanged, 60), (shortened, 6_000)] {
        let new = NewSubscription { id, ttl_s, ..subscription(&id.to_string()) };
        subject.subscribe_with(&queue, new).await;
    }
    subject.advance(&queue, 50 * S).await;

    subject.change(&queue, id, settings("http://a"), Some(100)).await;
    subject.change(&queue, unchanged, settings("http://b"), None).await;
    subject.change(&queue, shortened, settings("http://c"), Some(20)).await;

    let changed = subject.subscription(&queue, id).await;
    assert_eq!(changed.ttl_s, 100);
    assert!(changed.age_s <= 2, "{} s old", changed.age_s);
    let same = subject.subscription(&queue, unchanged).await;
    assert_eq!(same.ttl_s, 60);
    assert!((50..=53).contains(&same.age_s), "{} s old", same.age_s);
    let exist = async |ids: &[SubscriptionId]| {
        let listed: HashSet<_> = subject.subscription_ids(&queue).await.into_iter().collect();
        assert_eq!(listed, ids.iter().copied().collect());
    };
    subject.advance(&queue, 13 * S).await;
    exist(&[id, shortened]).await;
    subject.advance(&queue, 10 * S).await;
    exist(&[id]).await;
    subject.advance(&queue, 70 * S).await;
    exist(&[id]).await;
    subject.advance(&queue, 10 * S).await;
    exist(&[]).await;
}

pub(in crate::conformance) async fn a_deleted_subscription_leaves_nothing(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 3)).await;
    let posted = subject.list(&queue, None, 3).await;
    let new = subscription("http://a");
    let (id, left) = (new.id, subject.subscribe(&queue, "http://left").await);
    subject.subscribe_with(&queue, new.clone()).await;
    let (fence, state) = subject.lease(&queue, 1).await;
    let changes = [id, left].map(|id| {
        let mut change = delivered(id, 3);
        change.attempts = (0..20).map(attempt).collect();
        change.new_retries = posted.iter().map(|message| retry(message, state.now_us)).collect();
        change
    });
    subject.save(&queue, fence, &changes).await.expect("the fence is the holder's");

    for _ in 0..2 {
        subject.unsubscribe(&queue, id).await;

        assert_eq!(subject.find_subscription(&queue, id).await, None);
        assert_eq!(subject.subscription_ids(&queue).await, [left]);
        assert_eq!((subject.attempts(&queue, id).await, subject.retries(&queue, id).await), (None, Vec::new()));
    }
    // A new subscription with the same id has nothing of the deleted one.
    subject.subscribe_with(&queue, new).await;
    assert_eq!(subject.progress_of(&queue, id).await.delivered, 0);
    assert_eq!((subject.attempts(&queue, id).await, subject.retries(&queue, id).await), (Some(Vec::new()), Vec::new()));
    assert_eq!(subject.progress_of(&queue, left).await, changes[1].progress);
    assert_eq!(subject.attempts(&queue, left).await.map(|attempts| attempts.len()), Some(20));
    assert_eq!(subject.retries(&queue, left).await.len(), 3);
}

pub(in crate::conformance) async fn all_subscriptions_of_a_queue_can_be_deleted(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    let posted = subject.post(&queue, &messages(LONG_S, 2)).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(subject.subscribe(&queue, &format!("http://{number}")).await);
    }
    let elsewhere = subject.subscribe(&other, "http://0").await;

    for _ in 0..2 {
        subject.store().delete_subscriptions(&queue).await.expect(OK);

        assert_eq!(subject.subscription_ids(&queue).await, []);
    }
    assert_eq!(subject.find_subscription(&queue, ids[0]).await, None);
    assert_eq!(subject.feed(&queue).await, posted);
    assert_eq!(subject.subscription_ids(&other).await, [elsewhere]);
    let again = subject.store().create_subscription(&queue, &subscription("http://0"), 1).await;
    assert_eq!(again, Ok(SubscriptionCreation::Created));
    subject.run_maintenance().await;
    assert_eq!(subject.subscription_ids(&queue).await.len(), 1);
}

pub(in crate::conformance) async fn a_purge_of_messages_keeps_the_subscriptions(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    let message = subject.list(&queue, None, 1).await.remove(0);
    let expiring = subject.subscribe_with(&queue, expiring_subscription("http://b")).await;
    let id = subject.subscribe(&queue, "http://a").await;
    let (fence, state) = subject.lease(&queue, 1).await;
    let mut change = delivered(id, 1);
    change.attempts.push(attempt(0));
    change.new_retries.push(retry(&message, state.now_us));
    subject.save(&queue, fence, &[change.clone()]).await.expect("the fence is the holder's");

    for _ in 0..2 {
        subject.store().purge_queue(&queue).await.expect(OK);
        subject.run_maintenance().await;
    }

    assert_eq!(subject.count(&queue).await, 0);
    assert_eq!(subject.progress_of(&queue, id).await, change.progress);
    assert_eq!(subject.attempts(&queue, id).await, Some(vec![attempt(0).1]));
    assert_eq!(subject.retries(&queue, id).await.len(), 1);
    assert_eq!(subject.try_lease(&queue, 2).await, None, "the lease is kept too");
    let taken = subject.try_subscribe(&queue, &subscription("http://a")).await;
    assert!(matches!(taken, SubscriptionCreation::Exists(other) if other.id == id));
    subject.advance(&queue, 62 * S).await;
    assert_eq!(subject.find_subscription(&queue, expiring).await, None);
    assert_eq!(subject.subscription_ids(&queue).await, [id]);
}

pub(in crate::conformance) async fn deleting_a_queue_deletes_its_subscriptions(subject: &Subject) {
    let queue = subject.queue("q").await;
    let id = subject.subscribe(&queue, "http://a").await;

    subject.delete(&queue).await;
    let none = async || {
        assert_eq!(subject.find_subscription(&queue, id).await, None);
        assert_eq!(subject.subscription_ids(&queue).await, []);
        assert_eq!(subject.attempts(&queue, id).await, None);
    };
    none().await;
    subject.create(&queue).await;
    none().await;

    let again = subject.store().create_subscription(&queue, &subscription("http://a"), 1).await;
    assert_eq!(again, Ok(SubscriptionCreation::Created));
}

pub(in crate::conformance) async fn subscriptions_belong_to_their_queue_and_project(subject: &Subject) {
    let queues: [QueueId; 3] = [subject.id("q"), subject.id("r"), queue_id(&fresh_project(), "q")];
    let new = subscription("http://a");
    for queue in &queues {
        subject.create(queue).await;
        let ttl_s = if queue == &queues[0] { LASTING_S } else { 7_000 };
        subject.subscribe_with(queue, NewSubscription { ttl_s, ..new.clone() }).await;
    }

    subject.unsubscribe(&queues[0], new.id).await;

    assert_eq!(subject.find_subscription(&queues[0], new.id).await, None);
    for queue in &queues[1..] {
        assert_eq!(subject.subscription(queue, new.id).await.ttl_s, 7_000);
        assert_eq!(subject.subscription_ids(queue).await, [new.id]);
    }
}
