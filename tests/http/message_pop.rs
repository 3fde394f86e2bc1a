//! Fact sheet 6.5, `pop`: returns and deletes the oldest messages in one step.

use serde_json::{Value, json};

use super::{INVALID_PARAMETER, INVALID_REQUEST, MESSAGES, answered, new_project, pick, refused};

/// Rows 6-7, 6.5-8, 6.5-10.
#[tokio::test]
async fn a_pop_removes_and_returns_the_oldest_messages() {
    let api = new_project();
    let ids = api.post_bodies("q", &(0..5).map(Value::from).collect::<Vec<_>>()).await;

    let first = answered(api.delete(&format!("{MESSAGES}?pop=2")), 200).await.json();
    let second = answered(api.delete(&format!("{MESSAGES}?pop=20")), 200).await.json();
    let third = answered(api.delete(&format!("{MESSAGES}?pop=1")), 200).await.json();

    assert_eq!(pick(&first["messages"], "id"), ids[..2]);
    assert_eq!(pick(&second["messages"], "body"), [2, 3, 4]);
    assert_eq!(third, json!({"messages": []}));
    let message = &first["messages"][0];
    let mut keys: Vec<&String> = message.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["age", "body", "claim_count", "claim_id", "id", "ttl"]);
    assert_eq!((&message["ttl"], &message["claim_count"], &message["body"]), (&json!(3600), &json!(0), &json!(0)));
    assert!(message["age"].is_u64() && message["claim_id"].is_string());
    assert_eq!(api.snapshot().await[0]["messages"], json!([]));
}

/// Row 6.5-9.
#[tokio::test]
async fn a_pop_of_a_missing_queue_returns_an_empty_list() {
    let api = new_project();

    assert_eq!(answered(api.delete(&format!("{MESSAGES}?pop=5")), 200).await.json(), json!({"messages": []}));
    assert_eq!(api.snapshot().await, json!([]));
}

/// Row 6.5-7.
#[tokio::test]
async fn a_pop_takes_1_to_20_messages() {
    let api = new_project();
    api.post_bodies("q", &[json!(1)]).await;
    let before = api.snapshot().await;

    for count in ["0", "-1", "21", "4294967297"] {
        refused(api.delete(&format!("{MESSAGES}?pop={count}")), 400, INVALID_REQUEST).await;
    }
    for count in ["x", "1.5", "true"] {
        refused(api.delete(&format!("{MESSAGES}?pop={count}")), 400, INVALID_PARAMETER).await;
    }
    assert_eq!(api.snapshot().await, before);
}
