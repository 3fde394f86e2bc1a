//! Maintenance: it visits every queue, reclaims expired messages, and changes nothing that is live.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use sukkal_domain::QueueId;

use crate::conformance::support::subject::{LONG_S, Subject, fresh_project, messages, queue_id};

const MINUTE: Duration = Duration::from_secs(62);

pub(in crate::conformance) async fn the_store_answers_a_ping(subject: &Subject) {
    assert_eq!(subject.store().ping().await, Ok(()));
}

/// Visits all queues of all projects, and returns the queues in the order of the visits.
async fn whole_round(subject: &Subject) -> Vec<QueueId> {
    let mut steps: Vec<QueueId> = Vec::new();
    while let Some(next) = subject.store().maintain_step(steps.last()).await.expect("the store answers") {
        steps.push(next);
    }
    steps
}

pub(in crate::conformance) async fn a_maintenance_round_ends_and_covers_every_project(subject: &Subject) {
    let mut last_queues = BTreeSet::new();
    for _ in 0..5 {
        let project = fresh_project();
        for number in 10..50 {
            subject.create(&queue_id(&project, &format!("q{number}"))).await;
        }
        last_queues.insert(queue_id(&project, "q49"));
    }

    let steps = whole_round(subject).await;

    let count = steps.len();
    let reached: BTreeSet<_> = steps.into_iter().collect();
    assert_eq!(reached.len(), count, "the round visits a queue twice");
    assert!(last_queues.is_subset(&reached), "a project was left before its last queue");
}

pub(in crate::conformance) async fn expired_messages_are_reclaimed_in_unused_queues(subject: &Subject) {
    let mut queues = Vec::new();
    for number in 0..40 {
        let queue = subject.queue(&format!("q{number}")).await;
        subject.post(&queue, &messages(60, if number == 20 { 1_500 } else { 3 })).await;
        let left = subject.post(&queue, &messages(LONG_S, 2)).await;
        subject.advance(&queue, MINUTE).await;
        queues.push((queue, left));
    }

    subject.run_maintenance().await;

    for (queue, left) in queues {
        // Reclaimed messages stay away even if the clock steps back to before their expiry.
        subject.rewind(&queue, MINUTE).await;
        assert_eq!(subject.feed(&queue).await, left, "{queue}");
    }
}

pub(in crate::conformance) async fn maintenance_keeps_live_messages(subject: &Subject) {
    let queue = subject.queue_of("q", json!({"color": "blue"})).await;
    subject.queue("empty").await;
    subject.post(&queue, &messages(60, 700)).await;
    let mut left = subject.post(&queue, &messages(LONG_S, 700)).await;
    let before = subject.get(&queue).await;
    subject.advance(&queue, MINUTE).await;
    let deleted: Vec<_> = left.drain(100..400).collect();
    subject.delete_messages(&queue, &deleted).await;

    for _ in 0..2 {
        subject.run_maintenance().await;

        assert_eq!(subject.feed(&queue).await, left);
        assert_eq!(subject.count(&queue).await, left.len());
        assert_eq!(subject.get(&queue).await, before);
        assert_eq!(subject.names(subject.project(), None, 10).await, ["empty", "q"]);
        assert_eq!(subject.count_queues().await, 2);
    }
}

pub(in crate::conformance) async fn a_maintenance_round_can_start_after_a_missing_queue(subject: &Subject) {
    for name in ["b", "d"] {
        subject.queue(name).await;
    }
    for (after, reached) in [("a", "d"), ("c", "d"), ("b", "d")] {
        let next = subject.store().maintain_step(Some(&subject.id(after))).await;

        assert_eq!(next, Ok(Some(subject.id(reached))), "after {after}");
    }
    let next = subject.store().maintain_step(Some(&subject.id("e"))).await.expect("the store answers");
    assert!(next.is_none_or(|next| next.project() != subject.project()));
    let unknown = queue_id(&fresh_project(), "q");
    let next = subject.store().maintain_step(Some(&unknown)).await.expect("the store answers");
    assert!(next.is_none_or(|next| next.project() != unknown.project()));
}

pub(in crate::conformance) async fn maintenance_can_run_concurrently(subject: &Subject) {
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 3_000)).await;
    let left = subject.post(&queue, &messages(LONG_S, 5)).await;
    subject.advance(&queue, MINUTE).await;

    futures::future::join_all((0..8).map(|_| subject.run_maintenance())).await;

    assert_eq!(subject.count(&queue).await, 5);
    assert_eq!(subject.feed(&queue).await, left);
}
