//! Fact sheet 4.7: purging a queue.

use super::*;

async fn total(project: &Project) -> Value {
    let stats: Value = project.get("/v2/queues/q/stats").send().await.unwrap().json().await.unwrap();
    stats["messages"]["total"].clone()
}

async fn post_three(project: &Project) {
    let messages = json!({ "messages": [{ "body": 1 }, { "body": 2 }, { "body": 3 }] });
    assert_eq!(project.post("/v2/queues/q/messages", &messages).send().await.unwrap().status(), 201);
}

async fn purge(project: &Project, body: &Value) -> Response {
    project.post("/v2/queues/q/purge", body).send().await.unwrap()
}

/// Rows 4.7-1, 4.7-8.
#[tokio::test]
async fn a_purge_removes_all_messages_and_claims() {
    let project = new_project();
    post_three(&project).await;
    let claim = project.post("/v2/queues/q/claims?limit=2", &json!({})).send().await.unwrap();
    let claim = claim.headers()["location"].to_str().unwrap().to_owned();

    let purged = project.request(Method::POST, "/v2/queues/q/purge").send().await.unwrap();

    assert_eq!((purged.status().as_u16(), purged.text().await.unwrap()), (204, String::new()));
    assert_eq!(total(&project).await, 0);
    assert_eq!(project.get(&claim).send().await.unwrap().status(), 404);
    post_three(&project).await;
    assert_eq!(total(&project).await, 3);
}

/// Rows 4.7-2, 4.7-3.
#[tokio::test]
async fn a_purge_removes_only_the_resource_types_that_it_names() {
    let project = new_project();
    post_three(&project).await;

    for nothing in [json!({ "resource_types": [] }), json!({ "resource_types": ["subscriptions"] })] {
        assert_eq!(purge(&project, &nothing).await.status(), 204);
        assert_eq!(total(&project).await, 3);
    }
    assert_eq!(purge(&project, &json!({ "resource_types": ["messages"] })).await.status(), 204);
    assert_eq!(total(&project).await, 0);
}

/// Rows 4-2, 4.7-7.
#[tokio::test]
async fn purging_a_missing_queue_succeeds() {
    let project = new_project();

    let purged = purge(&project, &json!({ "resource_types": ["messages"] })).await;

    assert_eq!((purged.status().as_u16(), purged.text().await.unwrap()), (204, String::new()));
    assert_eq!(project.snapshot().await, json!([]));
}

/// Rows 4.7-4, 4.7-5, 4.7-6.
#[tokio::test]
async fn malformed_resource_types_are_refused() {
    let project = new_project();
    post_three(&project).await;

    for body in [
        json!({}),
        json!({ "resource_types": "messages" }),
        json!({ "resource_types": ["messages", "topics"] }),
        json!({ "resource_types": [1] }),
        json!({ "resource_types": null }),
        json!(["messages"]),
    ] {
        let answer = Answer::of(purge(&project, &body).await).await;
        assert_eq!(answer.status, 400, "{body}");
        // An array is not a valid document. The other bodies are, but have no valid resource types.
        answer.refusal(400, if body.is_array() { INVALID_BODY } else { INVALID_REQUEST });
    }
    assert_eq!(total(&project).await, 3);
}
