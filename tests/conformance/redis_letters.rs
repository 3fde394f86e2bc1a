//! What only Redis can show of dead letters: states that only a crash between two steps leaves.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sukkal::domain::{MessageId, QueueId};

use super::drivers::{redis, redis_at};
use super::redis_keys::{key, present};
use super::subject::{LONG_S, Subject, messages, metadata};
use crate::support::redis::RedisServer;

/// A queue that lets nothing out, with so many messages.
async fn dead_end(subject: &Subject, count: usize) -> (QueueId, Vec<MessageId>) {
    let queue = subject.id("q");
    let keys = metadata(json!({"_max_claim_count": 0, "_dead_letter_queue": "letters"}));
    subject.store().create_queue(&queue, &keys).await.unwrap();
    let ids = subject.post(&queue, &messages(LONG_S, count)).await;
    (queue, ids)
}

/// Which messages the dead letters were.
async fn arrived(subject: &Subject) -> Vec<MessageId> {
    let letters = subject.list(&subject.id("letters"), None, 1_000).await;
    letters.into_iter().map(|letter| letter.origin.unwrap().id).collect()
}

/// A wrong kind of key where arrivals are noted, so that letters cannot arrive; what is there is kept aside.
fn block(server: &RedisServer, subject: &Subject) {
    let noted = key(&subject.id("letters"), "received");
    server.command(&["RENAMENX", &noted, &format!("{noted}:aside")]);
    server.command(&["LPUSH", &noted, "in the way"]);
}

fn unblock(server: &RedisServer, subject: &Subject) {
    let noted = key(&subject.id("letters"), "received");
    server.command(&["DEL", &noted]);
    server.command(&["RENAME", &format!("{noted}:aside"), &noted]);
}

#[tokio::test]
async fn letters_that_arrived_but_were_not_dropped_arrive_once() {
    let (server, subject) = (RedisServer::shared(), redis());
    let (queue, ids) = dead_end(&subject, 60).await;
    subject.pop(&queue, 1).await;
    block(&server, &subject);
    subject.pop(&queue, 25).await;
    let outbox = key(&queue, "outbox");
    let kept = format!("{outbox}:kept");
    assert_eq!(server.command(&["LLEN", &outbox]).as_int(), 25);
    server.command(&["COPY", &outbox, &kept]);
    unblock(&server, &subject);
    subject.tidy_project().await;
    assert_eq!(arrived(&subject).await, ids[..26]);

    // As if whoever delivered them had died before it dropped them, and others had come in behind.
    block(&server, &subject);
    subject.pop(&queue, 5).await;
    unblock(&server, &subject);
    assert_eq!(server.command(&["LLEN", &outbox]).as_int(), 5);
    for _ in 0..5 {
        server.command(&["LMOVE", &outbox, &kept, "LEFT", "RIGHT"]);
    }
    server.command(&["RENAME", &kept, &outbox]);
    subject.tidy_project().await;

    assert_eq!(arrived(&subject).await, ids[..31]);
    assert!(!present(&server, &queue).contains(&"outbox"));
}

#[tokio::test]
async fn letters_that_wait_keep_nobody_from_claiming_and_arrive_with_the_next() {
    let (server, subject) = (RedisServer::shared(), redis());
    let (queue, ids) = dead_end(&subject, 4).await;
    subject.pop(&queue, 1).await;
    block(&server, &subject);

    assert_eq!(subject.pop(&queue, 1).await, []);
    assert_eq!(subject.claim_for(&queue, 1, 60, 60).await, None);
    unblock(&server, &subject);
    subject.claim_for(&queue, 1, 60, 60).await;

    assert_eq!(arrived(&subject).await, ids);
}

/// How often a script was refused because of a key of the wrong kind, which is how letters fail to arrive.
fn failures(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "errorstats"]).as_text().to_owned();
    let count = stats.lines().find_map(|line| line.strip_prefix("errorstat_WRONGTYPE:count="));
    count.map_or(0, |count| count.trim().parse().expect("it is a number"))
}

#[tokio::test]
async fn letters_that_cannot_arrive_are_tried_once_a_visit_however_much_has_ended() {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let (queue, _) = dead_end(&subject, 2).await;
    subject.pop(&queue, 1).await;
    block(&server, &subject);
    subject.pop(&queue, 1).await;
    let before = failures(&server);
    subject.tidy_project().await;
    let by_one_visit = failures(&server) - before;
    subject.post(&queue, &messages(60, 3_000)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    let before = failures(&server);
    subject.tidy_project().await;

    assert!(by_one_visit > 0, "nothing failed");
    assert_eq!(failures(&server) - before, by_one_visit);
    assert!(present(&server, &queue).contains(&"outbox") && !present(&server, &queue).contains(&"messages"));
}

#[tokio::test]
async fn a_deleted_queue_is_registered_until_its_letters_have_arrived() {
    let (server, subject) = (RedisServer::shared(), redis());
    let (queue, ids) = dead_end(&subject, 3).await;
    subject.pop(&queue, 1).await;
    block(&server, &subject);
    subject.pop(&queue, 2).await;

    subject.delete(&queue).await;
    subject.tidy_project().await;
    assert_eq!(present(&server, &queue), ["outbox"]);
    assert_eq!(subject.names(subject.project(), None, 10).await, ["letters"]);
    unblock(&server, &subject);
    subject.tidy_project().await;

    assert_eq!(arrived(&subject).await, ids);
    assert_eq!(present(&server, &queue), [""; 0]);
    assert_eq!(subject.count_queues().await, 1);
}

#[tokio::test]
async fn a_deleted_queue_is_registered_until_the_last_of_many_letters_has_arrived() {
    let (server, subject) = (RedisServer::shared(), redis());
    let (queue, ids) = dead_end(&subject, 2_200).await;
    subject.pop(&queue, 1).await;
    block(&server, &subject);
    for _ in 0..3 {
        subject.pop(&queue, 1_000).await;
    }
    unblock(&server, &subject);

    subject.delete(&queue).await;
    subject.tidy_project().await;

    assert_eq!(subject.count(&subject.id("letters")).await, ids.len());
    assert_eq!(present(&server, &queue), [""; 0]);
    assert_eq!(subject.names(subject.project(), None, 10).await, ["letters"]);
}

#[tokio::test]
async fn an_arrival_is_remembered_beyond_the_queue_it_came_to() {
    let (server, subject) = (RedisServer::shared(), redis());
    let (queue, ids) = dead_end(&subject, 2).await;
    let letters = subject.id("letters");
    subject.pop(&queue, 1).await;
    block(&server, &subject);
    subject.pop(&queue, 1).await;
    let (outbox, kept) = (key(&queue, "outbox"), key(&queue, "outbox:kept"));
    server.command(&["COPY", &outbox, &kept]);
    unblock(&server, &subject);
    subject.tidy_project().await;

    subject.delete(&letters).await;
    let ttl_s = server.command(&["TTL", &key(&letters, "received")]).as_int();
    assert!((1..=86_400).contains(&ttl_s), "it stays {ttl_s} s");
    server.command(&["RENAME", &kept, &outbox]);
    subject.tidy_project().await;

    // What comes late is not posted to its successor.
    assert_eq!(arrived(&subject).await, []);
    let again = subject.post(&queue, &messages(LONG_S, 1)).await;
    subject.pop(&queue, 1).await;
    assert_eq!(arrived(&subject).await, again);
    assert_eq!(ids.len(), 2);
}
