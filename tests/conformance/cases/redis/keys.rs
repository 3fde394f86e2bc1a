//! Redis keys that are left behind, and states that only a crash produces.
//!
//! These tests read the server directly. A cluster uses the same scripts and no other keys.

use std::sync::Arc;
use std::time::Duration;

use sukkal_domain::{ProjectId, QueueId};

use crate::conformance::cases::fair_helpers::in_shard;
use crate::conformance::support::drivers::{redis, redis_at};
use crate::conformance::support::subject::{LONG_S, Subject, client, ids_of, message, messages};
use support::redis::{RedisServer, Reply};

/// The parts of a queue, each of which has a key.
const PARTS: [&str; 23] = [
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
    "claim_ids",
    "outbox",
    "tasks",
    "task_leases",
    "subscriptions",
    "subscribers",
    "subscription_ids",
    "subscription_ends",
    "deliveries",
    "retries",
    "retry_times",
    "idempotency",
    "idempotency_expirations",
];
/// The parts that exist in a queue with messages that had no claim yet.
const UNCLAIMED: [&str; 4] = ["queue", "messages", "ready", "expirations"];
/// Returns the name of a function that the driver has loaded.
fn function(server: &RedisServer, script: &str) -> String {
    fn texts(reply: &Reply) -> Vec<&str> {
        match reply {
            Reply::Array(items) => items.iter().flat_map(texts).collect(),
            Reply::Bulk(Some(text)) => vec![std::str::from_utf8(text).unwrap()],
            _ => Vec::new(),
        }
    }
    let functions = server.command(&["FUNCTION", "LIST"]);
    let is_of_script = |name: &&str| name.strip_prefix(script).is_some_and(|rest| rest.len() == "_0123456789ab".len());
    texts(&functions).into_iter().find(is_of_script).expect("the function is loaded").to_owned()
}

pub(in crate::conformance) fn key(queue: &QueueId, part: &str) -> String {
    format!("sukkal:{{{queue}}}:{part}")
}

pub(in crate::conformance) fn register_key(project: &ProjectId) -> String {
    format!("sukkal:{{{project}}}:queues")
}

pub(in crate::conformance) fn existing_parts(server: &RedisServer, queue: &QueueId) -> Vec<&'static str> {
    PARTS.into_iter().filter(|part| server.command(&["EXISTS", &key(queue, part)]).as_int() == 1).collect()
}

/// Returns the number of blocks of ranks that will be visited when messages expire.
pub(in crate::conformance) fn blocks_kept(server: &RedisServer, queue: &QueueId) -> usize {
    usize::try_from(server.command(&["ZCARD", &key(queue, "expirations")]).as_int()).expect("it is a count")
}

#[tokio::test]
async fn maintenance_frees_the_storage_of_expired_messages() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 3_000)).await;
    subject.post(&queue, &messages(61, 10)).await;
    assert_eq!(existing_parts(&server, &queue), UNCLAIMED);
    subject.advance(&queue, Duration::from_secs(63)).await;

    subject.run_maintenance().await;

    assert_eq!(existing_parts(&server, &queue), ["queue"]);
}

#[tokio::test]
async fn a_read_frees_the_storage_of_expired_messages() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 1_300)).await;
    subject.advance(&queue, Duration::from_secs(62)).await;

    subject.list(&queue, None, 1).await;

    assert_eq!(existing_parts(&server, &queue), ["queue"]);
}

#[tokio::test]
async fn deleted_messages_leave_few_blocks_of_expirations() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    let left = subject.post(&queue, &messages(LONG_S, 50)).await;
    let (mut peak, mut deleted) = (0, 0);

    // Each round has a block of its own.
    for _ in 0..400 {
        subject.advance(&queue, Duration::from_millis(20)).await;
        let ids = subject.post(&queue, &messages(LONG_S, 3)).await;
        subject.delete_messages(&queue, &ids).await;
        deleted += 1;
        peak = peak.max(blocks_kept(&server, &queue));
    }

    assert!(peak < 2 * 50 + 64 + 100, "{peak} blocks kept for 50 messages");
    assert!(deleted > peak, "{peak} blocks kept after {deleted} deletions");
    assert_eq!(subject.feed(&queue).await, left);
    // The remaining messages still expire in time, and the last one removes all blocks.
    subject.advance(&queue, Duration::from_secs(2 * u64::from(LONG_S))).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), ["queue"]);
}

#[tokio::test]
async fn messages_of_one_block_expire_each_in_its_own_second() {
    let (_server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    let mixed: Vec<_> = (0..1_000).map(|number| message(60 + 7 * number % 500, 0)).collect();
    subject.post(&queue, &mixed).await;

    for passed_s in [100, 250, 300, 560] {
        subject.set_clock_ahead(&queue, Duration::from_secs(passed_s)).await;
        let left = mixed.iter().filter(|message| u64::from(message.ttl_s) > passed_s).count();
        // In its last second a message may be listed or not.
        let last = mixed.iter().filter(|message| (passed_s - 1..=passed_s).contains(&message.ttl_s.into())).count();
        let count = subject.count(&queue).await;
        assert!((left..=left + last).contains(&count), "{count} messages after {passed_s} s instead of {left}");
    }
}

#[tokio::test]
async fn a_deleted_queue_leaves_only_keys_that_expire() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    subject.post_as(&client(1), &queue, &messages(LONG_S, 100)).await;

    subject.delete(&queue).await;

    assert_eq!(existing_parts(&server, &queue), [""; 0]);
    let Reply::Array(keys) = server.command(&["KEYS", &format!("sukkal:{{{queue}}}:*")]) else {
        panic!("KEYS returns a list");
    };
    for key in &keys {
        let ttl_s = server.command(&["TTL", key.as_text()]).as_int();
        assert!((1..=86_400).contains(&ttl_s), "{} still exists after {ttl_s} s", key.as_text());
    }
}

#[tokio::test]
async fn names_without_a_queue_are_skipped_and_pages_stay_full() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
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
async fn a_name_without_a_queue_is_unregistered() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    subject.queue("other").await;
    register(&server, &subject, "crashed", "7");

    subject.run_maintenance().await;

    assert_eq!(registered(&server, &subject), ["other"]);
    assert_eq!(subject.count_queues().await, 1);
    // The name can be used again.
    subject.queue("crashed").await;
    assert_eq!(registered(&server, &subject), ["crashed", "other"]);
}

#[tokio::test]
async fn a_name_whose_deletion_was_interrupted_is_unregistered() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    let (_name, version) = registrations(&server, &subject).remove(0);
    subject.delete(&queue).await;
    // The state in which the queue is deleted and its name is still registered.
    register(&server, &subject, "q", &version);

    assert_eq!(subject.names(subject.project(), None, 10).await, [""; 0]);
    subject.run_maintenance().await;

    assert_eq!(registered(&server, &subject), [""; 0]);
    subject.create(&queue).await;
    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);
    subject.run_maintenance().await;
    assert_eq!(subject.names(subject.project(), None, 10).await, ["q"]);
}

#[tokio::test]
async fn a_late_creation_leaves_no_queue() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let deleted = subject.queue("deleted").await;
    let (_name, version) = registrations(&server, &subject).remove(0);
    subject.delete(&deleted).await;
    register(&server, &subject, "crashed", "7");
    subject.run_maintenance().await;

    // An operation that was still running when the name was unregistered.
    for (queue, version) in [(deleted, version.as_str()), (subject.id("crashed"), "7")] {
        let mut late = vec!["FCALL".to_owned(), function(&server, "queue_create"), "4".to_owned()];
        late.extend(["queue", "shards", "tombstone", "moving"].map(|part| key(&queue, part)));
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
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.fair_queue("q", 8).await;
    subject.post(&queue, &[in_shard(1), in_shard(5)]).await;
    let claim = subject.claim(&queue, 1, 300).await;
    assert!(existing_parts(&server, &queue).contains(&"shards"));

    subject.delete_messages(&queue, &ids_of(&claim.messages)).await;
    subject.pop(&queue, 1).await;

    assert!(!existing_parts(&server, &queue).contains(&"shards"));
}

#[tokio::test]
async fn the_last_reply_of_a_retry_slot_expires() {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    let queue = subject.queue("q").await;
    for _ in 0..20 {
        subject.post(&queue, &messages(LONG_S, 1)).await;
    }

    let Reply::Array(keys) = server.command(&["KEYS", "sukkal:{*}:answer:*"]) else {
        panic!("KEYS returns a list");
    };

    assert_eq!(keys.len(), 1, "sequential posts need one retry slot");
    let ttl_ms = server.command(&["PTTL", keys[0].as_text()]).as_int();
    assert!((1..=30_000).contains(&ttl_ms), "{ttl_ms} ms");
}

/// Registers the name without a queue, as a process does that crashes between registering and
/// creating a queue.
fn register(server: &RedisServer, subject: &Subject, name: &str, version: &str) {
    let project = subject.project();
    server.command(&["ZADD", "sukkal:{projects}", "0", &format!("{project}\0{version}")]);
    server.command(&["ZADD", &register_key(project), "0", &format!("{name}\0{version}")]);
}

/// Returns the registered names of a project with their versions.
pub(in crate::conformance) fn registrations(server: &RedisServer, subject: &Subject) -> Vec<(String, String)> {
    let parts = |member: &Reply| {
        let (name, version) = member.as_text().split_once('\0').expect("a version");
        (name.to_owned(), version.to_owned())
    };
    server.command(&["ZRANGE", &register_key(subject.project()), "0", "-1"]).items().iter().map(parts).collect()
}

fn registered(server: &RedisServer, subject: &Subject) -> Vec<String> {
    registrations(server, subject).into_iter().map(|(name, _)| name).collect()
}
