//! Fact sheet 4.7: purging a queue.

use super::*;

async fn total(tenant: &Tenant) -> Value {
    let stats: Value = tenant.get("/v2/queues/q/stats").send().await.unwrap().json().await.unwrap();
    stats["messages"]["total"].clone()
}

async fn post_three(tenant: &Tenant) {
    let messages = json!({ "messages": [{ "body": 1 }, { "body": 2 }, { "body": 3 }] });
    assert_eq!(tenant.post("/v2/queues/q/messages", &messages).send().await.unwrap().status(), 201);
}

async fn purge(tenant: &Tenant, body: &Value) -> Response {
    tenant.post("/v2/queues/q/purge", body).send().await.unwrap()
}

/// Rows 4.7-1, 4.7-8.
#[tokio::test]
async fn a_purge_takes_all_messages_and_claims() {
    let tenant = tenant();
    post_three(&tenant).await;
    let claim = tenant.post("/v2/queues/q/claims?limit=2", &json!({})).send().await.unwrap();
    let claim = claim.headers()["location"].to_str().unwrap().to_owned();

    let purged = tenant.request(Method::POST, "/v2/queues/q/purge").send().await.unwrap();

    assert_eq!((purged.status().as_u16(), purged.text().await.unwrap()), (204, String::new()));
    assert_eq!(total(&tenant).await, 0);
    assert_eq!(tenant.get(&claim).send().await.unwrap().status(), 404);
    post_three(&tenant).await;
    assert_eq!(total(&tenant).await, 3);
}

/// Rows 4.7-2, 4.7-3.
#[tokio::test]
async fn a_purge_takes_what_it_names() {
    let tenant = tenant();
    post_three(&tenant).await;

    for nothing in [json!({ "resource_types": [] }), json!({ "resource_types": ["subscriptions"] })] {
        assert_eq!(purge(&tenant, &nothing).await.status(), 204);
        assert_eq!(total(&tenant).await, 3);
    }
    assert_eq!(purge(&tenant, &json!({ "resource_types": ["messages"] })).await.status(), 204);
    assert_eq!(total(&tenant).await, 0);
}

/// Rows 4-2, 4.7-7.
#[tokio::test]
async fn a_missing_queue_is_purged_already() {
    let tenant = tenant();

    let purged = purge(&tenant, &json!({ "resource_types": ["messages"] })).await;

    assert_eq!((purged.status().as_u16(), purged.text().await.unwrap()), (204, String::new()));
    assert_eq!(tenant.everything().await, json!([]));
}

/// Rows 4.7-4, 4.7-5, 4.7-6.
#[tokio::test]
async fn what_is_no_list_of_kinds_is_refused() {
    let tenant = tenant();
    post_three(&tenant).await;

    for body in [
        json!({}),
        json!({ "resource_types": "messages" }),
        json!({ "resource_types": ["messages", "topics"] }),
        json!({ "resource_types": [1] }),
        json!({ "resource_types": null }),
        json!(["messages"]),
    ] {
        let answer = Answer::of(purge(&tenant, &body).await).await;
        assert_eq!(answer.status, 400, "{body}");
        // An array is no document at all; the others name no kinds.
        answer.refusal(400, if body.is_array() { INVALID_BODY } else { INVALID_REQUEST });
    }
    assert_eq!(total(&tenant).await, 3);
}
