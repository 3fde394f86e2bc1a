//! What only Redis can show: the keys that are left, and the states that only a crash leaves.
//!
//! Looks past the driver, at the server itself. The cluster has the same scripts and no other keys.

use std::time::Duration;

use sukkal::domain::{ProjectId, QueueId};

use super::drivers::redis;
use super::fairness::in_shard;
use super::subject::{LONG_S, Subject, client, ids_of, message, messages};
use crate::support::redis::{RedisServer, Reply};

/// What a queue consists of.
const PARTS: [&str; 13] = [
    "queue",
    "messages",
    "ready",
    "delayed",
    "expirations",
    "shards",
    "tenants",
    "leases",
    "in_flight",
    "claims",
    "outbox",
    "idempotency",
    "idempotency_expirations",
];
/// Those that exist when messages do and no claim ever did.
const UNCLAIMED: [&str; 4] = ["queue", "messages", "ready", "expirations"];
/// The step in which a queue is created, as the driver puts it together.
const CREATION: &str = concat!(
    "local queue, shards, tombstone = unpack(KEYS)\n",
    include_str!("../../scripts/shared/clock.lua"),
    include_str!("../../scripts/shared/queue.lua"),
    include_str!("../../scripts/shared/state.lua"),
    include_str!("../../scripts/shared/fair.lua"),
    include_str!("../../scripts/shared/policy.lua"),
    include_str!("../../scripts/shared/keep_policy.lua"),
    include_str!("../../scripts/queue_create.lua"),
);

pub(super) fn key(queue: &QueueId, part: &str) -> String {
    format!("sukkal:{{{queue}}}:{part}")
}

pub(super) fn register_key(project: &ProjectId) -> String {
    format!("sukkal:{{{project}}}:queues")
}

pub(super) fn present(server: &RedisServer, queue: &QueueId) -> Vec<&'static str> {
    PARTS.into_iter().filter(|part| server.command(&["EXISTS", &key(queue, part)]).as_int() == 1).collect()
}

/// Number of blocks of ranks that will be visited when messages end.
pub(super) fn blocks_kept(server: &RedisServer, queue: &QueueId) -> usize {
    usize::try_from(server.command(&["ZCARD", &key(queue, "expirations")]).as_int()).expect("it is a count")
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

    assert_eq!(present(&server, &queue), ["queue"]);
}

#[tokio::test]
async fn a_reader_gives_back_the_storage_of_what_has_ended() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 1_300)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    subject.list(&queue, None, 1).await;

    assert_eq!(present(&server, &queue), ["queue"]);
}

#[tokio::test]
async fn deleted_messages_leave_no_blocks_of_expirations_out_of_proportion() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    let left = subject.post(&queue, &messages(LONG_S, 50)).await;
    let (mut peak, mut deleted) = (0, 0);

    // Each round is in a block of its own.
    for _ in 0..400 {
        subject.advance(&queue, Duration::from_millis(20)).await;
        let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
        subject.delete_messages(&queue, &ids).await;
        deleted += 1;
        peak = peak.max(blocks_kept(&server, &queue));
    }

    assert!(peak < 2 * 50 + 64 + 100, "{peak} blocks kept for 50 messages");
    assert!(deleted > peak, "{peak} blocks kept of {deleted} deleted ones");
    assert_eq!(subject.feed(&queue).await, left);
    // What is left still ends when it should, and the last message takes all blocks with it.
    subject.advance(&queue, Duration::from_secs(2 * u64::from(LONG_S))).await;
    subject.tidy_project().await;
    assert_eq!(present(&server, &queue), ["queue"]);
}

#[tokio::test]
async fn messages_of_one_block_end_each_in_its_second() {
    let (_server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    let mixed: Vec<_> = (0..1_000).map(|number| message(60 + 7 * number % 500, 0)).collect();
    subject.post(&queue, &mixed).await;

    for passed_s in [100, 250, 300, 560] {
        subject.turn_clock(&queue, Duration::from_secs(passed_s)).await;
        let left = mixed.iter().filter(|message| u64::from(message.ttl_s) > passed_s).count();
        // In its last second a message may be there or not.
        let last = mixed.iter().filter(|message| (passed_s - 1..=passed_s).contains(&message.ttl_s.into())).count();
        let count = subject.count(&queue).await;
        assert!((left..=left + last).contains(&count), "{count} after {passed_s} s, {left} outlive that");
    }
}

#[tokio::test]
async fn a_deleted_queue_leaves_only_what_goes_by_itself() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    subject.post_as(&client(1), &queue, &messages(LONG_S, 100)).await;

    subject.delete(&queue).await;

    assert_eq!(present(&server, &queue), [""; 0]);
    let Reply::Array(keys) = server.command(&["KEYS", &format!("sukkal:{{{queue}}}:*")]) else {
        panic!("KEYS gives a list");
    };
    for key in &keys {
        let ttl_s = server.command(&["TTL", key.as_text()]).as_int();
        assert!((1..=86_400).contains(&ttl_s), "{} stays {ttl_s} s", key.as_text());
    }
}

#[tokio::test]
async fn names_without_a_queue_are_passed_over_and_pages_stay_full() {
    let (server, subject) = (RedisServer::shared(), redis());
    for number in 10..40 {
        if number % 2 == 0 {
            subject.queue(&format!("q{number}")).await;
        } else {
            register(&server, &subject, &format!("q{number}"), &number.to_string());
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
    register(&server, &subject, "crashed", "7");

    subject.tidy_project().await;

    assert_eq!(registered(&server, &subject), ["other"]);
    assert_eq!(subject.count_queues().await, 1);
    // Whoever comes next finds nothing in the way.
    subject.queue("crashed").await;
    assert_eq!(registered(&server, &subject), ["crashed", "other"]);
}

#[tokio::test]
async fn a_name_whose_deletion_was_cut_off_is_taken_out() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    let (_name, version) = registrations(&server, &subject).remove(0);
    subject.delete(&queue).await;
    // As it was when the queue was gone and its name not yet.
    register(&server, &subject, "q", &version);

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
    let (_name, version) = registrations(&server, &subject).remove(0);
    subject.delete(&deleted).await;
    register(&server, &subject, "crashed", "7");
    subject.tidy_project().await;

    // What was still under way when the name was taken out of the register.
    for (queue, version) in [(deleted, version.as_str()), (subject.id("crashed"), "7")] {
        let mut late = vec!["EVAL".to_owned(), CREATION.to_owned(), "3".to_owned()];
        late.extend(["queue", "shards", "tombstone"].map(|part| key(&queue, part)));
        late.extend([version, "metadata", ""].map(str::to_owned));
        let answer = server.command(&late.iter().map(String::as_str).collect::<Vec<_>>());

        assert_eq!(answer.items()[0].as_text(), "ended", "{queue}");
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
fn register(server: &RedisServer, subject: &Subject, name: &str, version: &str) {
    let project = subject.project();
    server.command(&["ZADD", "sukkal:{projects}", "0", &format!("{project}\0{version}")]);
    server.command(&["ZADD", &register_key(project), "0", &format!("{name}\0{version}")]);
}

/// The register of a project: names and versions.
pub(super) fn registrations(server: &RedisServer, subject: &Subject) -> Vec<(String, String)> {
    let parts = |member: &Reply| {
        let (name, version) = member.as_text().split_once('\0').expect("a version");
        (name.to_owned(), version.to_owned())
    };
    server.command(&["ZRANGE", &register_key(subject.project()), "0", "-1"]).items().iter().map(parts).collect()
}

fn registered(server: &RedisServer, subject: &Subject) -> Vec<String> {
    registrations(server, subject).into_iter().map(|(name, _)| name).collect()
}
