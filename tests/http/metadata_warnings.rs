//! `Sukkal-Warning` about the metadata of queues.

use serde_json::{Value, json};

use super::warnings::{post, warnings_of};
use super::{answered, new_project};

const NO_DEAD_LETTER_QUEUE: &str = "\"_max_claim_count\" has no effect without \"_dead_letter_queue\"; set both";

fn add(key: &str, value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({"op": "add", "path": format!("/metadata/{key}"), "value": value})
}

#[tokio::test]
async fn an_unknown_reserved_key_gets_a_warning_with_the_nearest_key() {
    let api = new_project();
    let misspelled = json!({"_max_claim_cuont": 3, "team": "billing"});
    let expected = "unknown metadata key \"_max_claim_cuont\" has no effect; did you mean \"_max_claim_count\"?";

    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&misspelled), 201).await, [expected]);
    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&misspelled), 204).await, [expected]);

    let patch = json!([add("_mine", 1)]);
    let own = "unknown metadata key \"_mine\" has no effect; name keys of your own without a leading \"_\"";
    // What the request adds comes before what the queue has had, because a response has five
    // warnings.
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [own, expected]);
}

#[tokio::test]
async fn known_keys_and_unreserved_keys_get_no_warning() {
    let api = new_project();
    let metadata = json!({
        "_max_messages_post_size": 1000, "_default_message_ttl": 60, "_default_message_delay": 1,
        "_dead_letter_queue": "dead", "_dead_letter_queue_messages_ttl": 60, "_max_claim_count": 3,
        "_enable_encrypt_messages": true, "_retry_policy": {}, "_shards": 2, "_shards_per_tenant": 1, "team_": "_x",
    });

    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&metadata), 201).await, [""; 0]);
    assert_eq!(warnings_of(api.patch("q", &json!([add("team", "a")])), 200).await, [""; 0]);
    assert_eq!(warnings_of(post(&api, "q", &json!([{"body": 1, "delay": 5}])), 201).await, [""; 0]);
}

#[tokio::test]
async fn half_of_the_metadata_of_dead_letters_gets_a_warning() {
    let api = new_project();
    let needs = |key: &str, missing: &str| format!("\"{key}\" has no effect without \"{missing}\"; set both");
    let ttl = json!({"_dead_letter_queue_messages_ttl": 60});
    assert_eq!(
        warnings_of(api.put("/v2/queues/ttl").json(&ttl), 201).await,
        [needs("_dead_letter_queue_messages_ttl", "_dead_letter_queue")]
    );

    assert_eq!(
        warnings_of(api.put("/v2/queues/q").json(&json!({"_max_claim_count": 3})), 201).await,
        [NO_DEAD_LETTER_QUEUE]
    );
    let patch = json!([add("team", "billing")]);
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [NO_DEAD_LETTER_QUEUE]);
    let patch = json!([add("_dead_letter_queue", "dead")]);
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [""; 0]);
    let patch = json!([{"op": "remove", "path": "/metadata/_max_claim_count"}]);
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [needs("_dead_letter_queue", "_max_claim_count")]);
    let patch = json!([add("_dead_letter_queue", Value::Null)]);
    assert_eq!(warnings_of(api.patch("q", &patch), 200).await, [""; 0]);
}

#[tokio::test]
async fn a_claim_count_of_0_or_less_gets_a_warning() {
    let api = new_project();
    let without_effect = "\"_max_claim_count\" of 0 or less has no effect; \
        use 1 to move a message after its first delivery, or remove the key";

    for (number, count) in [json!(0), json!(-1), json!(false), json!(i64::MIN)].into_iter().enumerate() {
        let path = format!("/v2/queues/q{number}");
        let metadata = json!({"_max_claim_count": count, "_dead_letter_queue": "dead"});
        assert_eq!(warnings_of(api.put(&path).json(&metadata), 201).await, [without_effect], "{count}");
    }
    assert_eq!(
        warnings_of(api.patch("q0", &json!([add("_dead_letter_queue", Value::Null)])), 200).await,
        [without_effect]
    );
    assert_eq!(warnings_of(api.patch("q1", &json!([add("_max_claim_count", 1)])), 200).await, [""; 0]);
}

/// Clients generated from openapi.yaml have other names for keys that begin with `_`.
#[tokio::test]
async fn a_metadata_key_without_its_leading_underscore_gets_a_warning() {
    let api = new_project();
    let metadata = json!({"max_claim_count": 3, "_dead_letter_queue_messages_ttl": null, "team": "billing"});
    let expected = "metadata key \"max_claim_count\" is one of your own, which the service does not use; \
                    did you mean \"_max_claim_count\"?";

    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&metadata), 201).await, [expected]);
    let update = json!([add("max_claim_count", 4)]);
    assert_eq!(warnings_of(api.patch("q", &update), 200).await, [expected]);
    let spellings = ["maxClaimCount", "Max-Claim-Count", "MAX_CLAIM_COUNT"];
    for (number, spelling) in spellings.into_iter().enumerate() {
        let warned = warnings_of(api.put(&format!("/v2/queues/q{number}")).json(&json!({ spelling: 3 })), 201).await;
        assert_eq!(warned, [expected.replace("key \"max_claim_count\"", &format!("key \"{spelling}\""))]);
    }
}

/// The first post creates a queue, so that its owner comes too late with metadata.
#[tokio::test]
async fn metadata_that_is_not_stored_gets_a_warning() {
    let api = new_project();
    let metadata = json!({"team": "billing", "_default_message_ttl": 60});
    answered(post(&api, "q", &json!([{"body": 1}])), 201).await;

    let unchanged = "the queue exists, and its metadata, which is different, was not changed; change it with PATCH, or \
                     with `sukkal queue set`";
    assert_eq!(warnings_of(api.put("/v2/queues/q").json(&metadata), 204).await, [unchanged]);
    answered(api.put("/v2/topics/q"), 201).await;
    let of_topic = unchanged.replace("queue exists", "topic exists").replace("set`", "set --topic`");
    assert_eq!(warnings_of(api.put("/v2/topics/q").json(&json!({"team": "billing"})), 204).await, [of_topic]);
    assert_eq!(warnings_of(api.put("/v2/queues/q"), 204).await, [""; 0]);
    answered(api.put("/v2/queues/new").json(&metadata), 201).await;
    let reordered = json!({"_default_message_ttl": 60, "team": "billing"});
    assert_eq!(warnings_of(api.put("/v2/queues/new").json(&reordered), 204).await, [""; 0]);
}
