//! The integrity check of a store in Redis: it finds each kind of damage, and nothing in an
//! undamaged store.

use std::sync::Arc;

use serde_json::json;
use sukkal_domain::{ClaimId, NewMessage, QueueId, Tenant};
use sukkal_storage::{Check, UpdateOutcome};

use super::keys::key;
use crate::conformance::cases::delivery_helpers::{attempt, delivered, retry};
use crate::conformance::cases::redrives::all_to;
use crate::conformance::support::drivers::redis_at;
use crate::conformance::support::subject::{LONG_S, Subject, message, messages, metadata};
use support::calls::new_claim;
use support::redis::RedisServer;

/// More messages than one script examines.
const READY: usize = 250;
const IN_FLIGHT: usize = 20;
const DELAYED: usize = 5;
const FAIR: usize = 10;

async fn backend() -> (Arc<RedisServer>, Subject, QueueId) {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    subject.queue("empty").await;
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, READY + IN_FLIGHT)).await;
    subject.post(&queue, &vec![NewMessage { delay_s: 60, ..message(LONG_S, 1) }; DELAYED]).await;
    let claim = new_claim(IN_FLIGHT, 300);
    subject
        .store()
        .create_claim(&queue, ClaimId::random(), &claim)
        .await
        .unwrap()
        .messages()
        .expect("messages are available");
    (server, subject, queue)
}

/// The same for a fair queue whose oldest messages were posted before it became fair.
async fn fair_store_to_check() -> (Arc<RedisServer>, Subject, QueueId) {
    let (server, subject, queue) = backend().await;
    let (fair, revision) = (metadata(json!({ "_shards": 8 })), subject.revision(&queue).await);
    assert_eq!(subject.store().update_queue(&queue, revision, &fair).await, Ok(UpdateOutcome::Done));
    let assignment = fair.sharding().map(|sharding| Arc::new(sharding.assign(&Tenant::new("t").unwrap())));
    for delay_s in [0, 60] {
        let batch = vec![NewMessage { delay_s, assignment: assignment.clone(), ..message(LONG_S, 1) }; FAIR];
        subject.post(&queue, &batch).await;
    }
    (server, subject, queue)
}

async fn check(subject: &Subject) -> Check {
    subject.store().check().await.unwrap()
}

#[tokio::test]
async fn a_store_with_messages_in_all_sets_passes_the_check() {
    let (_server, subject, _queue) = backend().await;

    let whole = Check { queues: 2, messages: (READY + IN_FLIGHT + DELAYED) as u64, ..Check::default() };
    assert_eq!(check(&subject).await, whole);
}

#[tokio::test]
async fn a_fair_queue_with_older_unsharded_messages_passes_the_check() {
    let (_server, subject, _queue) = fair_store_to_check().await;

    let messages = (READY + IN_FLIGHT + DELAYED + 2 * FAIR) as u64;
    assert_eq!(check(&subject).await, Check { queues: 2, messages, ..Check::default() });
}

#[tokio::test]
async fn a_check_finds_each_kind_of_damage_to_shards() {
    const NEWEST: &str = "string.sub(redis.call('ZRANGE', KEYS[2], -1, -1)[1], 1, 12)";
    const OLDEST: &str = "string.sub(redis.call('ZRANGE', KEYS[2], 0, 0)[1], 1, 12)";
    for (damage, parts, finding) in [
        (format!("redis.call('ZREM', KEYS[1], {NEWEST})"), ["shards", "ready"], "has no shard"),
        (format!("redis.call('ZADD', KEYS[1], 10003, {OLDEST})"), ["shards", "ready"], "is older than the sharding"),
        (
            format!("redis.call('ZINCRBY', KEYS[1], 20000, {NEWEST})"),
            ["shards", "ready"],
            "in another set than its shard",
        ),
        ("redis.call('HDEL', KEYS[1], 'f')".to_owned(), ["queue", "shards"], "a shard of a queue that has none"),
        (
            "redis.call('ZADD', KEYS[1], 10003, string.rep('\\0', 11) .. '1')".to_owned(),
            ["shards", "ready"],
            "is in a shard and has no record",
        ),
    ] {
        let (server, subject, queue) = fair_store_to_check().await;
        assert_found(&server, &subject, &queue, &damage, parts, finding).await;
    }
}

/// Applies the damage and asserts that a check finds it.
async fn assert_found(
    server: &RedisServer,
    subject: &Subject,
    queue: &QueueId,
    damage: &str,
    parts: [&str; 2],
    finding: &str,
) {
    let [one, other] = parts.map(|part| key(queue, part));
    server.command(&["EVAL", damage, "2", &one, &other]);

    let findings = check(subject).await.findings;

    assert!(findings.iter().any(|one| one.contains(finding)), "{damage}: {findings:?}");
    assert!(findings.iter().all(|one| one.starts_with(&queue.to_string())), "{findings:?}");
    assert!(findings.len() <= 100, "{} findings", findings.len());
}

#[tokio::test]
async fn a_check_finds_each_kind_of_damage() {
    for (damage, parts, finding) in [
        (
            "redis.call('HDEL', KEYS[1], string.sub(redis.call('ZRANGE', KEYS[2], -1, -1)[1], 1, 12))",
            ["messages", "ready"],
            "has no record",
        ),
        (
            "redis.call('ZREM', KEYS[1], redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
            ["ready", "in_flight"],
            "are in the feed",
        ),
        (
            "redis.call('ZADD', KEYS[2], 7, redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
            ["ready", "in_flight"],
            "has the entry of another set",
        ),
        (
            "local entry = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
            redis.call('ZADD', KEYS[2], entry[2], entry[1])",
            ["ready", "delayed"],
            "is in two sets",
        ),
        (
            "redis.call('ZADD', KEYS[1], 7, redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
            ["ready", "in_flight"],
            "at another rank",
        ),
        (
            "redis.call('HSET', KEYS[1], 'c', struct.pack('>I8I8', 7, 0))",
            ["queue", "ready"],
            "before its rank was assigned",
        ),
        (
            "local entry = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
            local other = string.sub(entry, 1, 7) .. '12345' .. string.sub(entry, 13)
            redis.call('HSET', KEYS[1], string.sub(other, 1, 12), 'record')
            redis.call('ZADD', KEYS[2], redis.call('ZSCORE', KEYS[2], entry), other)",
            ["messages", "ready"],
            "shares its rank",
        ),
        (
            "redis.call('HSET', KEYS[1], string.sub(redis.call('ZRANGE', KEYS[2], 0, 0)[1], 1, 12), string.rep('x', 9999))",
            ["messages", "ready"],
            "is larger than its size class",
        ),
        (
            "local key = redis.call('HKEYS', KEYS[1])[1]
            redis.call('HSET', KEYS[1], key, string.sub(redis.call('HGET', KEYS[1], key), 1, 7) .. '\\193')",
            ["messages", "ready"],
            "its body is not JSON",
        ),
        ("redis.call('HSET', KEYS[1], 'm', 'x')", ["queue", "ready"], "metadata is not an object"),
        ("redis.call('DEL', KEYS[1])", ["expirations", "ready"], "never ends"),
        (
            "for _, block in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
              redis.call('ZADD', KEYS[1], 9999999999, block)
            end",
            ["expirations", "ready"],
            "never ends",
        ),
        ("redis.call('HDEL', KEYS[1], 'd')", ["queue", "ready"], "ends without being due"),
        ("redis.call('DEL', KEYS[1])", ["leases", "in_flight"], "is held by a lease that does not exist"),
        ("redis.call('DEL', KEYS[1])", ["leases", "claims"], "never ends"),
        (
            "redis.call('ZINCRBY', KEYS[1], 1, redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
            ["leases", "claims"],
            "ends at another time than it should",
        ),
        ("redis.call('DEL', KEYS[1])", ["claims", "leases"], "does not exist and ends"),
        ("redis.call('DEL', KEYS[1])", ["claims", "claim_ids"], "does not exist and is listed"),
        ("redis.call('DEL', KEYS[1])", ["claim_ids", "claims"], "is not listed"),
        (
            "local id = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
            redis.call('HSET', KEYS[1], id, string.sub(redis.call('HGET', KEYS[1], id), 1, 58))",
            ["claims", "claim_ids"],
            "is under a claim that does not have it",
        ),
        (
            "redis.call('HINCRBY', KEYS[1], redis.call('ZRANGE', KEYS[2], 0, 0)[1] .. '#', 1)",
            ["claims", "claim_ids"],
            "has another number of messages",
        ),
    ] {
        let (server, subject, queue) = backend().await;
        assert_found(&server, &subject, &queue, damage, parts, finding).await;
    }
}

#[tokio::test]
async fn a_check_finds_a_running_task_without_a_lease() {
    let (server, subject, queue) = backend().await;
    subject.create_redrive(&queue, &all_to(&subject.id("empty"))).await;
    assert_eq!(check(&subject).await.findings, [""; 0]);

    let damage = "redis.call('DEL', KEYS[1])";

    assert_found(&server, &subject, &queue, damage, ["task_leases", "tasks"], "is running without a lease").await;
}

/// A queue with two subscriptions, each of which has progress, attempts and a retry.
async fn store_with_subscriptions() -> (Arc<RedisServer>, Subject, QueueId) {
    let (server, subject, queue) = backend().await;
    let message = subject.list(&queue, None, 1).await.remove(0);
    let ids = [subject.subscribe(&queue, "http://a").await, subject.subscribe(&queue, "http://b").await];
    let (fence, state) = subject.lease(&queue, 1).await;
    let changes = ids.map(|id| {
        let mut change = delivered(id, 1);
        change.attempts = (0..30).map(attempt).collect();
        change.new_retries = vec![retry(&message, state.now_us + 1)];
        change
    });
    subject.save(&queue, fence, &changes).await.expect("the lease is live");
    (server, subject, queue)
}

#[tokio::test]
async fn a_check_finds_each_kind_of_damage_to_subscriptions() {
    const FIRST: &str = "local id = redis.call('HKEYS', KEYS[1])[1]";
    let (_server, subject, _queue) = store_with_subscriptions().await;
    assert_eq!(check(&subject).await.findings, [""; 0]);

    for (damage, parts, finding) in [
        ("redis.call('HINCRBY', KEYS[1], 'n', 1)".to_owned(), ["queue", "deliveries"], "are stored, 3 are counted"),
        (format!("{FIRST} redis.call('HDEL', KEYS[1], id)"), ["subscribers", "queue"], "not found by its subscriber"),
        (
            "redis.call('HSET', KEYS[1], 'http://c', redis.call('HVALS', KEYS[1])[1])".to_owned(),
            ["subscribers", "queue"],
            "is found by a subscriber that it does not have",
        ),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["subscription_ids", "queue"], "is not listed"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["subscription_ends", "queue"], "never expires"),
        (
            format!("{FIRST} redis.call('ZINCRBY', KEYS[2], 1, id)"),
            ["subscriptions", "subscription_ends"],
            "expires at another time",
        ),
        (format!("{FIRST} redis.call('HDEL', KEYS[2], 'p' .. id)"), ["subscriptions", "deliveries"], "has no progress"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["subscriptions", "queue"], "does not exist and has a subscriber"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["subscriptions", "queue"], "does not exist and is listed"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["subscriptions", "queue"], "does not exist and expires"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["subscriptions", "queue"], "does not exist and has progress"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["subscriptions", "queue"], "does not exist and has attempts"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["subscriptions", "queue"], "does not exist and has a retry"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["retry_times", "queue"], "has a retry that is never due"),
        ("redis.call('DEL', KEYS[1])".to_owned(), ["retries", "queue"], "no record of a retry that is due"),
        (
            format!("{FIRST} redis.call('HSET', KEYS[1], id, 'x')"),
            ["subscriptions", "queue"],
            "the record of a subscription",
        ),
        (
            format!("{FIRST} redis.call('HSET', KEYS[2], 'p' .. id, 'x')"),
            ["subscriptions", "deliveries"],
            "the progress of",
        ),
        (
            format!("{FIRST} redis.call('HSET', KEYS[2], 'a' .. id .. '\\0', 'x')"),
            ["subscriptions", "deliveries"],
            "an attempt",
        ),
        (
            format!("{FIRST} redis.call('HSET', KEYS[1], id, 'x')"),
            ["retries", "queue"],
            "the record of a retry is invalid",
        ),
    ] {
        let (server, subject, queue) = store_with_subscriptions().await;
        assert_found(&server, &subject, &queue, &damage, parts, finding).await;
    }
}

#[tokio::test]
async fn a_check_reads_the_tokens_and_the_quotas() {
    let (server, subject, _queue) = backend().await;
    server.command(&["HSET", "sukkal:{tokens}:records", "0123456789abcdef", "x"]);
    server.command(&["HSET", "sukkal:{quotas}", "p", "x"]);

    let findings = check(&subject).await.findings;

    for beginning in ["the tokens: token 30313233-", "the quotas: "] {
        assert!(findings.iter().any(|one| one.starts_with(beginning)), "{beginning}: {findings:?}");
    }
}
