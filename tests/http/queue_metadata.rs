//! Fact sheet 4.3: reading the metadata of a queue. Changes are tested in `metadata_patch.rs`.

use serde_json::{Value, json};

use super::{answered, new_project};

fn defaults() -> Value {
    json!({
        "_max_messages_post_size": 262_144, "_default_message_ttl": 3600, "_default_message_delay": 0,
        "_dead_letter_queue": null, "_dead_letter_queue_messages_ttl": null, "_max_claim_count": null,
        "_enable_encrypt_messages": false,
    })
}

/// Rows 4-2, 4.3-1, 4.3-5.
#[tokio::test]
async fn a_missing_queue_shows_the_defaults() {
    let api = new_project();

    let metadata = answered(api.get("/v2/queues/q"), 200).await;

    assert_eq!(metadata.json(), defaults());
    assert_eq!(metadata.header("content-type"), Some("application/json"));
    assert_eq!(api.snapshot().await, json!([]));
}

/// Rows 4.3-2, 4.3-5.
#[tokio::test]
async fn stored_keys_and_the_defaults_of_missing_reserved_keys_are_shown() {
    let api = new_project();
    api.create("q", &json!({"k": "v", "_default_message_ttl": 60, "_retry_policy": {}})).await;

    let mut wanted = defaults();
    wanted["k"] = json!("v");
    wanted["_default_message_ttl"] = json!(60);
    wanted["_retry_policy"] = json!({});
    assert_eq!(answered(api.get("/v2/queues/q"), 200).await.json(), wanted);
}

/// Row 4.3-3.
#[tokio::test]
async fn a_reserved_key_with_an_empty_value_shows_its_default() {
    let api = new_project();
    let empty = json!({
        "_max_messages_post_size": null, "_default_message_ttl": null, "_default_message_delay": false,
        "_dead_letter_queue": null, "_dead_letter_queue_messages_ttl": null, "_max_claim_count": 0,
        "_enable_encrypt_messages": null,
    });
    api.create("q", &empty).await;

    assert_eq!(answered(api.get("/v2/queues/q"), 200).await.json(), defaults());
}
