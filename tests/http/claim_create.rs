//! Fact sheet 7.1: claiming messages.

use reqwest::Method;
use serde_json::json;

use super::{CLAIMS, INVALID_BODY, INVALID_PARAMETER, INVALID_REQUEST, answered, new_project, numbers, refused};

/// Rows 6-1, 7.1-11, 7.1-12.
#[tokio::test]
async fn a_claim_has_a_location_and_its_messages_link_to_it() {
    let api = new_project();
    let id = api.post_bodies("q", &[json!({"b": 1, "a": 2})]).await.remove(0);

    let claimed = answered(api.post(CLAIMS, &json!({"ttl": 300, "grace": 60})), 201).await;

    let claim = claimed.header("location").unwrap().strip_prefix("/v2/queues/q/claims/").unwrap();
    assert_eq!(uuid::Uuid::parse_str(claim).unwrap().to_string(), claim);
    let href = format!("/v2/queues/q/messages/{id}?claim_id={claim}");
    let age = claimed.json()["messages"][0]["age"].as_u64().unwrap();
    let message = format!(r#"{{"id":"{id}","href":"{href}","ttl":3600,"age":{age},"body":{{"b":1,"a":2}}}}"#);
    assert_eq!(claimed.text, format!(r#"{{"messages":[{message}]}}"#));
}

/// Rows 4-2, 7.1-10, 7.1-13.
#[tokio::test]
async fn no_claim_is_created_if_no_message_is_available() {
    let api = new_project();

    let missing = answered(api.post(CLAIMS, &json!({})), 204).await;
    assert_eq!(api.snapshot().await, json!([]));
    api.create("q", &json!({})).await;
    let empty = answered(api.post(CLAIMS, &json!({})), 204).await;
    api.post_bodies("q", &numbers(0..1)).await;
    api.claim(1).await;
    let taken = answered(api.post(CLAIMS, &json!({})), 204).await;

    for answer in [missing, empty, taken] {
        assert_eq!((answer.header("location"), answer.text.as_str()), (None, ""));
    }
}

/// Rows 7.1-1, 7.1-2.
#[tokio::test]
async fn a_claim_takes_up_to_10_messages_or_up_to_a_limit_of_at_most_20() {
    let api = new_project();
    api.post_bodies("q", &numbers(0..60)).await;
    let before = api.snapshot().await;

    for limit in ["0", "-1", "21", "4294967297"] {
        refused(api.post(&format!("{CLAIMS}?limit={limit}"), &json!({})), 400, INVALID_REQUEST).await;
    }
    for limit in ["x", "1.0", "true"] {
        refused(api.post(&format!("{CLAIMS}?limit={limit}"), &json!({})), 400, INVALID_PARAMETER).await;
    }
    assert_eq!(api.snapshot().await, before);
    for (query, body, count) in
        [("", json!({}), 10), ("?limit=", json!({}), 10), ("", json!({"limit": 3}), 10), ("?limit=20", json!({}), 20)]
    {
        let claimed = answered(api.post(&format!("{CLAIMS}{query}"), &body), 201).await.json();
        assert_eq!(claimed["messages"].as_array().unwrap().len(), count, "{query} {body}");
    }
}

/// Rows 7.1-3, 7.1-4, 7.1-14.
#[tokio::test]
async fn the_body_and_each_of_its_fields_are_optional() {
    let api = new_project();
    api.post_messages("q", &json!(vec![json!({"body": 1, "ttl": 120}); 5])).await;
    let path = format!("{CLAIMS}?limit=1");

    for (body, ttl, life) in [
        ("", 300, 360),
        ("{}", 300, 360),
        (r#"{"ttl": 60}"#, 60, 120),
        (r#"{"ttl": 43200, "grace": 43200}"#, 43200, 86400),
        (r#"{"grace": 90, "color": null}"#, 300, 390),
    ] {
        let claimed = answered(api.request(Method::POST, &path).body(body), 201).await;

        let claim = answered(api.get(claimed.header("location").unwrap()), 200).await.json();
        assert_eq!((&claim["ttl"], &claim["messages"][0]["ttl"]), (&json!(ttl), &json!(life)), "{body}");
    }
}

/// Rows 7.1-5, 7.1-6.
#[tokio::test]
async fn an_invalid_ttl_or_grace_is_refused_and_claims_nothing() {
    let api = new_project();
    api.post_bodies("q", &numbers(0..1)).await;
    let before = api.snapshot().await;

    for value in [json!(null), json!("60"), json!(60.0), json!([60]), json!({})] {
        for field in ["ttl", "grace"] {
            refused(api.post(CLAIMS, &json!({field: value})), 400, INVALID_BODY).await;
        }
    }
    for document in [json!([]), json!([{"ttl": 60}])] {
        refused(api.post(CLAIMS, &document), 400, INVALID_BODY).await;
    }
    for value in [59, 43201, 0, -1, i64::MAX, i64::MIN] {
        for field in ["ttl", "grace"] {
            refused(api.post(CLAIMS, &json!({field: value})), 400, INVALID_REQUEST).await;
            refused(api.post("/v2/queues/missing/claims", &json!({field: value})), 400, INVALID_REQUEST).await;
        }
    }
    let large = format!(r#"{{"ttl": 60, "k": "{}"}}"#, "x".repeat(65_536));
    refused(api.request(Method::POST, CLAIMS).body(large), 400, INVALID_REQUEST).await;
    assert_eq!(api.snapshot().await, before);
}
