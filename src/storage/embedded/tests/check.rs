//! A check finds damage to the entries of messages.

use serde_json::Value;

use crate::domain::{Redrive, Selection, TaskId};
use crate::storage::embedded::rows::keys::{self, Part};
use crate::storage::embedded::rows::located::Located;
use crate::storage::embedded::store::EmbeddedStore;
use crate::storage::embedded::tests::{post, queue};
use crate::storage::embedded::transaction::write::WriteTransaction;
use crate::storage::embedded::transaction::writer::Step;
use crate::storage::entry::{Entry, SizeClass};
use crate::storage::{Maintenance, TaskStore};

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
