//! What only Redis can show of claims: nothing is left of them when they and their messages are gone.

use std::time::Duration;

use super::drivers::redis;
use super::redis_keys::{ends_kept, key, present};
use super::subject::{LONG_S, messages};
use crate::support::redis::RedisServer;

const EMPTY: [&str; 2] = ["queue", "counter"];

#[tokio::test]
async fn nothing_is_left_of_claims_whose_messages_are_deleted() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(60, 30)).await;
    let claims = [subject.claim(&queue, 10, 100).await.id, subject.claim(&queue, 10, 100).await.id];
    assert_eq!(present(&server, &queue).len(), 9);

    for id in &ids[..10] {
        subject.acknowledge(&queue, *id, Some(claims[0])).await;
    }
    subject.delete_messages(&queue, &ids[10..]).await;
    assert_eq!(present(&server, &queue), ["queue", "counter", "ends", "leases", "claims"]);
    subject.release(&queue, claims[0]).await;
    subject.advance(&queue, Duration::from_secs(200)).await;
    subject.tidy_project().await;

    assert_eq!(present(&server, &queue), EMPTY);
    assert_eq!(ends_kept(&server, &queue), (0, 0));
}

#[tokio::test]
async fn nothing_is_left_of_claims_and_messages_that_have_ended() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    // One by one and in batches, so that chunks of their ends hold the same keys.
    for size in [1, 1, 2, 32, 33, 100] {
        subject.post(&queue, &messages(60, size)).await;
        let claim = subject.claim(&queue, size, 100).await;
        subject.renew(&queue, claim.id, 200, 60).await;
        subject.renew(&queue, claim.id, 400, 60).await;
    }
    let (kept, noted) = ends_kept(&server, &queue);
    assert_eq!(kept, noted, "the count of the ends has drifted");

    subject.advance(&queue, Duration::from_secs(402)).await;
    subject.tidy_project().await;

    assert_eq!(present(&server, &queue), ["queue", "counter", "messages", "ready", "ends", "holds"]);
    assert_eq!(subject.count(&queue).await, 169);
    subject.advance(&queue, Duration::from_secs(60)).await;
    subject.tidy_project().await;
    assert_eq!(present(&server, &queue), EMPTY);
    assert_eq!(ends_kept(&server, &queue), (0, 0));
}

#[tokio::test]
async fn every_lease_has_its_claim_and_every_claim_its_lease() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 40)).await;
    let counts = || {
        let count = |command: &str, part: &str| server.command(&[command, &key(&queue, part)]).as_int();
        (count("ZCARD", "leases"), count("HLEN", "claims"), count("ZCARD", "held"))
    };

    let mut claims = Vec::new();
    for ttl_s in [60, 60, 100, 100, 200, 200, 300, 300] {
        claims.push(subject.claim(&queue, 5, ttl_s).await.id);
    }
    assert_eq!(counts(), (8, 8, 40));
    subject.release(&queue, claims[2]).await;
    assert_eq!(counts(), (7, 7, 35));
    subject.renew(&queue, claims[0], 400, 60).await;
    assert_eq!(counts(), (7, 7, 35));
    subject.advance(&queue, Duration::from_secs(250)).await;
    subject.count(&queue).await;

    assert_eq!(counts(), (3, 3, 15));
}

#[tokio::test]
async fn compaction_keeps_the_real_end_of_what_claims_have_prolonged() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    // Alone in its chunk, or left alone by deletion: either way its first end looks like its last.
    let alone = subject.post(&queue, &messages(1_000, 1)).await;
    let batch = subject.post(&queue, &messages(1_001, 20)).await;
    let claim = subject.claim(&queue, 2, 2_000).await;
    assert_eq!(claim.messages.len(), 2);
    subject.delete_messages(&queue, &batch[1..]).await;
    for _ in 0..6 {
        let ids = subject.post(&queue, &messages(LONG_S, 1_000)).await;
        subject.delete_messages(&queue, &ids).await;
    }

    subject.tidy_project().await;

    let (kept, noted) = ends_kept(&server, &queue);
    assert_eq!(kept, noted, "the count of the ends has drifted");
    subject.advance(&queue, Duration::from_secs(1_990)).await;
    subject.assert_held(&queue, &[], &[alone[0], batch[0]]).await;
    subject.advance(&queue, Duration::from_secs(80)).await;
    subject.assert_held(&queue, &[], &[]).await;
}

#[tokio::test]
async fn ends_that_renewals_put_off_are_forgotten() {
    let (server, subject) = (RedisServer::shared(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 200)).await;
    let claim = subject.claim(&queue, 200, 3_600).await;
    for _ in 0..30 {
        subject.advance(&queue, Duration::from_secs(100)).await;
        subject.store().renew_claim(&queue, claim.id, sukkal::domain::Term { ttl_s: 3_600, grace_s: 0 }).await.unwrap();
    }
    let before = ends_kept(&server, &queue);
    assert!(before.0 > 2 * 200 + 4_096, "{before:?}: not enough to begin with");

    subject.tidy_project().await;

    let (kept, noted) = ends_kept(&server, &queue);
    assert_eq!(kept, noted, "the count of the ends has drifted");
    assert!(kept <= 2 * 200 + 4_096, "{kept} ends kept for 200 messages");
    subject.advance(&queue, Duration::from_secs(3_595)).await;
    assert_eq!(subject.count(&queue).await, 200);
    subject.advance(&queue, Duration::from_secs(8)).await;
    assert_eq!(subject.count(&queue).await, 0);
}
