//! What a check of a store in Redis finds, and that it finds nothing where nothing is wrong.

use std::sync::Arc;

use sukkal::domain::{NewClaim, NewMessage, QueueId, Term};
use sukkal::storage::Check;

use super::drivers::redis_at;
use super::redis_keys::key;
use super::subject::{LONG_S, Subject, message, messages};
use crate::support::redis::RedisServer;

/// More than one script looks at.
const READY: usize = 250;
const HELD: usize = 20;
const DELAYED: usize = 5;

async fn stage() -> (Arc<RedisServer>, Subject, QueueId) {
    let server = Arc::new(RedisServer::start());
    let subject = redis_at(server.clone());
    subject.queue("empty").await;
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, READY + HELD)).await;
    subject.post(&queue, &vec![NewMessage { delay_s: 60, ..message(LONG_S, 1) }; DELAYED]).await;
    let claim = NewClaim { limit: HELD, term: Term { ttl_s: 300, grace_s: 60 }, prefer: Vec::new() };
    subject.store().create_claim(&queue, &claim).await.unwrap().expect("there are free messages");
    (server, subject, queue)
}

async fn check(subject: &Subject) -> Check {
    subject.store().check().await.unwrap()
}

#[tokio::test]
async fn a_store_is_whole_with_messages_in_all_sets() {
    let (_server, subject, _queue) = stage().await;

    let whole = Check { queues: 2, messages: (READY + HELD + DELAYED) as u64, findings: Vec::new() };
    assert_eq!(check(&subject).await, whole);
}

#[tokio::test]
async fn a_check_finds_each_kind_of_damage() {
    for (damage, parts, finding) in [
        (
            "redis.call('HDEL', KEYS[1], redis.call('ZRANGE', KEYS[2], -1, -1)[1])",
            ["messages", "ready"],
            "has no record",
        ),
        ("redis.call('ZREM', KEYS[1], redis.call('ZRANGE', KEYS[1], 0, 0)[1])", ["ready", "held"], "are in the feed"),
        ("redis.call('ZADD', KEYS[2], 7, redis.call('ZRANGE', KEYS[1], 0, 0)[1])", ["ready", "held"], "is in two sets"),
        (
            "redis.call('ZADD', KEYS[1], 7, redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
            ["ready", "held"],
            "at another rank",
        ),
        ("redis.call('HDEL', KEYS[1], redis.call('ZRANGE', KEYS[2], 0, 0)[1])", ["holds", "held"], "held by nothing"),
        ("redis.call('SET', KEYS[1], 7)", ["counter", "ready"], "before its rank was given"),
        (
            "local key = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
            local twin = string.sub(key, 1, 7) .. '12345'
            redis.call('HSET', KEYS[1], twin, redis.call('HGET', KEYS[1], key))
            redis.call('ZADD', KEYS[2], redis.call('ZSCORE', KEYS[2], key), twin)",
            ["messages", "ready"],
            "shares its rank",
        ),
        ("redis.call('ZREMRANGEBYRANK', KEYS[1], 0, 0)", ["ends", "ready"], "should end in second"),
        (
            "local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
            redis.call('ZADD', KEYS[1], last[2] + 1, last[1])",
            ["ends", "ready"],
            "should end in second",
        ),
        ("redis.call('DEL', KEYS[1])", ["leases", "held"], "is held by a lease that is not there"),
        ("redis.call('DEL', KEYS[1])", ["leases", "claims"], "never ends"),
        (
            "redis.call('ZINCRBY', KEYS[1], 1, redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
            ["leases", "claims"],
            "ends at another time than it should",
        ),
        ("redis.call('DEL', KEYS[1])", ["claims", "held"], "is under a claim that does not have it"),
        ("redis.call('DEL', KEYS[1])", ["claims", "leases"], "is not there and ends"),
        (
            "redis.call('HSET', KEYS[1], string.rep('\\0', 11) .. '1', redis.call('HVALS', KEYS[1])[1])",
            ["holds", "held"],
            "is held and has no record",
        ),
    ] {
        let (server, subject, queue) = stage().await;
        let [one, other] = parts.map(|part| key(&queue, part));
        server.command(&["EVAL", damage, "2", &one, &other]);

        let findings = check(&subject).await.findings;

        assert!(findings.iter().any(|one| one.contains(finding)), "{damage}: {findings:?}");
        assert!(findings.iter().all(|one| one.starts_with(&queue.to_string())), "{findings:?}");
        assert!(findings.len() <= 100, "{} findings", findings.len());
    }
}
