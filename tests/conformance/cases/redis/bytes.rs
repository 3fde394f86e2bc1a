//! The number of bytes of queues that processes of an earlier release have changed, which do not
//! count them.

use std::sync::Arc;

use sukkal_domain::{QueueId, QueueLimits, Quota};
use sukkal_storage::{Check, Post, PostOutcome};

use super::keys::key;
use crate::conformance::support::drivers::redis_at;
use crate::conformance::support::subject::{LONG_S, Subject, client, messages};
use support::calls::plain_post;
use support::redis::RedisServer;

const COUNT: usize = 3;
/// Size of a message with a small number.
const BYTES: u64 = 8;

async fn backend() -> (Arc<RedisServer>, Subject, QueueId) {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, COUNT)).await;
    (server, subject, queue)
}

async fn bytes(subject: &Subject) -> u64 {
    subject.store().measure_queues(subject.project(), None, 10).await.unwrap().usage.bytes
}

/// Posts one message to a queue that may have this number of bytes.
async fn post_within(subject: &Subject, queue: &QueueId, bytes: u64) -> PostOutcome {
    let (last_known_revision, by, batch) = (subject.revision(queue).await, client(0), messages(LONG_S, 1));
    let limits = QueueLimits { messages: None, bytes: Some(bytes) };
    let post = Post { limits, ..plain_post(last_known_revision, &by, &batch) };
    subject.store().post_messages(queue, &post).await.unwrap()
}

#[tokio::test]
async fn an_unknown_number_is_known_after_the_queue_was_empty() {
    let (server, subject, queue) = backend().await;
    server.command(&["HDEL", &key(&queue, "queue"), "b"]);

    assert_eq!(bytes(&subject).await, 0);
    assert!(matches!(post_within(&subject, &queue, 0).await, PostOutcome::Posted(_)), "there is no limit");
    assert_eq!(subject.pop(&queue, 2).await.len(), 2);
    assert_eq!(bytes(&subject).await, 0);
    assert_eq!(subject.store().check().await.unwrap().findings, [""; 0], "it is not damage");

    assert_eq!(subject.pop(&queue, 10).await.len(), COUNT - 1);
    subject.post(&queue, &messages(LONG_S, 2)).await;
    assert_eq!(bytes(&subject).await, 2 * BYTES);
    assert_eq!(post_within(&subject, &queue, 2 * BYTES).await, PostOutcome::Full(Quota::BytesPerQueue));
}

#[tokio::test]
async fn a_wrong_number_is_right_after_the_queue_was_empty() {
    let (server, subject, queue) = backend().await;
    server.command(&["HSET", &key(&queue, "queue"), "b", "1000"]);

    assert_eq!(subject.pop(&queue, COUNT).await.len(), COUNT);

    assert_eq!(bytes(&subject).await, 0);
}

#[tokio::test]
async fn a_check_finds_a_wrong_number_and_can_repair_it_and_an_unknown_one() {
    let (server, subject, queue) = backend().await;
    let expected = |known: &str| [format!("{queue}: its messages have {} bytes, and {known}", COUNT as u64 * BYTES)];
    server.command(&["HSET", &key(&queue, "queue"), "b", "1000"]);
    assert_eq!(subject.store().check().await.unwrap().findings, expected("1000 were counted"));

    for known in ["1000 were counted", "their number was not known"] {
        let Check { findings, repaired, .. } = subject.store().repair().await.unwrap();
        assert_eq!((findings, &repaired[..]), (Vec::new(), &expected(known)[..]));
        assert_eq!(bytes(&subject).await, COUNT as u64 * BYTES);
        server.command(&["HDEL", &key(&queue, "queue"), "b"]);
    }
}
