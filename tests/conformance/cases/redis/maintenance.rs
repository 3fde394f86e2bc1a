//! Maintenance over Redis: run by one process at a time, and only for queues with due changes.

use std::sync::Arc;
use std::time::Duration;

use sukkal_domain::{QueueId, TaskState};
use sukkal_storage::Schedule;

use super::keys::existing_parts;
use crate::conformance::cases::redrives::all_to;
use crate::conformance::support::drivers::redis_at;
use crate::conformance::support::subject::{LONG_S, Subject, messages};
use support::redis::RedisServer;
use support::waiting::until;

/// The index of due queues on a server that is not a cluster.
const DUE: &str = "sukkal:{3560}:due";
const LEASE: &str = "sukkal:{janitor}";
const TTL_PASSED: Duration = Duration::from_secs(62);
const NEXT: Schedule = Schedule { pause: Duration::ZERO, walk: Duration::from_secs(3_600) };

/// Starts a server whose queues have all just been visited, and returns some of them.
async fn backend() -> (Arc<RedisServer>, Subject, Vec<QueueId>) {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let mut queues = Vec::new();
    for number in 0..40 {
        let queue = subject.queue(&format!("q{number}")).await;
        subject.post(&queue, &messages(if number % 10 == 0 { 60 } else { LONG_S }, 3)).await;
        queues.push(queue);
    }
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(40), "the first visit is part of a full round");
    (server, subject, queues)
}

/// Advances the clock of a queue, and the due index, whose clock all queues share.
async fn expire_messages(server: &RedisServer, subject: &Subject, queue: &QueueId) {
    assert!(server.command(&["ZSCORE", DUE, &queue.to_string()]).as_text().parse::<u64>().is_ok());
    subject.advance(queue, TTL_PASSED).await;
    server.command(&["ZADD", DUE, "XX", "1", &queue.to_string()]);
}

#[tokio::test]
async fn maintenance_visits_only_queues_with_due_changes() {
    let (server, subject, queues) = backend().await;
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(0));
    for queue in [&queues[10], &queues[20]] {
        expire_messages(&server, &subject, queue).await;
    }
    // An entry that is not a queue does not stop the visits of the others.
    server.command(&["ZADD", DUE, "0", "no queue"]);

    assert_eq!(subject.store().maintain(&NEXT).await, Ok(3));

    assert_eq!(existing_parts(&server, &queues[20]), ["queue"]);
    assert!(existing_parts(&server, &queues[30]).contains(&"messages"));
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(0));
}

#[tokio::test]
async fn only_one_process_at_a_time_runs_maintenance() {
    let (server, subject, queues) = backend().await;
    expire_messages(&server, &subject, &queues[0]).await;
    let now_s: u64 = server.command(&["TIME"]).items()[0].as_text().parse().unwrap();
    let until = |s: u64| format!("{s}000000");

    server.command(&["HSET", LEASE, "h", "another process", "u", &until(now_s + 6)]);
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(0));
    // A lease expires by itself, and a lease from before the clock stepped back does not count.
    for (stop, next) in [(until(now_s - 1), &queues[10]), (until(now_s + 3_600), &queues[20])] {
        server.command(&["HSET", LEASE, "h", "another process", "u", &stop]);
        assert_eq!(subject.store().maintain(&NEXT).await, Ok(1), "until {stop}");
        expire_messages(&server, &subject, next).await;
    }
}

#[tokio::test]
async fn processes_that_share_a_store_share_the_maintenance_interval() {
    let (server, _subject, _queues) = backend().await;
    let other = redis_at(server.clone());
    server.command(&["ZADD", DUE, "0", "a", "0", "b"]);
    let in_an_hour = Schedule { pause: Duration::from_secs(3_600), ..NEXT };

    assert_eq!(other.store().maintain(&in_an_hour).await, Ok(0), "another process has just run maintenance");
    assert_eq!(other.store().maintain(&NEXT).await, Ok(2));
}

#[tokio::test]
async fn the_due_index_names_a_queue_whose_task_nobody_works_on() {
    let (_server, subject, queues) = backend().await;
    let (queue, target) = (&queues[5], &queues[6]);
    // The lease that this process takes ends a second before the present.
    subject.rewind(queue, Duration::from_secs(11)).await;
    let (id, fence) = subject.start_redrive(queue, &all_to(target)).await;
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(1), "a new task is due at once");
    subject.store().redrive_step(queue, id, fence).await.expect("the lease is left alone");
    subject.advance(queue, Duration::from_secs(11)).await;

    assert_eq!(subject.store().maintain(&NEXT).await, Ok(1));

    until("the task ends", async || subject.task(queue, id).await.state != TaskState::Running).await;
    assert_eq!((subject.count(queue).await, subject.count(target).await), (0, 6));
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(1), "the entry of the task that has ended");
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(0));
}
