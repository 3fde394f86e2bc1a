//! Redis keys of claims: none is left when the claims and their messages are gone.

use std::time::Duration;

use super::keys::{existing_parts, key};
use crate::conformance::support::drivers::redis;
use crate::conformance::support::subject::{LONG_S, messages};
use support::redis::RedisServer;

const EMPTY: [&str; 1] = ["queue"];

#[tokio::test]
async fn claims_whose_messages_are_deleted_leave_no_keys() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(60, 30)).await;
    let claims = [subject.claim(&queue, 10, 100).await.id, subject.claim(&queue, 10, 100).await.id];
    assert_eq!(
        existing_parts(&server, &queue),
        ["queue", "messages", "ready", "expirations", "leases", "in_flight", "claims", "claim_ids"]
    );

    for id in &ids[..10] {
        subject.delete_with_claim(&queue, *id, Some(claims[0])).await;
    }
    subject.delete_messages(&queue, &ids[10..]).await;

    // The ids are kept for a minute, so that commands which arrive late take nothing.
    assert_eq!(existing_parts(&server, &queue), ["queue", "leases", "claims"]);
    subject.advance(&queue, Duration::from_secs(61)).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), EMPTY);
}

#[tokio::test]
async fn a_pop_of_messages_that_were_claimed_before_leaves_no_keys() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(60, 4)).await;
    let claim = subject.claim(&queue, 2, 100).await;
    subject.release(&queue, claim.id).await;
    subject.advance(&queue, Duration::from_secs(61)).await;
    subject.post(&queue, &messages(60, 2)).await;

    subject.pop(&queue, 6).await;

    subject.advance(&queue, Duration::from_secs(61)).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), EMPTY);
}

#[tokio::test]
async fn expired_claims_and_messages_leave_no_keys() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    for size in [1, 1, 2, 32, 33, 100] {
        subject.post(&queue, &messages(60, size)).await;
        let claim = subject.claim(&queue, size, 100).await;
        subject.renew(&queue, claim.id, 200, 60).await;
        subject.renew(&queue, claim.id, 400, 60).await;
    }

    subject.advance(&queue, Duration::from_secs(402)).await;
    subject.run_maintenance().await;

    assert_eq!(existing_parts(&server, &queue), ["queue", "messages", "ready", "expirations"]);
    assert_eq!(subject.count(&queue).await, 169);
    subject.advance(&queue, Duration::from_secs(60)).await;
    subject.run_maintenance().await;
    assert_eq!(existing_parts(&server, &queue), EMPTY);
}

#[tokio::test]
async fn leases_and_claims_and_their_ids_correspond() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 40)).await;
    let counts = || {
        let count = |command: &str, part: &str| server.command(&[command, &key(&queue, part)]).as_int();
        [count("ZCARD", "leases"), count("HLEN", "claims"), count("ZCARD", "claim_ids"), count("ZCARD", "in_flight")]
    };

    let mut claims = Vec::new();
    for ttl_s in [60, 60, 100, 100, 200, 200, 300, 300] {
        claims.push(subject.claim(&queue, 5, ttl_s).await.id);
    }
    // `claims` also has the number of messages of each claim.
    assert_eq!(counts(), [8, 16, 8, 40]);
    subject.release(&queue, claims[2]).await;
    // The id of the released claim is kept for a minute.
    assert_eq!(counts(), [8, 15, 7, 35]);
    subject.renew(&queue, claims[0], 400, 60).await;
    assert_eq!(counts(), [8, 15, 7, 35]);
    subject.advance(&queue, Duration::from_secs(250)).await;
    subject.count(&queue).await;

    assert_eq!(counts(), [3, 6, 3, 15]);
}

#[tokio::test]
async fn the_in_flight_set_is_a_skip_list_from_the_first_message_on() {
    let (server, subject) = (RedisServer::shared_movable(), redis());
    let queue = subject.queue("q").await;
    subject.post(&queue, &messages(LONG_S, 1)).await;

    subject.claim(&queue, 1, 60).await;

    assert_eq!(server.command(&["OBJECT", "ENCODING", &key(&queue, "in_flight")]).as_text(), "skiplist");
}
