//! Fact sheet 5: the reserved metadata keys. Every key is tried with every value, with PUT (400
//! `Invalid API request`) and with PATCH (400 `Invalid request body`).

use serde_json::{Value, json};

use super::{INVALID_BODY, INVALID_REQUEST, MESSAGES, Project, Server, answered, follow, new_project, pick, refused};
use support::sukkal::Sukkal;

/// Returns a value of each type, and the values on both sides of each bound.
fn values() -> Vec<Value> {
    let integers = json!([i64::MIN, -1, 0, 1, 59, 60, 900, 901, 262_144, 262_145, 1_209_600, 1_209_601, i64::MAX]);
    let others =
        json!([null, true, false, 60.0, 0.5, "", "60", "dead.letters", "no name", "é", [], [60], {}, {"k": 1}]);
    let list = |values: Value| values.as_array().unwrap().clone();
    [list(integers), list(others), vec![json!("x".repeat(64)), json!("x".repeat(65))]].concat()
}

/// Returns each key with the values that it accepts. It refuses the others.
fn accepted_values() -> Vec<(&'static str, Vec<Value>)> {
    let these = |values: Value| values.as_array().unwrap().clone();
    let numeric = |value: &Value| value.is_i64() || value.is_boolean() || value.is_null();
    vec![
        ("_default_message_ttl", these(json!([null, 60, 900, 901, 262_144, 262_145, 1_209_600]))),
        ("_max_messages_post_size", these(json!([null, true, 1, 59, 60, 900, 901, 262_144]))),
        ("_default_message_delay", these(json!([null, true, false, 0, 1, 59, 60, 900]))),
        ("_dead_letter_queue", these(json!([null, "60", "dead.letters", "x".repeat(64)]))),
        ("_dead_letter_queue_messages_ttl", these(json!([null, 60, 900, 901, 262_144, 262_145, 1_209_600]))),
        ("_max_claim_count", values().into_iter().filter(numeric).collect()),
        ("_enable_encrypt_messages", these(json!([null, false]))),
        ("_flavor", values()),
        ("_retry_policy", these(json!([null, {}, {"k": 1}]))),
        ("_unknown", values()),
        ("_shards", these(json!([null, 1, 59, 60, 900, 901]))),
        // Without `_shards` a queue has one shard.
        ("_shards_per_tenant", these(json!([null, 1]))),
    ]
}

/// Returns valid and invalid policies. A delay that is not given has its default: 5 for the
/// minimum, and 30 for the maximum.
pub(super) fn retry_policies() -> (Value, Value) {
    let taken = json!([
        {},
        {"retries_with_no_delay": 0, "minimum_delay_retries": 7, "maximum_delay_retries": i64::MAX},
        {"retries_with_no_delay": null, "retry_backoff_function": null, "ignore_subscription_override": null},
        {"retry_backoff_function": "linear"},
        {"retry_backoff_function": "arithmetic", "ignore_subscription_override": true},
        {"retry_backoff_function": "geometric", "ignore_subscription_override": false},
        {"retry_backoff_function": "exponential", "unknown": [1]},
        {"minimum_delay": 20},
        {"maximum_delay": 15},
        {"minimum_delay": 100, "maximum_delay": 110},
        {"minimum_delay": -10, "maximum_delay": 0},
        {"minimum_delay": 31_622_390, "maximum_delay": 31_622_400},
    ]);
    let refused = json!([
        {"retries_with_no_delay": "3"},
        {"retries_with_no_delay": true},
        {"retries_with_no_delay": -1},
        {"minimum_delay_retries": i64::MIN},
        {"maximum_delay_retries": false},
        {"minimum_delay": true, "maximum_delay": 30},
        {"minimum_delay": 5, "maximum_delay": 31_622_401},
        {"minimum_delay_retries": 3.0},
        {"maximum_delay_retries": [3]},
        {"retry_backoff_function": "cubic"},
        {"retry_backoff_function": 1},
        {"ignore_subscription_override": 1},
        {"ignore_subscription_override": "true"},
        {"minimum_delay": null},
        {"maximum_delay": null},
        {"minimum_delay": "5"},
        {"maximum_delay": 30.5},
        {"minimum_delay": 21},
        {"maximum_delay": 14},
        {"minimum_delay": 100, "maximum_delay": 109},
        {"minimum_delay": 50, "maximum_delay": 20},
        {"minimum_delay": i64::MAX, "maximum_delay": i64::MIN},
    ]);
    (taken, refused)
}

/// Returns a new project with a queue to patch.
async fn project_with_queue_to_patch() -> Project {
    let api = new_project();
    api.create("patched", &json!({"k": 1})).await;
    api
}

fn patch_of(key: &str, value: &Value) -> Value {
    json!([{"op": "add", "path": format!("/metadata/{key}"), "value": value}])
}

async fn assert_accepted(api: &Project, key: &str, value: &Value) {
    let stored = |metadata: &Value| metadata.get(key) == Some(value) || shows_its_default(key, value);

    let created = super::send(api.put("/v2/queues/created").json(&json!({key: value}))).await;
    assert_eq!(created.status, 201, "{key}: {value}: {created:?}");
    assert!(stored(&answered(api.get("/v2/queues/created"), 200).await.json()), "{key}: {value}");
    answered(api.delete("/v2/queues/created"), 204).await;

    let patched = super::send(api.patch("patched", &patch_of(key, value))).await;
    assert_eq!(patched.status, 200, "{key}: {value}: {patched:?}");
    assert!(stored(&patched.json()), "{key}: {value}");
}

async fn assert_refused(api: &Project, key: &str, value: &Value) {
    let created = super::send(api.put("/v2/queues/created").json(&json!({key: value}))).await;
    assert_eq!(created.status, 400, "{key}: {value}: {created:?}");
    assert!(created.refusal(400, INVALID_REQUEST).contains(key), "{created:?}");
    // The metadata is validated even if the queue exists.
    refused(api.put("/v2/queues/patched").json(&json!({key: value})), 400, INVALID_REQUEST).await;

    let patched = super::send(api.patch("patched", &patch_of(key, value))).await;
    assert_eq!(patched.status, 400, "{key}: {value}: {patched:?}");
    assert!(patched.refusal(400, INVALID_BODY).contains(key), "{patched:?}");
}

/// Returns whether a queue shows the default of the key instead of this value. `queue_metadata.rs`
/// tests the defaults.
fn shows_its_default(key: &str, value: &Value) -> bool {
    let always_shown = !["_flavor", "_retry_policy", "_unknown", "_shards", "_shards_per_tenant"].contains(&key);
    let is_no_limit = key == "_max_claim_count" && value.as_i64().is_some_and(|count| count < 0);
    always_shown && (is_no_limit || [json!(null), json!(0), json!(false)].contains(value))
}

/// Rows 4.2-3, 5-1, 5-2, 5-3, 5-4, 5-6, 5-8, 5-10, 5-11, 5-12, 5-13, 5-15, 5-16.
#[tokio::test]
async fn each_reserved_key_accepts_only_its_valid_values() {
    let api = project_with_queue_to_patch().await;

    for (key, taken) in accepted_values() {
        for value in values() {
            // Whether `true` is accepted depends on the encryption key of the server.
            match taken.contains(&value) {
                _ if key == "_enable_encrypt_messages" && value == true => {}
                true => assert_accepted(&api, key, &value).await,
                false => {
                    let before = api.snapshot().await;
                    assert_refused(&api, key, &value).await;
                    assert_eq!(api.snapshot().await, before, "{key}: {value}");
                }
            }
        }
    }
}

/// Row 5-16.
#[tokio::test]
async fn a_retry_policy_is_validated_together_with_its_defaults() {
    let api = project_with_queue_to_patch().await;
    let (taken, not_taken) = retry_policies();

    for policy in not_taken.as_array().unwrap() {
        assert_refused(&api, "_retry_policy", policy).await;
    }
    assert_eq!(answered(api.get("/v2/queues/patched"), 200).await.json().get("_retry_policy"), None);
    for policy in taken.as_array().unwrap() {
        assert_accepted(&api, "_retry_policy", policy).await;
    }
}

#[tokio::test]
async fn an_integer_beyond_64_bits_is_refused_for_every_key() {
    let api = project_with_queue_to_patch().await;
    let huge = "9223372036854775808";

    for (key, _) in accepted_values() {
        let created = api.put("/v2/queues/created").body(format!("{{\"{key}\": {huge}}}"));
        assert_eq!(refused(created, 400, INVALID_BODY).await, "JSON contains integer that is too large.");
        let patch = patch_of(key, &json!("HERE")).to_string().replace("\"HERE\"", huge);
        let patched = api.patch("patched", &json!([])).body(patch);
        assert_eq!(refused(patched, 400, INVALID_BODY).await, "JSON contains integer that is too large.");
    }
}

/// Row 5-6.
#[tokio::test]
async fn the_value_true_acts_as_1() {
    let api = new_project();
    api.create("q", &json!({"_max_messages_post_size": true})).await;

    let description = refused(api.post(MESSAGES, &json!({"messages": [{"body": 1}]})), 400, INVALID_REQUEST).await;

    assert!(description.ends_with("at most 1 are allowed"), "{description}");
}

/// Rows 5-5, 5-7.
#[tokio::test]
async fn a_change_applies_to_the_next_post_through_any_process() {
    let server = Server::shared();
    let here = Project::of(&server, &format!("project-{}", uuid::Uuid::new_v4()));
    let other_process = Sukkal::start(&server.redis.url());
    let there = other_process.project(&here.id);
    let set = |key, value: Value| here.patch("q", &patch_of(key, &value));
    let message = |bytes| json!({"messages": [{"body": "x".repeat(bytes)}]});

    here.create("q", &json!({"_default_message_ttl": 100, "_max_messages_post_size": 500})).await;
    for api in [&here.api, &there] {
        answered(api.post(MESSAGES, &message(1)), 201).await;
        refused(api.post(MESSAGES, &message(600)), 400, INVALID_REQUEST).await;
    }
    answered(set("_default_message_ttl", json!(200)), 200).await;
    answered(there.post(MESSAGES, &message(2)), 201).await;
    // The metadata cached by the other process refuses this post; the current metadata does not.
    answered(set("_max_messages_post_size", json!(700)), 200).await;
    answered(there.post(MESSAGES, &message(600)), 201).await;
    answered(set("_max_messages_post_size", json!(50)), 200).await;
    refused(there.post(MESSAGES, &message(100)), 400, INVALID_REQUEST).await;
    answered(here.delete("/v2/queues/q"), 204).await;
    answered(there.post(MESSAGES, &message(1000)), 201).await;

    let messages = follow(&here, &format!("{MESSAGES}?echo=true"), "messages").await;
    assert_eq!(pick(&messages.into(), "ttl"), [3600]);
}
