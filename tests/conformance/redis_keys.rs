//! What only Redis can show: the keys that are left, and the states that only a crash leaves.
//!
//! Looks past the driver, at the server itself. The cluster has the same scripts and no other keys.

use std::time::Duration;

use sukkal::domain::{ProjectId, QueueId};

use super::drivers::redis;
use super::fairness::in_shard;
use super::subject::{LONG_S, Subject, client, ids_of, message, messages};
use crate::support::redis::{RedisServer, Reply};

/// A queue's keys in the order in which scripts get them.
const PARTS: [&str; 13] = [
    "queue", "counter", "messages", "ready", "delayed", "ends", "shards", "tenants", "leases", "held", "holds",
    "claims", "outbox",
];
/// Those that are there when messages are and no claim ever was.
const UNCLAIMED: [&str; 5] = ["queue", "counter", "messages", "ready", "ends"];
/// The step in which a queue is created, as the driver puts it together.
const CREATION: &str = concat!(
    include_str!("../../scripts/shared/clock.lua"),
    include_str!("../../scripts/shared/queue.lua"),
    include_str!("../../scripts/shared/fair.lua"),
    include_str!("../../scripts/shared/policy.lua"),
    include_str!("../../scripts/queue_create.lua"),
);

pub(super) fn key(queue: &QueueId, part: &str) -> String {
    format!("sukkal:{{{queue}}}:{part}")
}

fn register_key(project: &ProjectId, part: &str) -> String {
    format!("sukkal:{{{project}}}:{part}")
}

pub(super) fn present(server: &RedisServer, queue: &QueueId) -> Vec<&'static str> {
    PARTS.into_iter().filter(|part| server.command(&["EXISTS", &key(queue, part)]).as_int() == 1).collect()
}

/// How many ends are kept, as the index has them and as the queue's own count says.
pub(super) fn ends_kept(server: &RedisServer, queue: &QueueId) -> (usize, usize) {
    let Reply::Array(chunks) = server.command(&["ZRANGE", &key(queue, "ends"), "0", "-1"]) else {
        panic!("the ends are no sorted set");
    };
    let bytes: usize =
        chunks.iter().map(|chunk| if let Reply::Bulk(Some(chunk)) = chunk { chunk.len() - 4 } else { 0 }).sum();
    let noted = server.command(&["HGET", &key(queue, "queue"), "n"]);
    (bytes / 12, noted.as_text().parse().expect("the count is a number"))
}

#[tokio::test]
async fn the_storage_of_what_has_ended_is_given_back() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 3_000)).await;
    subject.post(&queue, &messages(61, 10)).await;
    assert_eq!(present(&server, &queue), UNCLAIMED);
    subject.advance(&queue, Duration::from_secs(63)).await;

    subject.tidy_project().await;

    assert_eq!(present(&server, &queue), ["queue", "counter"]);
    assert_eq!(ends_kept(&server, &queue), (0, 0));
}

#[tokio::test]
async fn a_reader_gives_back_the_storage_of_what_has_ended() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 1_300)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    subject.list(&queue, None, 1).await;

    assert_eq!(present(&server, &queue), ["queue", "counter"]);
    assert_eq!(ends_kept(&server, &queue), (0, 0));
}

#[tokio::test]
async fn the_ends_of_deleted_messages_are_forgotten() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    let left = subject.post(&queue, &messages(LONG_S, 50)).await;
    let (mut peak, mut deleted) = (0, 0);

    for round in 0..120 {
        // Among the many that go, one that stays, so that chunks are seldom empty.
        let mut batch = messages(LONG_S + round, 100);
        batch.push(message(60, 0));
        let ids = subject.post(&queue, &batch).await;
        subject.delete_messages(&queue, &ids[..100]).await;
        deleted += 100;
        peak = peak.max(ends_kept(&server, &queue).0);
    }

    let (kept, noted) = ends_kept(&server, &queue);
    assert_eq!(kept, noted, "the count of the ends has drifted");
    assert!(deleted > 2 * peak, "{peak} ends kept of {deleted} deleted messages");
    assert!(peak <= 2 * 170 + 4_096 + 200, "{peak} ends kept for 170 messages");
    // What is left still ends when it should.
    subject.advance(&queue, Duration::from_secs(90)).await;
    assert_eq!(subject.feed(&queue).await, left);
    subject.advance(&queue, Duration::from_secs(2 * u64::from(LONG_S))).await;
    subject.tidy_project().await;
    assert_eq!(present(&server, &queue), ["queue", "counter"]);
    assert_eq!(ends_kept(&server, &queue), (0, 0));
}

#[tokio::test]
async fn tidying_forgets_the_ends_that_deletes_in_bulk_have_left() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    let left = subject.post(&queue, &messages(LONG_S, 40)).await;
    let ids = subject.post(&queue, &messages(LONG_S, 12_000)).await;
    for thousand in ids.chunks(1_000) {
        subject.delete_messages(&queue, thousand).await;
    }

    subject.tidy_project().await;

    let (kept, noted) = ends_kept(&server, &queue);
    assert_eq!(kept, noted, "the count of the ends has drifted");
    assert!(kept <= 2 * 40 + 4_096, "{kept} ends kept for 40 messages");
    assert_eq!(subject.feed(&queue).await, left);
}

#[tokio::test]
async fn a_deleted_queue_leaves_only_what_goes_by_itself() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    subject.post_as(&client(1), &queue, &messages(LONG_S, 100)).await;

    subject.delete(&queue).await;

    assert_eq!(present(&server, &queue), ["counter"]);
    let Reply::Array(keys) = server.command(&["KEYS", &format!("sukkal:{{{queue}}}:*")]) else {
        panic!("KEYS gives a list");
    };
    for key in &keys {
        let ttl_s = server.command(&["TTL", key.as_text()]).as_int();
        assert!((1..=86_400).contains(&ttl_s), "{} stays {ttl_s} s", key.as_text());
    }
    // And when it is there again, its counter stays.
    subject.create(&queue).await;
    assert_eq!(server.command(&["TTL", &key(&queue, "counter")]).as_int(), -1);
}

#[tokio::test]
async fn names_without_a_queue_are_passed_over_and_pages_stay_full() {
    let (server, subject) = (RedisServer::shared(), redis());
    for number in 10..40 {
        if number % 2 == 0 {
            subject.queue(&format!("q{number}")).await;
        } else {
            register(&server, &subject, &format!("q{number}"), number);
        }
    }

    let even: Vec<String> = (10..40).step_by(2).map(|number| format!("q{number}")).collect();
    for limit in [1, 4, 15, 16] {
        let page = subject.names(subject.project(), None, limit).await;
        assert_eq!(page, even[..limit.min(15)], "a page of {limit}");
    }
    assert_eq!(subject.names(subject.project(), Some("q11"), 3).await, even[1..4]);
}

#[tokio::test]
async fn a_name_whose_queue_was_never_created_is_taken_out() {
    let (server, subject) = (RedisServer::shared(), redis());
    subject.queue("other").await;
    register(&server, &subject, "crashed", 7);

    subject.tidy_project().await;

    assert_eq!(registered(&server, &subject), ["other"]);
    assert_eq!(subject.count_queues().await, 1);
    let stamps = register_key(subject.project(), "stamps");
    assert_eq!(server.command(&["HEXISTS", &stamps, "crashed"]).as_int(), 0);
    // Whoever comes next finds nothing in the way.
    subject.queue("crashed").await;
    assert_eq!(registered(&server, &subject), ["crashed", "other"]);
}

#[tokio::test]
async fn a_name_whose_deletion_was_cut_off_is_taken_out() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    let stamps = register_key(subject.project(), "stamps");
    let stamp = server.command(&["HGET", &stamps, "q"]).as_text().to_owned();
    subject.delete(&queue).await;
    // As it was when the queue was gone and its name not yet.
    server.command(&["HSET", &stamps, "q", &stamp]);
    server.command(&["ZADD", &register_key(subject.project(), "queues"), "0", "q"]);

    assert_eq!(subject.names(subject.project(), None, 10).await, [""; 0]);
    subject.tidy_project().await;

    assert_eq!(registered(&server, &subject), [""; 0]);
    subject.create(&queue).await;
    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);
    subject.tidy_project().await;
    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);
}

#[tokio::test]
async fn a_creation_that_comes_too_late_leaves_no_queue() {
    let (server, subject) = (RedisServer::shared(), redis());
    let deleted = subject.queue("deleted").await;
    let stamps = register_key(subject.project(), "stamps");
    let stamp = server.command(&["HGET", &stamps, "deleted"]).as_text().to_owned();
    subject.delete(&deleted).await;
    register(&server, &subject, "crashed", 7);
    subject.tidy_project().await;

    // What was still under way when the name was taken out of the register.
    for (queue, stamp) in [(deleted, stamp.as_str()), (subject.id("crashed"), "7")] {
        let mut late = vec!["EVAL".to_owned(), CREATION.to_owned(), (PARTS.len() + 1).to_string()];
        late.extend(PARTS.into_iter().chain(["grave"]).map(|part| key(&queue, part)));
        late.extend([stamp, "metadata", ""].map(str::to_owned));
        let answer = server.command(&late.iter().map(String::as_str).collect::<Vec<_>>());

        assert_eq!(answer.as_text(), "buried", "{queue}");
        assert_eq!(subject.get(&queue).await, None);
        subject.create(&queue).await;
    }
    assert_eq!(subject.names(subject.project(), None, 10).await, ["crashed", "deleted"]);
}

#[tokio::test]
async fn an_empty_fair_queue_keeps_no_shards() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.fair_queue("q", 8).await;
    subject.post(&queue, &[in_shard(1), in_shard(5)]).await;
    let claim = subject.claim(&queue, 1, 300).await;
    assert!(present(&server, &queue).contains(&"shards"));

    subject.delete_messages(&queue, &ids_of(&claim.messages)).await;
    subject.pop(&queue, 1).await;

    assert!(!present(&server, &queue).contains(&"shards"));
}

#[tokio::test]
async fn the_last_answer_of_a_lane_is_forgotten_by_itself() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    for _ in 0..20 {
        subject.post(&queue, &messages(LONG_S, 1)).await;
    }

    let Reply::Array(answers) = server.command(&["KEYS", &key(&queue, "answer:*")]) else {
        panic!("KEYS gives a list");
    };

    assert_eq!(answers.len(), 1, "posts one after the other need one lane");
    let ttl_ms = server.command(&["PTTL", answers[0].as_text()]).as_int();
    assert!((1..=30_000).contains(&ttl_ms), "{ttl_ms} ms");
}

/// Leaves the name as a process does that dies between a queue's registration and its creation.
fn register(server: &RedisServer, subject: &Subject, name: &str, stamp: usize) {
    let stamp = stamp.to_string();
    let project = subject.project();
    server.command(&["ZADD", "sukkal:projects", "0", project.as_str()]);
    server.command(&["HSET", &register_key(project, "stamps"), name, &stamp]);
    server.command(&["ZADD", &register_key(project, "queues"), "0", name]);
}

fn registered(server: &RedisServer, subject: &Subject) -> Vec<String> {
    match server.command(&["ZRANGE", &register_key(subject.project(), "queues"), "0", "-1"]) {
        Reply::Array(names) => names.iter().map(|name| name.as_text().to_owned()).collect(),
        other => panic!("ZRANGE gives a list: {other:?}"),
    }
}
