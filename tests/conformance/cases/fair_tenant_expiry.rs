//! Tenants are forgotten an hour after their last post: by the clock of an embedded store, and by
//! key expiry in Redis.

use std::sync::Arc;
use std::time::Duration;

use super::fair_details::assert_shares;
use crate::conformance::support::drivers;
use crate::conformance::support::subject::Subject;
use support::redis::RedisServer;

const HOUR_MS: i64 = 3_600_000;
/// Longer than any test takes.
const UNTOUCHED_MS: i64 = 600_000;

#[tokio::test]
async fn an_embedded_store_forgets_tenants_by_its_clock() {
    forgets_by_its_clock(&drivers::embedded()).await;
    forgets_by_its_clock(&drivers::memory()).await;
}

async fn forgets_by_its_clock(subject: &Subject) {
    let queue = subject.fair_queue("q", 8).await;
    subject.post_as_tenant(&queue, "a", 1).await;
    subject.advance(&queue, Duration::from_secs(3_500)).await;
    subject.post_as_tenant(&queue, "a", 1).await;

    subject.advance(&queue, Duration::from_secs(3_500)).await;
    assert_shares(&subject.tenants(&queue).await, &[("a", 1.0)]);
    subject.advance(&queue, Duration::from_secs(101)).await;

    assert_eq!(subject.tenants(&queue).await, []);
    assert_eq!(subject.available(&queue).await, [(1, 2)]);
    subject.post_as_tenant(&queue, "b", 1).await;
    assert_shares(&subject.tenants(&queue).await, &[("b", 1.0)]);
}

#[tokio::test]
async fn redis_lets_tenants_expire() {
    let server = Arc::new(RedisServer::start());
    let subject = drivers::redis_at(Arc::clone(&server));
    let queue = subject.fair_queue("q", 8).await;
    let key = format!("sukkal:{{{}/q}}:tenants", subject.project());
    let left_ms = || server.command(&["PTTL", &key]).as_int();
    assert_eq!(left_ms(), -2, "there were no posts");
    subject.post_as_tenant(&queue, "a", 1).await;
    assert!((HOUR_MS - UNTOUCHED_MS..=HOUR_MS).contains(&left_ms()));

    // Each post restarts the hour.
    server.command(&["PEXPIRE", &key, &UNTOUCHED_MS.to_string()]);
    subject.post_as_tenant(&queue, "b", 1).await;

    assert!((HOUR_MS - UNTOUCHED_MS..=HOUR_MS).contains(&left_ms()));
    server.command(&["PEXPIRE", &key, "0"]);
    assert_eq!(subject.tenants(&queue).await, []);
    assert_eq!(subject.available(&queue).await, [(1, 2)]);
}
