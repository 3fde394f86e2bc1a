//! `include_origin` (an extension): shows where a dead letter comes from.

use serde_json::{Value, json};

use super::{INVALID_PARAMETER, Project, answered, new_project, refused};

/// Creates a dead letter in the queue `dlq`, moved from `q` after one claim, and returns its old id
/// and its new id.
async fn dead_letter(api: &Project) -> (String, String) {
    api.create("q", &json!({"_dead_letter_queue": "dlq", "_max_claim_count": 1})).await;
    let old = api.post_bodies("q", &[json!("a")]).await.remove(0);
    let claim = api.claim(1).await;
    answered(api.delete(&claim.path), 204).await;
    answered(api.post("/v2/queues/q/claims", &json!({})), 204).await;
    api.arrived("dlq", 1).await;
    let page = answered(api.get("/v2/queues/dlq/messages?echo=true"), 200).await.json();
    let new = page["messages"][0]["id"].as_str().unwrap().to_owned();
    (old, new)
}

#[tokio::test]
async fn every_operation_shows_the_origin_of_a_dead_letter_on_request() {
    let api = new_project();
    let (old, new) = dead_letter(&api).await;
    let origin = json!({"queue": "q", "id": old, "claim_count": 1});
    let messages = "/v2/queues/dlq/messages";
    let first = |document: &Value| document["messages"][0]["origin"].clone();
    let shown = async |path: String| answered(api.get(&path), 200).await.json();

    let page = shown(format!("{messages}?echo=true&include_origin=true")).await;
    assert_eq!(first(&page), origin);
    let link = page["links"][0]["href"].as_str().unwrap();
    assert_eq!(link, format!("{messages}?echo=true&include_delayed=true&include_origin=true&marker={new}"));
    assert_eq!(first(&shown(format!("{messages}?ids={new}&include_origin=true")).await), origin);
    assert_eq!(shown(format!("{messages}/{new}?include_origin=1")).await["origin"], origin);
    let created = api.post("/v2/queues/dlq/claims?include_origin=true", &json!({}));
    let created = answered(created, 201).await;
    assert_eq!(first(&created.json()), origin);
    let claim = created.header("location").unwrap();
    assert_eq!(first(&shown(format!("{claim}?include_origin=true")).await), origin);
    answered(api.delete(claim), 204).await;
    let popped = answered(api.delete(&format!("{messages}?pop=1&include_origin=true")), 200).await.json();
    assert_eq!(first(&popped), origin);
}

#[tokio::test]
async fn the_origin_is_shown_only_on_request() {
    let api = new_project();
    let (_, new) = dead_letter(&api).await;

    for query in ["", "include_origin=false", "include_origin="] {
        let page = answered(api.get(&format!("/v2/queues/dlq/messages?echo=true&{query}")), 200).await.json();
        let message = answered(api.get(&format!("/v2/queues/dlq/messages/{new}?{query}")), 200).await.json();

        for document in [&page["messages"][0], &message] {
            let keys: Vec<_> = document.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["id", "href", "ttl", "age", "body"], "{query}");
        }
        assert!(!page.to_string().contains("origin"), "{page}");
    }
    refused(api.get("/v2/queues/dlq/messages?include_origin=perhaps"), 400, INVALID_PARAMETER).await;
}

#[tokio::test]
async fn an_ordinary_message_has_no_origin() {
    let api = new_project();
    api.post_bodies("q", &[json!("a")]).await;

    let page = answered(api.get("/v2/queues/q/messages?echo=true&include_origin=true"), 200).await.json();

    assert_eq!(page["messages"][0].get("origin"), None);
}
