//! Maintenance over Redis: one process at a time, and only the queues in which something is due.

use std::sync::Arc;
use std::time::Duration;

use sukkal::domain::QueueId;
use sukkal::storage::Schedule;

use super::drivers::redis_at;
use super::redis_keys::present;
use super::subject::{LONG_S, Subject, messages};
use crate::support::redis::RedisServer;

/// The index of due queues of a server that is no cluster.
const DUE: &str = "sukkal:{3560}:due";
const LEASE: &str = "sukkal:{janitor}";
const ENDED: Duration = Duration::from_secs(62);
const NEXT: Schedule = Schedule { pause: Duration::ZERO, walk: Duration::from_secs(3_600) };

/// A server whose queues were all visited just now, and some of them.
async fn stage() -> (Arc<RedisServer>, Subject, Vec<QueueId>) {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let mut queues = Vec::new();
    for number in 0..40 {
        let queue = subject.queue(&format!("q{number}")).await;
        subject.post(&queue, &messages(if number % 10 == 0 { 60 } else { LONG_S }, 3)).await;
        queues.push(queue);
    }
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(40), "the first one is a walk");
    (server, subject, queues)
}

/// Lets time pass in a queue, and in the index, which has the clock of all queues.
async fn end_messages(server: &RedisServer, subject: &Subject, queue: &QueueId) {
    assert!(server.command(&["ZSCORE", DUE, &queue.to_string()]).as_text().parse::<u64>().is_ok());
    subject.advance(queue, ENDED).await;
    server.command(&["ZADD", DUE, "XX", "1", &queue.to_string()]);
}

#[tokio::test]
async fn only_queues_in_which_something_is_due_are_visited() {
    let (server, subject, queues) = stage().await;
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(0));
    for queue in [&queues[10], &queues[20]] {
        end_messages(&server, &subject, queue).await;
    }
    // What is no queue does not stop the others.
    server.command(&["ZADD", DUE, "0", "no queue"]);

    assert_eq!(subject.store().maintain(&NEXT).await, Ok(3));

    assert_eq!(present(&server, &queues[20]), ["queue"]);
    assert!(present(&server, &queues[30]).contains(&"messages"));
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(0));
}

#[tokio::test]
async fn one_process_at_a_time_does_maintenance() {
    let (server, subject, queues) = stage().await;
    end_messages(&server, &subject, &queues[0]).await;
    let now_s: u64 = server.command(&["TIME"]).items()[0].as_text().parse().unwrap();
    let until = |s: u64| format!("{s}000000");

    server.command(&["HSET", LEASE, "h", "another process", "u", &until(now_s + 6)]);
    assert_eq!(subject.store().maintain(&NEXT).await, Ok(0));
    // A lease ends by itself, and one from before the clock stepped back does not count.
    for (stop, next) in [(until(now_s - 1), &queues[10]), (until(now_s + 3_600), &queues[20])] {
        server.command(&["HSET", LEASE, "h", "another process", "u", &stop]);
        assert_eq!(subject.store().maintain(&NEXT).await, Ok(1), "until {stop}");
        end_messages(&server, &subject, next).await;
    }
}

#[tokio::test]
async fn processes_that_share_a_store_share_the_pauses() {
    let (server, _subject, _queues) = stage().await;
    let other = redis_at(server.clone());
    server.command(&["ZADD", DUE, "0", "a", "0", "b"]);
    let in_an_hour = Schedule { pause: Duration::from_secs(3_600), ..NEXT };

    assert_eq!(other.store().maintain(&in_an_hour).await, Ok(0), "another process has just done it");
    assert_eq!(other.store().maintain(&NEXT).await, Ok(2));
}
