//! Tasks of a queue: one runs at a time, some are remembered, and one process at a time works on
//! each.

use std::time::Duration;

use sukkal_domain::{Redrive, Selection, TaskId, TaskState};
use sukkal_storage::{RedriveStep, TASKS_MAX, TaskCreation, run_redrive};
use uuid::Uuid;

use super::redrives::{all_to, progress};
use crate::conformance::support::subject::{LONG_S, Subject, messages};
use support::waiting::until;

/// Longer than a lease.
const LEASE_OVER: Duration = Duration::from_secs(11);
/// More than half of a lease.
const PART_OF_LEASE: Duration = Duration::from_secs(6);

pub(in crate::conformance) async fn one_task_of_a_queue_runs_at_a_time(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    let id = subject.create_redrive(&queue, &all_to(&other)).await;

    let second = subject.store().create_redrive(&queue, TaskId::random(), &all_to(&other)).await;
    assert_eq!(second, Ok(TaskCreation::Running(id)));
    let elsewhere = subject.create_redrive(&other, &all_to(&queue)).await;
    let absent = subject.store().create_redrive(&subject.id("absent"), TaskId::random(), &all_to(&other)).await;
    assert_eq!(absent, Ok(TaskCreation::NoQueue));

    for (queue, id) in [(&queue, id), (&other, elsewhere)] {
        run_redrive(subject.store(), queue, id).await;
    }
    subject.create_redrive(&queue, &all_to(&other)).await;
}

pub(in crate::conformance) async fn a_stopped_task_moves_nothing_more(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 250)).await;
    let (id, fence) = subject.start_redrive(&queue, &all_to(&other)).await;
    let step = subject.store().redrive_step(&queue, id, fence).await;
    assert_eq!(step, Ok(RedriveStep::Continue { moved: 100, per_second: None }));

    subject.store().delete_task(&queue, id).await.expect("the store answers");

    assert_eq!(subject.store().redrive_step(&queue, id, fence).await, Ok(RedriveStep::Ended));
    assert_eq!(progress(&subject.task(&queue, id).await), (TaskState::Stopped, [100, 0, 150]));
    assert_eq!((subject.count(&queue).await, subject.count(&other).await), (150, 100));
    subject.store().delete_task(&queue, id).await.expect("the store answers");
    assert_eq!(subject.store().get_task(&queue, id).await, Ok(None));
    subject.store().delete_task(&queue, id).await.expect("deleting again has no effect");
}

pub(in crate::conformance) async fn the_last_tasks_of_a_queue_are_listed(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    let mut ids = Vec::new();
    for _ in 0..TASKS_MAX + 3 {
        let id = subject.create_redrive(&queue, &all_to(&other)).await;
        run_redrive(subject.store(), &queue, id).await;
        ids.insert(0, id);
    }

    let tasks = subject.store().list_tasks(&queue).await.expect("the store answers");

    assert_eq!(tasks.iter().map(|task| task.id).collect::<Vec<_>>(), ids[..TASKS_MAX]);
    assert!(tasks.iter().all(|task| progress(task) == (TaskState::Done, [0; 3])), "{tasks:?}");
    assert_eq!(subject.store().get_task(&queue, ids[TASKS_MAX]).await, Ok(None));
    for none in [&other, &subject.id("absent")] {
        assert_eq!(subject.store().list_tasks(none).await, Ok(Vec::new()));
        assert_eq!(subject.store().get_task(none, ids[0]).await, Ok(None));
    }
}

/// A process that has lost its lease changes nothing, even if it does not know that yet.
pub(in crate::conformance) async fn a_process_without_the_lease_can_change_nothing(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 250)).await;
    let id = subject.create_redrive(&queue, &all_to(&other)).await;
    let take = async |holder| subject.store().take_task_lease(&queue, id, holder).await.expect("the store answers");
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());

    let first = take(one).await.expect("nobody has it");
    assert_eq!(take(two).await, None, "one holder at a time");
    assert_eq!(take(one).await, Some(first), "a repeated call gets the same fence");
    subject.advance(&queue, PART_OF_LEASE).await;
    let step = subject.store().redrive_step(&queue, id, first).await;
    assert_eq!(step, Ok(RedriveStep::Continue { moved: 100, per_second: None }));
    subject.advance(&queue, PART_OF_LEASE).await;
    assert_eq!(take(two).await, None, "a step renews the lease");
    subject.advance(&queue, LEASE_OVER).await;
    let second = take(two).await.expect("the lease has expired");

    assert!(second > first, "{second:?} after {first:?}");
    assert_eq!(subject.store().redrive_step(&queue, id, first).await, Ok(RedriveStep::Ended));
    subject.store().fail_task(&queue, id, first, "an old error").await.expect("the store answers");
    assert_eq!(progress(&subject.task(&queue, id).await), (TaskState::Running, [100, 0, 150]));
    subject.store().fail_task(&queue, id, second, "an error").await.expect("the store answers");
    let task = subject.task(&queue, id).await;
    assert_eq!((task.state, task.error.as_deref()), (TaskState::Failed, Some("an error")));
    assert_eq!(take(two).await, None, "a task that has ended has no lease");
    assert_eq!((subject.count(&queue).await, subject.count(&other).await), (150, 100));
}

pub(in crate::conformance) async fn maintenance_continues_a_task_whose_lease_has_expired(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 250)).await;
    let (id, fence) = subject.start_redrive(&queue, &all_to(&other)).await;
    subject.store().redrive_step(&queue, id, fence).await.expect("the store answers");

    subject.run_maintenance().await;
    let step = subject.store().redrive_step(&queue, id, fence).await;
    assert_eq!(step, Ok(RedriveStep::Continue { moved: 100, per_second: None }), "a live lease is left alone");
    subject.advance(&queue, LEASE_OVER).await;
    subject.run_maintenance().await;

    until("the task ends", async || subject.task(&queue, id).await.state != TaskState::Running).await;
    assert_eq!(progress(&subject.task(&queue, id).await), (TaskState::Done, [250, 0, 0]));
    assert_eq!((subject.count(&queue).await, subject.count(&other).await), (0, 250));
}

pub(in crate::conformance) async fn a_purge_of_the_queue_ends_its_task(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 250)).await;
    let (id, fence) = subject.start_redrive(&queue, &all_to(&other)).await;
    subject.store().redrive_step(&queue, id, fence).await.expect("the store answers");

    subject.store().purge_queue(&queue).await.expect("the store answers");
    let later = subject.post(&queue, &messages(LONG_S, 2)).await;

    while let RedriveStep::Continue { .. } = subject.store().redrive_step(&queue, id, fence).await.unwrap() {}
    assert_eq!(progress(&subject.task(&queue, id).await), (TaskState::Done, [100, 0, 0]));
    assert_eq!(subject.feed(&queue).await, later);
    assert_eq!(subject.count(&other).await, 100);
}

pub(in crate::conformance) async fn deleting_a_queue_deletes_its_tasks(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 250)).await;
    let (id, fence) = subject.start_redrive(&queue, &all_to(&other)).await;
    subject.store().redrive_step(&queue, id, fence).await.expect("the store answers");

    subject.delete(&queue).await;

    assert_eq!(subject.store().redrive_step(&queue, id, fence).await, Ok(RedriveStep::Ended));
    subject.create(&queue).await;
    subject.post(&queue, &messages(LONG_S, 2)).await;
    assert_eq!(subject.store().redrive_step(&queue, id, fence).await, Ok(RedriveStep::Ended));
    assert_eq!(subject.store().list_tasks(&queue).await, Ok(Vec::new()));
    assert_eq!((subject.count(&queue).await, subject.count(&other).await), (2, 100));
}

pub(in crate::conformance) async fn a_task_whose_target_is_deleted_fails(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 250)).await;
    let redrive = Redrive { selection: Selection::First(240), ..all_to(&other) };
    let (id, fence) = subject.start_redrive(&queue, &redrive).await;
    subject.store().redrive_step(&queue, id, fence).await.expect("the store answers");

    subject.delete(&other).await;

    assert_eq!(subject.store().redrive_step(&queue, id, fence).await, Ok(RedriveStep::Ended));
    let task = subject.task(&queue, id).await;
    assert_eq!(progress(&task), (TaskState::Failed, [100, 0, 140]));
    assert_eq!(task.error.as_deref(), Some("The queue other does not exist any more."));
    assert_eq!(subject.get(&other).await, None);
    assert_eq!(subject.count(&queue).await, 150);
}

/// Without pauses, it would need two steps only.
pub(in crate::conformance) async fn a_redrive_keeps_to_its_pace(subject: &Subject) {
    let (queue, other) = (subject.queue("q").await, subject.queue("other").await);
    subject.post(&queue, &messages(LONG_S, 7)).await;
    let (id, fence) = subject.start_redrive(&queue, &Redrive { per_second: Some(5), ..all_to(&other) }).await;

    let step = subject.store().redrive_step(&queue, id, fence).await;

    assert_eq!(step, Ok(RedriveStep::Continue { moved: 5, per_second: Some(5) }));
    let began = std::time::Instant::now();
    subject.advance(&queue, LEASE_OVER).await;
    run_redrive(subject.store(), &queue, id).await;
    assert!(began.elapsed() >= Duration::from_millis(400), "two messages at 5 per second");
    assert_eq!(subject.count(&other).await, 7);
}
