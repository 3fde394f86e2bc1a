//! Quotas of queues, subscriptions, waiting requests and event streams, and the usage of a project.

use reqwest::Method;
use serde_json::json;
use tokio::time::Duration;

use super::{answered, messages, refused, send, server, set_quotas, subscribe};
use support::events::Events;
use support::redis::RedisServer;
use support::sukkal::Sukkal;
use support::waiting::until;

const ALLOWED: (&str, &str) = ("SUKKAL_PUSH__ALLOWED_NETWORKS", "192.0.2.0/24");

#[tokio::test]
async fn no_request_creates_a_queue_over_the_quota() {
    let redis = RedisServer::shared();
    let over_redis = Sukkal::start_with(&redis.url(), &[("SUKKAL_QUOTAS__QUEUES", "2")]);
    for server in [over_redis, server(&[("SUKKAL_QUOTAS__QUEUES", "2")])] {
        let api = server.project(&format!("p-{}", uuid::Uuid::new_v4()));
        answered(api.put("/v2/queues/a"), 201).await;
        answered(api.post("/v2/queues/b/messages", &messages(1)), 201).await;
        let subscription = json!({"subscriber": "http://1.1.1.1/"});

        for request in [
            api.put("/v2/queues/c"),
            api.put("/v2/topics/a"),
            api.post("/v2/topics/a/messages", &messages(1)),
            api.post("/v2/queues/c/messages", &messages(1)),
            api.post("/v2/queues/c/pause", &json!({})),
            api.post("/v2/queues/c/subscriptions", &subscription),
        ] {
            let expected = "the request would exceed the quota queues, which is 2; delete queues or topics, or ask the operator for a higher quota";
            assert_eq!(refused(request).await, expected);
        }

        let list = answered(api.get("/v2/queues?with_count=true"), 200).await.json();
        assert_eq!(list["count"], 2);
        answered(api.put("/v2/queues/a"), 204).await;
        answered(api.post("/v2/queues/a/messages", &messages(1)), 201).await;
        answered(api.post("/v2/queues/a/pause", &json!({})), 204).await;
        answered(api.delete("/v2/queues/a"), 204).await;
        answered(api.put("/v2/topics/a"), 201).await;
        refused(api.post("/v2/queues/c/messages", &messages(1))).await;
        answered(api.delete("/v2/topics/a"), 204).await;
        answered(api.post("/v2/queues/c/messages", &messages(1)), 201).await;
    }
}

#[tokio::test]
async fn a_project_at_its_quota_of_subscriptions_gets_no_new_one() {
    let server = server(&[ALLOWED]);
    set_quotas(&server, "p", &json!({"subscriptions": 2})).await;
    let api = server.project("p");
    for queue in ["a", "b"] {
        assert_eq!(subscribe(&api, queue, "192.0.2.1").await.status, 201);
    }

    let refused = subscribe(&api, "c", "192.0.2.1").await;
    let expected = "the request would exceed the quota subscriptions, which is 2; delete subscriptions, or ask the operator for a higher quota";
    assert_eq!(refused.refusal(403, "Quota exceeded"), expected);
    let queues = answered(api.get("/v2/queues?with_count=true"), 200).await.json();
    assert_eq!(queues["count"], 2, "the refused request has created no queue");
    assert_eq!(subscribe(&api, "a", "192.0.2.2").await.status, 403);
    assert_eq!(subscribe(&api, "a", "192.0.2.1").await.status, 201, "an existing subscription is found");
    answered(api.delete("/v2/queues/a"), 204).await;
    until("the count changes", async || subscribe(&api, "c", "192.0.2.1").await.status == 201).await;
}

#[tokio::test]
async fn a_quota_replaces_the_limit_of_waiting_requests_and_streams() {
    let server = server(&[]);
    set_quotas(&server, "p", &json!({"waiting_requests": 1, "event_streams": 1})).await;
    let api = server.project("p");
    let waiting = api.post("/v2/queues/q/claims?wait=30", &json!({}));
    let waiting = tokio::spawn(waiting.send());
    let stream = Events::open(api.get("/v2/queues/q/messages")).await;
    let usage = || async { answered(api.get("/v2/usage"), 200).await };
    until("the request waits", async || usage().await.json()["usage"]["waiting_requests"] == 1).await;

    let second = api.get("/v2/queues/q/messages").header("Accept", "text/event-stream");
    assert_eq!(send(second).await.status, 429);
    assert_eq!(send(api.post("/v2/queues/q/claims?wait=1", &json!({}))).await.status, 429);
    assert_eq!(usage().await.json()["usage"]["event_streams"], 1);
    set_quotas(&server, "p", &json!({"waiting_requests": 0, "event_streams": 0})).await;
    let _second = Events::open(api.get("/v2/queues/q/messages")).await;
    assert_eq!(send(api.post("/v2/queues/q/claims?wait=1", &json!({}))).await.status, 204);
    drop((waiting, stream));
}

#[tokio::test]
async fn usage_has_the_same_keys_as_the_limits() {
    let server = server(&[ALLOWED]);
    let api = server.project("p");
    let unlimited = answered(api.get("/v2/usage"), 200).await.json();
    let names = [
        "requests_per_second",
        "posted_bytes_per_second",
        "queues",
        "subscriptions",
        "messages",
        "messages_per_queue",
        "bytes",
        "bytes_per_queue",
        "waiting_requests",
        "event_streams",
    ];
    for part in ["usage", "limits"] {
        let keys: Vec<_> = unlimited[part].as_object().unwrap().keys().collect();
        assert_eq!(keys, names);
    }
    assert_eq!(unlimited["usage"]["requests_per_second"], json!(null));
    assert_eq!((&unlimited["limits"]["queues"], &unlimited["limits"]["event_streams"]), (&json!(0), &json!(7_000)));

    set_quotas(&server, "p", &json!({"requests_per_second": 1_000, "posted_bytes_per_second": 1_000_000})).await;
    answered(api.post("/v2/queues/q/messages", &messages(50)), 201).await;
    assert_eq!(subscribe(&api, "r", "192.0.2.1").await.status, 201);
    let usage = answered(api.get("/v2/usage"), 200).await.json();

    assert_eq!((&usage["usage"]["queues"], &usage["limits"]["requests_per_second"]), (&json!(2), &json!(1_000)));
    assert!(usage["usage"]["requests_per_second"].as_u64() >= Some(1), "{usage}");
    until("the count changes", async || {
        answered(api.get("/v2/usage"), 200).await.json()["usage"]["subscriptions"] == 1
    })
    .await;
    assert_eq!(answered(server.project("other").get("/v2/usage"), 200).await.json()["usage"]["queues"], 0);
}

#[tokio::test]
async fn an_operator_sees_the_usage_of_any_project() {
    let server = server(&[]);
    answered(server.project("p").put("/v2/queues/q"), 201).await;
    let operator = server.project("operator").request(Method::GET, "/v2/usage?project_id=p").header("X-Roles", "admin");

    let usage = answered(operator.timeout(Duration::from_secs(10)), 200).await.json();

    assert_eq!(usage["usage"]["queues"], 1);
}
