//! Fact sheet 5: the keys that the service obeys. Each row of the table is a line of `TAKEN` and `REFUSED`,
//! tried with PUT (400 `Invalid API request`) and PATCH (400 `Invalid request body`).

use serde_json::{Value, json};

use super::{INVALID_BODY, INVALID_REQUEST, answered, refused, send, tenant};

fn taken() -> Vec<(&'static str, Value)> {
    let of = |key, values: Value| values.as_array().unwrap().iter().map(|value| (key, value.clone())).collect();
    let rows: [Vec<_>; 9] = [
        of("_default_message_ttl", json!([60, 1_209_600, null])),
        of("_max_messages_post_size", json!([1, 262_144, null])),
        of("_default_message_delay", json!([0, 900, null])),
        of("_dead_letter_queue", json!(["dlq", 5, {"any": "thing"}, null])),
        of("_dead_letter_queue_messages_ttl", json!([60, 1_209_600, null])),
        of("_max_claim_count", json!([0, -5, 10, i64::MAX, null])),
        of("_enable_encrypt_messages", json!([true, false, null])),
        of("_flavor", json!(["gold", 1, null])),
        of("_unknown", json!([0, "x", [], null])),
    ];
    rows.concat()
}

fn refused_values() -> Vec<(&'static str, Value)> {
    let of = |key, values: Value| values.as_array().unwrap().iter().map(|value| (key, value.clone())).collect();
    let rows: [Vec<_>; 6] = [
        of("_default_message_ttl", json!([0, 59, 1_209_601, -60, "60", "", 60.0, true, [60], {}, i64::MAX, i64::MIN])),
        of("_max_messages_post_size", json!([0, -1, 262_145, "1", 1.5, false, []])),
        of("_default_message_delay", json!([-1, 901, "0", 0.0, {}])),
        of("_dead_letter_queue_messages_ttl", json!([0, 59, 1_209_601, "60", 60.5])),
        of("_max_claim_count", json!(["1", 1.0, [], {}])),
        of("_enable_encrypt_messages", json!([1, 0, "true", "", []])),
    ];
    rows.concat()
}

#[tokio::test]
async fn reserved_keys_take_what_they_are_for() {
    let api = tenant();
    api.create("patched", &json!({})).await;

    for (key, value) in taken() {
        let created = send(api.put("/v2/queues/created").json(&json!({key: value}))).await;
        assert_eq!(created.status, 201, "{key}: {value}");
        answered(api.delete("/v2/queues/created"), 204).await;
        let patch = json!([{"op": "add", "path": format!("/metadata/{key}"), "value": value}]);
        assert_eq!(send(api.patch("patched", &patch)).await.status, 200, "{key}: {value}");
    }
}

#[tokio::test]
async fn reserved_keys_refuse_anything_else() {
    let api = tenant();
    api.create("patched", &json!({"k": 1})).await;
    let before = api.everything().await;

    for (key, value) in refused_values() {
        let description = refused(api.put("/v2/queues/created").json(&json!({key: value})), 400, INVALID_REQUEST).await;
        assert!(description.contains(key), "{description}");
        // A queue that exists is no reason to look less closely.
        refused(api.put("/v2/queues/patched").json(&json!({key: value})), 400, INVALID_REQUEST).await;
        let patch = json!([{"op": "add", "path": format!("/metadata/{key}"), "value": value}]);
        let description = refused(api.patch("patched", &patch), 400, INVALID_BODY).await;
        assert!(description.contains(key), "{description}");
    }
    assert_eq!(api.everything().await, before);
}
