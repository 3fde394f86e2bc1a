//! Quotas of stored messages: exact for each queue, refreshed every second for a project.

use futures::{StreamExt, stream};
use serde_json::json;
use uuid::Uuid;

use super::{answered, messages, refused, send, server, set_quotas, subscribe};
use crate::http::total;
use support::redis::RedisServer;
use support::sukkal::Sukkal;
use support::waiting::until;

const MESSAGES: &str = "/v2/queues/q/messages";

#[tokio::test]
async fn a_queue_never_has_more_messages_than_its_quota() {
    let redis = RedisServer::shared();
    let limit = ("SUKKAL_QUOTAS__MESSAGES_PER_QUEUE", "3");
    for server in [Sukkal::start_with(&redis.url(), &[limit]), server(&[limit])] {
        let api = server.project(&format!("p-{}", Uuid::new_v4()));
        let expected = "the request would exceed the quota messages_per_queue, which is 3; delete messages, or ask the operator for a higher quota";

        assert_eq!(refused(api.post(MESSAGES, &messages(4))).await, expected);
        let list = answered(api.get("/v2/queues"), 200).await.json();
        assert_eq!(list["queues"], json!([]), "the refused request has created no queue");
        answered(api.post(MESSAGES, &messages(2)), 201).await;
        assert_eq!(refused(api.post(MESSAGES, &messages(2))).await, expected);
        answered(api.post(MESSAGES, &messages(1)), 201).await;
        assert_eq!(refused(api.post(MESSAGES, &messages(1))).await, expected);
        answered(api.post("/v2/queues/r/messages", &messages(3)), 201).await;
        assert_eq!(total(&api, "q").await, 3);
        answered(api.delete(&format!("{MESSAGES}?pop=1")), 200).await;
        answered(api.post(MESSAGES, &messages(1)), 201).await;
    }
}

#[tokio::test]
async fn a_project_that_is_full_can_post_again_when_messages_are_deleted() {
    let server = server(&[]);
    set_quotas(&server, "p", &json!({"messages": 5})).await;
    let (api, other) = (server.project("p"), server.project("other"));
    let once = || api.post(MESSAGES, &messages(3)).header("Idempotency-Key", "once");
    let first = answered(once(), 201).await.json();
    answered(api.post("/v2/queues/r/messages", &messages(2)), 201).await;
    until("the count changes", async || send(api.post("/v2/queues/s/messages", &messages(1))).await.status == 403)
        .await;

    let expected = "the request would exceed the quota messages, which is 5; delete messages, or ask the operator for a higher quota";
    assert_eq!(refused(api.post(MESSAGES, &messages(1))).await, expected);
    let with_key = |key: &str| api.post("/v2/queues/t/messages", &messages(1)).header("Idempotency-Key", key);
    assert_eq!(refused(with_key("another")).await, expected);
    assert_eq!(answered(once(), 201).await.json(), first, "a repeated post gets the first response");
    answered(other.post(MESSAGES, &messages(100)), 201).await;
    let usage = answered(api.get("/v2/usage"), 200).await.json();
    assert!(usage["usage"]["messages"].as_u64() >= Some(5), "{usage}");
    let queues = answered(api.get("/v2/queues?name_prefix=t"), 200).await.json();
    assert_eq!(queues["queues"], json!([]), "the refused request has created no queue");

    // What was posted before the messages were counted again exceeds the quota.
    answered(api.delete("/v2/queues/s"), 204).await;
    answered(api.delete(&format!("{MESSAGES}?pop=3")), 200).await;
    until("the count changes", async || send(api.post(MESSAGES, &messages(1))).await.status == 201).await;
}

/// A measurement of so many queues takes longer than a request waits for it.
#[tokio::test]
async fn a_new_subscription_does_not_lift_the_quota_of_messages() {
    const QUEUES: usize = 4_500;
    let server = server(&[("SUKKAL_PUSH__ALLOWED_NETWORKS", "192.0.2.0/24")]);
    set_quotas(&server, "p", &json!({"messages": 5, "subscriptions": 10})).await;
    let api = server.project("p");
    let created = stream::iter(0..QUEUES).map(|number| answered(api.put(&format!("/v2/queues/q{number}")), 201));
    created.buffer_unordered(50).for_each(async |_| {}).await;
    let post = async || send(api.post("/v2/queues/q0/messages", &messages(5))).await.status;
    until("the project is full", async || post().await == 403).await;

    for number in 0..2 {
        assert_eq!(subscribe(&api, "q1", &format!("192.0.2.{number}")).await.status, 201);
        assert_eq!(post().await, 403);
    }
}

#[tokio::test]
async fn usage_shows_all_messages_and_those_of_the_fullest_queue() {
    let server = server(&[]);
    let api = server.project("p");
    answered(api.post(MESSAGES, &messages(2)), 201).await;
    answered(api.post("/v2/queues/r/messages", &messages(7)), 201).await;

    let usage = answered(api.get("/v2/usage"), 200).await.json();

    assert_eq!((&usage["usage"]["messages"], &usage["usage"]["messages_per_queue"]), (&json!(9), &json!(7)));
    // A message with the body 1 has the minimum size of 8 bytes.
    assert_eq!((&usage["usage"]["bytes"], &usage["usage"]["bytes_per_queue"]), (&json!(72), &json!(56)));
    assert_eq!((&usage["limits"]["messages"], &usage["limits"]["messages_per_queue"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn bytes_are_limited_in_each_queue_and_in_the_project() {
    let server = server(&[("SUKKAL_QUOTAS__BYTES_PER_QUEUE", "1000")]);
    let api = server.project("p");
    let body = |length: usize| json!({"messages": [{"body": "x".repeat(length)}]});
    let expected = "the request would exceed the quota bytes_per_queue, which is 1000; delete messages, or ask the operator for a higher quota";

    assert_eq!(refused(api.post(MESSAGES, &body(1_000))).await, expected);
    let list = answered(api.get("/v2/queues"), 200).await.json();
    assert_eq!(list["queues"], json!([]), "the refused request has created no queue");
    answered(api.post(MESSAGES, &body(800)), 201).await;
    assert_eq!(refused(api.post(MESSAGES, &body(200))).await, expected);
    answered(api.post(MESSAGES, &body(20)), 201).await;
    answered(api.delete(&format!("{MESSAGES}?pop=1")), 200).await;
    answered(api.post(MESSAGES, &body(800)), 201).await;

    set_quotas(&server, "p", &json!({"bytes": 1_500})).await;
    let in_another = || api.post("/v2/queues/r/messages", &body(900));
    until("the count changes", async || send(in_another()).await.status == 403).await;
    let description = refused(in_another()).await;
    assert!(description.starts_with("the request would exceed the quota bytes, which is 1500; "), "{description}");
}

/// Moved messages and dead letters of subscriptions are not refused either: see the conformance
/// suite.
#[tokio::test]
async fn a_claim_and_a_deletion_work_in_a_full_queue() {
    let server = server(&[("SUKKAL_QUOTAS__MESSAGES_PER_QUEUE", "2"), ("SUKKAL_QUOTAS__QUEUES", "1")]);
    let api = server.project("p");
    answered(api.post(MESSAGES, &messages(2)), 201).await;

    let claim = answered(api.post("/v2/queues/q/claims", &json!({})), 201).await.json();
    refused(api.post(MESSAGES, &messages(1))).await;
    answered(api.delete(claim["messages"][0]["href"].as_str().unwrap()), 204).await;
    answered(api.post(MESSAGES, &messages(1)), 201).await;
    refused(api.put("/v2/queues/another")).await;
    answered(api.post("/v2/queues/q/purge", &json!({"resource_types": ["messages"]})), 204).await;
    answered(api.post(MESSAGES, &messages(2)), 201).await;
}

#[tokio::test]
async fn the_health_check_has_no_quotas() {
    let limits = [("SUKKAL_QUOTAS__MESSAGES_PER_QUEUE", "1"), ("SUKKAL_QUOTAS__QUEUES", "1")];
    let server = server(&limits);

    let health = answered(server.project("operator").get("/v2/health").header("X-Roles", "admin"), 200).await.json();

    let operations = health["operation_status"].as_object().unwrap();
    assert!(operations.values().all(|operation| operation["succeeded"] == true), "{health}");
}
