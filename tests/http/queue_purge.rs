//! Fact sheet 4.7: purging a queue.

use super::*;

fn purge(project: &Project, body: &Value) -> RequestBuilder {
    project.post("/v2/queues/q/purge", body)
}

/// Rows 4.7-1, 4.7-8.
#[tokio::test]
async fn a_purge_removes_all_messages_and_claims() {
    let (project, _) = with_messages(3).await;
    let claim = project.claim(2).await;

    let purged = answered(project.request(Method::POST, "/v2/queues/q/purge"), 204).await;

    assert_eq!(purged.text, "");
    assert_eq!(project.stats("q").await["total"], 0);
    answered(project.get(&claim.path), 404).await;
    project.post_bodies("q", &numbers(0..3)).await;
    assert_eq!(project.stats("q").await["total"], 3);
}

/// Rows 4.7-2, 4.7-3.
#[tokio::test]
async fn a_purge_removes_only_the_resource_types_that_it_names() {
    let (project, _) = with_messages(3).await;

    for nothing in [json!({ "resource_types": [] }), json!({ "resource_types": ["subscriptions"] })] {
        answered(purge(&project, &nothing), 204).await;
        assert_eq!(project.stats("q").await["total"], 3);
    }
    answered(purge(&project, &json!({ "resource_types": ["messages"] })), 204).await;
    assert_eq!(project.stats("q").await["total"], 0);
}

/// Rows 4-2, 4.7-7.
#[tokio::test]
async fn purging_a_missing_queue_succeeds() {
    let project = new_project();

    let purged = answered(purge(&project, &json!({ "resource_types": ["messages"] })), 204).await;

    assert_eq!(purged.text, "");
    assert_eq!(project.snapshot().await, json!([]));
}

/// Rows 4.7-4, 4.7-5, 4.7-6.
#[tokio::test]
async fn malformed_resource_types_are_refused() {
    let (project, _) = with_messages(3).await;

    for body in [
        json!({}),
        json!({ "resource_types": "messages" }),
        json!({ "resource_types": ["messages", "topics"] }),
        json!({ "resource_types": [1] }),
        json!({ "resource_types": null }),
        json!(["messages"]),
    ] {
        // An array is not a valid document. The other bodies are, but have no valid resource types.
        refused(purge(&project, &body), 400, if body.is_array() { INVALID_BODY } else { INVALID_REQUEST }).await;
    }
    assert_eq!(project.stats("q").await["total"], 3);
}
