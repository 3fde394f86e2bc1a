//! Fact sheet 4.5: deleting queues. Names are judged in `queue_create.rs`.

use reqwest::Method;
use serde_json::json;

use super::{NOT_FOUND, answered, pick, refused, tenant};

/// Rows 4.5-1, 4.5-2.
#[tokio::test]
async fn a_deleted_queue_is_gone_with_its_messages() {
    let api = tenant();
    api.create("kept", &json!({})).await;
    api.create("q", &json!({"k": 1})).await;
    let ids = api.post_bodies("q", &[json!(1)]).await;

    let deleted = answered(api.delete("/v2/queues/q"), 204).await;

    assert_eq!(deleted.text, "");
    assert_eq!(pick(&api.everything().await, "name"), ["kept"]);
    assert_eq!(answered(api.get("/v2/queues/q"), 200).await.json().get("k"), None);
    refused(api.get(&format!("/v2/queues/q/messages/{}", ids[0])), 404, NOT_FOUND).await;
    let page = answered(api.get("/v2/queues/q/messages?echo=true"), 200).await.json();
    assert_eq!(page, json!({"messages": [], "links": []}));
}

/// Row 4.5-1.
#[tokio::test]
async fn to_delete_a_missing_queue_is_no_error() {
    let api = tenant();

    for _ in 0..2 {
        answered(api.delete("/v2/queues/q"), 204).await;
    }
    assert_eq!(api.everything().await, json!([]));
}

/// Rows 4.5-3, 4.5-4, 7.2-5, 7.3-6, 7.4-1.
#[tokio::test]
async fn claims_go_with_their_queue() {
    let api = tenant();
    api.post_bodies("q", &[json!(1), json!(2)]).await;
    let claim = api.claim(1).await;
    let is_gone = async || {
        refused(api.get(&claim.path), 404, NOT_FOUND).await;
        refused(api.request(Method::PATCH, &claim.path).json(&json!({})), 404, NOT_FOUND).await;
        answered(api.delete(&claim.path), 204).await;
    };

    answered(api.delete("/v2/queues/q"), 204).await;
    is_gone().await;
    api.post_bodies("q", &[json!(3)]).await;
    is_gone().await;

    assert_eq!(pick(&api.claim(2).await.messages, "body"), [3]);
}

/// Row 4.5-3.
#[tokio::test]
async fn a_queue_made_again_begins_anew() {
    let api = tenant();
    api.create("q", &json!({"k": 1})).await;
    let old = api.post_bodies("q", &[json!("old")]).await;
    answered(api.delete("/v2/queues/q"), 204).await;

    let new = api.post_bodies("q", &[json!("new")]).await;

    assert!(new[0] > old[0], "a marker from before stays behind");
    let page = answered(api.get(&format!("/v2/queues/q/messages?echo=true&marker={}", old[0])), 200).await.json();
    assert_eq!(pick(&page["messages"], "body"), ["new"]);
    assert_eq!(answered(api.get("/v2/queues/q"), 200).await.json().get("k"), None);
}
