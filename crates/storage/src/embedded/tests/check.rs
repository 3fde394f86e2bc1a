//! A check finds damage to the entries of messages, to tasks and to subscriptions.

use serde_json::Value;
use uuid::Uuid;

use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::located::{Found, Located};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::tests::{post, queue};
use crate::embedded::transaction::budget::RecordBudget;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::entry::{Entry, SizeClass};
use crate::moved_messages::{MovedMessage, OutgoingMessage, Target};
use crate::{
    DeliveryChange, DeliveryStore, Error, Listing, Maintenance, MessageStore, SubscriptionCreation, SubscriptionStore,
    TaskStore,
};
use sukkal_domain::{
    Attempt, NewSubscription, Progress, QueueId, Redrive, Retry, Selection, SubscriptionId, SubscriptionSettings,
    TaskId,
};

type Damage = fn(Entry) -> (Entry, Part);

#[tokio::test]
async fn a_check_finds_each_kind_of_damage_to_entries() {
    let damages: [(Damage, &str); 5] = [
        (|entry| (entry, Part::Ready), ""),
        (|entry| (Entry { end_s: entry.end_s + 1, ..entry }, Part::Ready), "has no expiration"),
        (|entry| (Entry { size: SizeClass::of(9_999), ..entry }, Part::Ready), "but its entry has"),
        (|entry| (Entry { delivery: Some(entry.delivery_state()), ..entry }, Part::InFlight), "without a lease"),
        (|entry| (entry, Part::Delayed), "the stored counts are"),
    ];
    for (damage, finding) in damages {
        let store = EmbeddedStore::in_memory().unwrap();
        let queue = queue(&store, "q", Value::Null).await;
        post(&store, &queue, 1, 9).await;
        let change = store.write(0, move |store: &mut WriteTransaction<'_>| {
            let number = store.row(&queue)?.expect("it is there").number;
            let located = store.view.entries(number, Part::Ready, 0)?.next().expect("one is free")?;
            store.remove_key(&keys::message(number, Part::Ready, located.key()))?;
            let (entry, set) = damage(located.entry);
            store.put_entry(number, &Located { entry, set, shard: None }).map(Step::Done)
        });
        change.await.unwrap();

        let findings = store.check().await.unwrap().findings;

        assert_eq!(findings.is_empty(), finding.is_empty(), "{findings:?}");
        assert!(finding.is_empty() || findings.iter().any(|one| one.contains(finding)), "{finding}: {findings:?}");
    }
}

#[tokio::test]
async fn a_check_finds_a_running_task_without_a_lease() {
    let store = EmbeddedStore::in_memory().unwrap();
    let queue = queue(&store, "q", Value::Null).await;
    let (id, redrive) = (TaskId::random(), Redrive { to: None, selection: Selection::All, per_second: None });
    store.create_redrive(&queue, id, &redrive).await.unwrap();
    assert_eq!(store.check().await.unwrap().findings, [""; 0]);

    let change = store.write(0, move |store: &mut WriteTransaction<'_>| {
        let number = store.row(&queue)?.expect("it is there").number;
        store.remove_key(&keys::content(number, Part::TaskLease, id.as_bytes())).map(Step::Done)
    });
    assert!(change.await.unwrap());

    let findings = store.check().await.unwrap().findings;
    assert!(findings.iter().any(|one| one.contains("running without a lease")), "{findings:?}");
}

#[tokio::test]
async fn a_check_finds_damage_to_an_outbox() {
    let store = EmbeddedStore::in_memory().unwrap();
    let queue = queue(&store, "q", Value::Null).await;
    post(&store, &queue, 1, 9).await;
    let change = store.write(0, move |store: &mut WriteTransaction<'_>| {
        let contents = store.row(&queue)?.expect("it is there").number;
        let Found { located, record } =
            store.view.oldest_available(contents, 1, &mut RecordBudget::default())?.remove(0);
        let message =
            MovedMessage { number: 7, delivery: located.entry.delivery_state(), entry: located.entry, record };
        let target = Target { name: "other".parse().unwrap(), epoch: None };
        let value = OutgoingMessage { message, target }.encode();
        for (number, value) in [(7, &*value), (8, &*value), (9, &b"short"[..])] {
            store.put_registry(&keys::outbox(&queue, number, contents), value)?;
        }
        Ok(Step::Done(()))
    });
    change.await.unwrap();

    let findings = store.check().await.unwrap().findings;

    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("the outbox of p/q: message 8 has number 7"), "{findings:?}");
    assert!(findings[1].contains("too short"), "{findings:?}");
}

#[tokio::test]
async fn a_check_finds_each_kind_of_damage_to_subscriptions() {
    type Change = fn(&mut WriteTransaction<'_>, u64, &[u8]) -> Result<(), Error>;
    fn removed(store: &mut WriteTransaction<'_>, key: &[u8]) -> Result<(), Error> {
        assert!(store.remove_key(key)?, "the row exists");
        Ok(())
    }
    let damages: [(Change, &str); 7] = [
        (|_, _, _| Ok(()), ""),
        (|store, number, _| removed(store, &keys::content(number, Part::Subscriber, b"http://a")), "has no subscriber"),
        (|store, number, id| removed(store, &keys::content(number, Part::Progress, id)), "has no progress"),
        (|store, number, id| removed(store, &keys::content(number, Part::Subscription, id)), "number of subscriptions"),
        (
            |store, number, _| {
                let (time, id) = store.view.until(number, Part::SubscriptionEnd, u64::MAX, 1)?.remove(0);
                removed(store, &keys::timed(number, Part::SubscriptionEnd, time, &id))
            },
            "does not expire",
        ),
        (
            |store, number, _| {
                let (entry, _) = store.view.all_of(number, Part::RetryTime)?.next().expect("there is a retry")?;
                removed(store, &keys::content(number, Part::RetryTime, &entry))
            },
            "is not due at its time",
        ),
        (
            |store, number, _| {
                let (name, _) = store.view.all_of(number, Part::Retry)?.next().expect("there is a retry")?;
                removed(store, &keys::content(number, Part::Retry, &name))
            },
            "are due at 1 times",
        ),
    ];
    for (damage, finding) in damages {
        let store = EmbeddedStore::in_memory().unwrap();
        let (queue, id) = queue_with_retry(&store).await;
        let change = store.write(0, move |store: &mut WriteTransaction<'_>| {
            let number = store.row(&queue)?.expect("it is there").number;
            let subscriptions = store.state(number)?.subscriptions;
            damage(store, subscriptions, id.as_bytes()).map(Step::Done)
        });
        change.await.unwrap();

        let findings = store.check().await.unwrap().findings;

        assert_eq!(findings.is_empty(), finding.is_empty(), "{finding}: {findings:?}");
        assert!(finding.is_empty() || findings.iter().any(|one| one.contains(finding)), "{finding}: {findings:?}");
    }
}

/// Creates a queue with a subscription that has an attempt and a retry.
async fn queue_with_retry(store: &EmbeddedStore) -> (QueueId, SubscriptionId) {
    let queue = queue(store, "q", Value::Null).await;
    post(store, &queue, 1, 9).await;
    let settings = SubscriptionSettings::new("http://a".to_owned(), sukkal_domain::JsonObject::default());
    let id = SubscriptionId::random();
    let new = NewSubscription { id, ttl_s: 600, after: None, settings };
    assert_eq!(store.create_subscription(&queue, &new, 1).await, Ok(SubscriptionCreation::Created));
    let (fence, state) = store.take_delivery_lease(&queue, Uuid::from_u128(1)).await.unwrap().unwrap();
    let message = store.list_messages(&queue, &Listing::first(1)).await.unwrap().messages.remove(0);
    let attempt = Attempt {
        message: message.id.bits(),
        number: 1,
        at_s: 1,
        status: None,
        duration_ms: 1,
        error: Some("no route".to_owned()),
        response: String::new(),
    };
    let change = DeliveryChange {
        subscription: id,
        progress: Progress::default(),
        attempts: vec![(0, attempt)],
        ended_retries: Vec::new(),
        new_retries: vec![Retry { attempts: 1, due_us: state.now_us, message }],
    };
    assert!(store.save_deliveries(&queue, fence, &[change]).await.unwrap().is_some());
    (queue, id)
}
