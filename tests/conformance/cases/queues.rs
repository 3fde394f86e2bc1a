//! The life of a queue: created, updated, deleted, created again.

use std::time::Duration;

use serde_json::json;
use sukkal_domain::{Creation, Metadata, Revision};
use sukkal_storage::{PostOutcome, UpdateOutcome};

use crate::conformance::support::subject::{LONG_S, Subject, assert_ascending, client, messages, metadata};

pub(in crate::conformance) async fn a_created_queue_has_its_metadata(subject: &Subject) {
    let queue = subject.id("q");
    let wanted = metadata(json!({"color": "blue", "_default_message_ttl": 300}));

    let creation = subject.store().create_queue(&queue, &wanted).await;

    assert_eq!(creation, Ok(Creation::Created));
    assert_eq!(subject.get(&queue).await.map(|queue| queue.metadata), Some(wanted));
}

pub(in crate::conformance) async fn creating_an_existing_queue_changes_nothing(subject: &Subject) {
    let queue = subject.id("q");
    let first = metadata(json!({"color": "blue"}));
    subject.store().create_queue(&queue, &first).await.expect("the store answers");
    let before = subject.get(&queue).await;

    let second = subject.store().create_queue(&queue, &metadata(json!({"color": "red"}))).await;

    assert_eq!(second, Ok(Creation::Existed));
    assert_eq!(subject.get(&queue).await, before);
    assert_eq!(before.map(|queue| queue.metadata), Some(first));
}

pub(in crate::conformance) async fn a_queue_that_was_never_created_does_not_exist(subject: &Subject) {
    let queue = subject.id("never");

    assert_eq!(subject.get(&queue).await, None);
    assert_eq!(subject.count(&queue).await, 0);
    assert_eq!(subject.list(&queue, None, 10).await, []);
    assert_eq!(subject.names(subject.project(), None, 10).await, [""; 0]);
}

pub(in crate::conformance) async fn any_json_metadata_is_returned_unchanged(subject: &Subject) {
    let queue = subject.id("q");
    let wanted = metadata(json!({
        "z first": null, "": "", "a\u{0}b": [1, [2, {"three": 3.5}]], "grüße": "😀",
        "big": u64::MAX, "small": i64::MIN, "exact": 0.1, "yes": true, "empty": {}, "long": "x".repeat(50_000),
    }));

    subject.store().create_queue(&queue, &wanted).await.expect("the store answers");

    let kept = subject.get(&queue).await.expect("it was created").metadata;
    assert_eq!(kept, wanted);
    let order = |metadata: &Metadata| metadata.keys().entries().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
    assert_eq!(order(&kept), order(&wanted));
}

pub(in crate::conformance) async fn an_update_replaces_the_metadata(subject: &Subject) {
    let queue = subject.id("q");
    subject.store().create_queue(&queue, &metadata(json!({"a": 1, "b": 2}))).await.expect("the store answers");
    let revision = subject.revision(&queue).await;

    let update = subject.store().update_queue(&queue, revision, &metadata(json!({"b": 3}))).await;

    assert_eq!(update, Ok(UpdateOutcome::Done));
    let now = subject.get(&queue).await.expect("it is still there");
    assert_eq!(now.metadata, metadata(json!({"b": 3})));
    assert!(now.revision > revision);
}

pub(in crate::conformance) async fn updating_a_changed_queue_is_rejected_as_stale(subject: &Subject) {
    let queue = subject.queue("q").await;
    let revision = subject.revision(&queue).await;
    subject.store().update_queue(&queue, revision, &metadata(json!({"a": 1}))).await.expect("the store answers");
    let before = subject.get(&queue).await;

    for stale in [revision, Revision(0), Revision(revision.0 - 1), Revision(u64::MAX)] {
        let update = subject.store().update_queue(&queue, stale, &metadata(json!({"a": 2}))).await;

        assert_eq!(update, Ok(UpdateOutcome::Stale));
        assert_eq!(subject.get(&queue).await, before);
    }
}

pub(in crate::conformance) async fn exactly_one_of_concurrent_updates_succeeds(subject: &Subject) {
    let queue = subject.queue("q").await;
    let revision = subject.revision(&queue).await;
    let wanted: Vec<_> = (0..10).map(|number| metadata(json!({"winner": number}))).collect();

    let updates = wanted.iter().map(|metadata| subject.store().update_queue(&queue, revision, metadata));
    let updates = futures::future::join_all(updates).await;

    let winners: Vec<_> = (0..10).filter(|number| updates[*number] == Ok(UpdateOutcome::Done)).collect();
    assert_eq!(winners.len(), 1, "{updates:?}");
    assert_eq!(subject.get(&queue).await.map(|queue| queue.metadata), Some(wanted[winners[0]].clone()));
}

pub(in crate::conformance) async fn updating_a_missing_queue_is_stale_and_creates_nothing(subject: &Subject) {
    let never = subject.id("never");
    let gone = subject.queue("gone").await;
    let last = subject.revision(&gone).await;
    subject.delete(&gone).await;

    for queue in [never, gone] {
        for revision in [last, Revision(0)] {
            let update = subject.store().update_queue(&queue, revision, &Metadata::default()).await;

            assert_eq!(update, Ok(UpdateOutcome::Stale));
            assert_eq!(subject.get(&queue).await, None);
        }
    }
}

pub(in crate::conformance) async fn an_update_does_not_change_the_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let old = subject.post(&queue, &messages(LONG_S, 3)).await;
    let revision = subject.revision(&queue).await;

    subject.store().update_queue(&queue, revision, &metadata(json!({"a": 1}))).await.expect("the store answers");
    let new = subject.post(&queue, &messages(LONG_S, 3)).await;

    assert_eq!(subject.feed(&queue).await, [old, new].concat());
}

pub(in crate::conformance) async fn deleting_again_has_no_effect(subject: &Subject) {
    let queue = subject.queue("q").await;

    subject.delete(&queue).await;
    subject.delete(&queue).await;
    subject.delete(&subject.id("never")).await;

    assert_eq!(subject.get(&queue).await, None);
    assert_eq!(subject.names(subject.project(), None, 10).await, [""; 0]);
    assert_eq!(subject.count_queues().await, 0);
    subject.create(&queue).await;
    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);
}

/// Row 4.5-3.
pub(in crate::conformance) async fn deleting_a_queue_deletes_its_messages(subject: &Subject) {
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, 50)).await;

    subject.delete(&queue).await;

    assert_eq!(subject.count(&queue).await, 0);
    assert_eq!(subject.feed(&queue).await, []);
    assert_eq!(subject.found(&queue, &ids).await, []);
    subject.delete_messages(&queue, &ids).await;
    subject.create(&queue).await;
    assert_eq!(subject.count(&queue).await, 0);
    assert_eq!(subject.feed(&queue).await, []);
    assert_eq!(subject.found(&queue, &ids).await, []);
}

pub(in crate::conformance) async fn a_recreated_queue_never_repeats_a_revision(subject: &Subject) {
    let queue = subject.id("q");
    let mut last = Revision(0);
    for _ in 0..5 {
        subject.create(&queue).await;
        let created = subject.revision(&queue).await;
        subject.store().update_queue(&queue, created, &Metadata::default()).await.expect("the store answers");
        let updated = subject.revision(&queue).await;

        assert!(last < created && created < updated, "{last:?}, {created:?}, {updated:?}");

        subject.delete(&queue).await;
        // This holds even if the clock has not yet reached the time of the old queue.
        subject.rewind(&queue, Duration::from_secs(60)).await;
        last = updated;
    }

    subject.create(&queue).await;
    let post = subject.try_post(&queue, last, &client(0), &messages(LONG_S, 1)).await;
    assert!(matches!(post, Ok(PostOutcome::Stale(Some(_)))), "{post:?}");
    assert_eq!(subject.store().update_queue(&queue, last, &Metadata::default()).await, Ok(UpdateOutcome::Stale));
}

/// Row 4.5-3.
pub(in crate::conformance) async fn ids_of_a_recreated_queue_follow_those_of_its_predecessor(subject: &Subject) {
    let queue = subject.queue("q").await;
    let old = subject.post(&queue, &messages(LONG_S, 2_000)).await;
    let marker = old.last().copied();

    subject.delete(&queue).await;
    subject.rewind(&queue, Duration::from_secs(3_600)).await;
    subject.create(&queue).await;
    let new = subject.post(&queue, &messages(LONG_S, 3)).await;

    assert_eq!(subject.feed_after(&queue, marker).await, new);
    assert_eq!(subject.feed(&queue).await, new);
    assert_ascending(&[old, new].concat());
}

pub(in crate::conformance) async fn queues_with_the_same_name_in_two_projects_are_independent(subject: &Subject) {
    let mine = subject.queue("q").await;
    let theirs =
        crate::conformance::support::subject::queue_id(&crate::conformance::support::subject::fresh_project(), "q");
    let ids = subject.post(&mine, &messages(LONG_S, 3)).await;

    assert_eq!(subject.get(&theirs).await, None);
    assert_eq!(subject.count(&theirs).await, 0);
    subject.create(&theirs).await;
    assert_eq!(subject.feed(&theirs).await, []);
    subject.delete(&theirs).await;

    assert_eq!(subject.feed(&mine).await, ids);
    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);
}
