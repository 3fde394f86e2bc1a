//! Dead letters over Redis: the keys that remain while they are on their way. `between_stores`
//! tests that they arrive once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sukkal_domain::{MessageId, QueueId};

use super::keys::{existing_parts, key};
use crate::conformance::support::drivers::{redis, redis_at};
use crate::conformance::support::subject::{LONG_S, Subject, ids_of, messages};
use support::redis::RedisServer;

/// Creates a queue that delivers each message once, with `count` messages that have been delivered.
async fn queue_of_delivered(subject: &Subject, count: usize) -> (QueueId, Vec<MessageId>) {
    let queue = subject.queue_of("q", json!({"_max_claim_count": 1, "_dead_letter_queue": "letters"})).await;
    let ids = subject.post_delivered(&queue, &messages(LONG_S, count)).await;
    (queue, ids)
}

/// Puts a key of the wrong type where arrivals are recorded, so that dead letters cannot arrive.
/// Keeps the old key aside.
fn block_arrivals(server: &RedisServer, subject: &Subject) {
    let noted = key(&subject.id("letters"), "received");
    server.command(&["RENAMENX", &noted, &format!("{noted}:aside")]);
    server.command(&["LPUSH", &noted, "in the way"]);
}

fn unblock_arrivals(server: &RedisServer, subject: &Subject) {
    let noted = key(&subject.id("letters"), "received");
    server.command(&["DEL", &noted]);
    server.command(&["RENAME", &format!("{noted}:aside"), &noted]);
}

/// Returns how often a script failed because of a key of the wrong type, which is how dead letters
/// fail to arrive here.
fn failed_scripts(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "errorstats"]).as_text().to_owned();
    let count = stats.lines().find_map(|line| line.strip_prefix("errorstat_WRONGTYPE:count="));
    count.map_or(0, |count| count.trim().parse().expect("it is a number"))
}

#[tokio::test]
async fn dead_letters_that_cannot_arrive_are_tried_once_per_visit() {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let (queue, _) = queue_of_delivered(&subject, 1).await;
    subject.pop(&queue, 1).await;
    block_arrivals(&server, &subject);
    subject.post_delivered(&queue, &messages(LONG_S, 1)).await;
    subject.pop(&queue, 1).await;
    let before = failed_scripts(&server);
    subject.run_maintenance().await;
    let by_one_visit = failed_scripts(&server) - before;
    subject.post(&queue, &messages(60, 3_000)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    let before = failed_scripts(&server);
    subject.run_maintenance().await;

    assert!(by_one_visit > 0, "nothing failed");
    assert_eq!(failed_scripts(&server) - before, by_one_visit);
    assert!(
        existing_parts(&server, &queue).contains(&"outbox") && !existing_parts(&server, &queue).contains(&"messages")
    );
}

#[tokio::test]
async fn a_deleted_queue_stays_registered_until_its_dead_letters_arrive() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, _) = queue_of_delivered(&subject, 1).await;
    subject.pop(&queue, 1).await;
    block_arrivals(&server, &subject);
    subject.post_delivered(&queue, &messages(LONG_S, 2_200)).await;
    subject.pop(&queue, 1_000).await;

    subject.delete(&queue).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), ["outbox"]);
    assert_eq!(subject.names(subject.project(), None, 10).await, ["letters"]);
    unblock_arrivals(&server, &subject);
    // A visit delivers a part of them.
    for parts in [&["outbox"][..], &[]] {
        subject.run_maintenance().await;
        assert_eq!(existing_parts(&server, &queue), parts);
    }

    assert_eq!(subject.count(&subject.id("letters")).await, 2_201);
    assert_eq!(subject.count_queues().await, 1);
}

#[tokio::test]
async fn arrivals_are_remembered_for_a_day_after_their_queue_is_deleted() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, dead_letters) = (queue_of_delivered(&subject, 1).await.0, subject.id("letters"));
    subject.pop(&queue, 1).await;

    subject.delete(&dead_letters).await;

    let ttl_s = server.command(&["TTL", &key(&dead_letters, "received")]).as_int();
    assert!((86_000..=86_400).contains(&ttl_s), "it still exists after {ttl_s} s");
}

/// Earlier releases have stored it, and then delivered no message.
#[tokio::test]
async fn a_stored_limit_of_0_is_no_limit() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let (queue, ids) = queue_of_delivered(&subject, 2).await;
    server.command(&["HSET", &key(&queue, "queue"), "p", "\0\0\0\0\0\0\0\0\0letters"]);

    let claim = subject.claim(&queue, 2, 60).await;

    assert_eq!(ids_of(&claim.messages), ids);
    assert_eq!(claim.messages.iter().map(|message| message.claim_count).collect::<Vec<_>>(), [2; 2]);
}
