//! Fact sheet 4.5: deleting queues. The rules for names are tested in `queue_create.rs`.

use reqwest::Method;
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

/// Rows 4.5-3, 4.5-4, 7.2-5, 7.3-6, 7.4-1.
#[tokio::test]
async fn deleting_a_queue_deletes_its_claims() {
    let api = new_project();
    api.post_bodies("q", &[json!(1), json!(2)]).await;
    let claim = api.claim(1).await;
    let assert_claim_is_gone = async || {
        refused(api.get(&claim.path), 404, NOT_FOUND).await;
        refused(api.request(Method::PATCH, &claim.path).json(&json!({})), 404, NOT_FOUND).await;
        answered(api.delete(&claim.path), 204).await;
    };

    answered(api.delete("/v2/queues/q"), 204).await;
    assert_claim_is_gone().await;
    api.post_bodies("q", &[json!(3)]).await;
    assert_claim_is_gone().await;

    assert_eq!(pick(&api.claim(2).await.messages, "body"), [3]);
}

/// Row 4.5-3.
#[tokio::test]
async fn a_recreated_queue_is_empty() {
    let api = new_project();
    api.create("q", &json!({"k": 1})).await;
    let old = api.post_bodies("q", &[json!("old")]).await;
    answered(api.delete("/v2/queues/q"), 204).await;

    let new = api.post_bodies("q", &[json!("new")]).await;

    assert!(new[0] > old[0], "an old marker sorts before the new messages");
    let page = answered(api.get(&format!("/v2/queues/q/messages?echo=true&marker={}", old[0])), 200).await.json();
    assert_eq!(pick(&page["messages"], "body"), ["new"]);
    assert_eq!(answered(api.get("/v2/queues/q"), 200).await.json().get("k"), None);
}
