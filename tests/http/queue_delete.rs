//! Fact sheet 4.5: deleting queues. The rules for names are tested in `queue_create.rs`.

use serde_json::json;

use super::{NOT_FOUND, answered, new_project, pick, refused};

/// Rows 4.5-1, 4.5-2.
#[tokio::test]
async fn deleting_a_queue_deletes_its_messages() {
    let api = new_project();
    api.create("kept", &json!({})).await;
    api.create("q", &json!({"k": 1})).await;
    let ids = api.post_bodies("q", &[json!(1)]).await;

    let deleted = answered(api.delete("/v2/queues/q"), 204).await;

    assert_eq!(deleted.text, "");
    assert_eq!(pick(&api.snapshot().await, "name"), ["kept"]);
    assert_eq!(answered(api.get("/v2/queues/q"), 200).await.json().get("k"), None);
    refused(api.get(&format!("/v2/queues/q/messages/{}", ids[0])), 404, NOT_FOUND).await;
    let page = answered(api.get("/v2/queues/q/messages?echo=true"), 200).await.json();
    assert_eq!(page, json!({"messages": [], "links": []}));
}

/// Row 4.5-1.
#[tokio::test]
async fn deleting_a_missing_queue_succeeds() {
    let api = new_project();

    for _ in 0..2 {
        answered(api.delete("/v2/queues/q"), 204).await;
    }
    assert_eq!(api.snapshot().await, json!([]));
}
