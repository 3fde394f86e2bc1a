//! Fact sheet 6.1: posting messages.

use serde_json::{Value, json};

use super::{INVALID_BODY, INVALID_REQUEST, MESSAGES, answered, follow, new_project, pick, refused, send, text};

/// Rows 6-5, 6.1-11, 6.1-21, 6.1-22, 6.1-25.
#[tokio::test]
async fn the_receipt_lists_the_messages_in_request_order() {
    let api = new_project();
    let messages = json!({"messages": [{"body": "a", "ttl": 60}, {"body": "b"}, {"body": "c", "ttl": 1_209_600}]});

    let posted = answered(api.post(MESSAGES, &messages), 201).await;

    let resources = posted.json()["resources"].take();
    let listed = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&listed["messages"], "href"), *resources.as_array().unwrap());
    assert_eq!(pick(&listed["messages"], "body"), ["a", "b", "c"]);
    assert_eq!(pick(&listed["messages"], "ttl"), [60, 3600, 1_209_600]);
    let ids: Vec<String> = pick(&listed["messages"], "id").iter().map(|id| text(id).to_owned()).collect();
    assert_eq!(posted.header("location"), Some(format!("{MESSAGES}?ids={}", ids.join(",")).as_str()));
    assert_eq!(posted.json().as_object().unwrap().len(), 1);
    let fetched = answered(api.get(posted.header("location").unwrap()), 200).await.json();
    // The ages may differ.
    for field in ["id", "href", "ttl", "body"] {
        assert_eq!(pick(&fetched["messages"], field), pick(&listed["messages"], field));
    }
}

/// Row 6.1-24.
#[tokio::test]
async fn the_location_of_a_large_post_is_capped() {
    let api = new_project();
    let messages: Vec<Value> = (0..1000).map(|n| json!({"body": n})).collect();

    let posted = answered(api.post(MESSAGES, &json!({"messages": messages})), 201).await;

    assert!(posted.header("location").unwrap().len() < 8192);
    let resources = posted.json()["resources"].take();
    assert_eq!(resources.as_array().unwrap().len(), 1000);
    let last = answered(api.get(text(&resources[999])), 200).await.json();
    assert_eq!(last["body"], 999);
}

/// Row 6.1-3.
#[tokio::test]
async fn a_post_has_at_most_1000_messages() {
    let api = new_project();
    let document_with = |count: usize| json!({"messages": vec![json!({"body": 0}); count]});

    let description = refused(api.post(MESSAGES, &document_with(1001)), 400, INVALID_REQUEST).await;

    assert!(description.contains("1001 messages") && description.contains("between 1 and 1000"), "{description}");
    assert_eq!(api.snapshot().await, json!([]));
    let posted = answered(api.post(MESSAGES, &document_with(1000)), 201).await;
    assert_eq!(posted.json()["resources"].as_array().unwrap().len(), 1000);
}

/// Row 6-6.
#[tokio::test]
async fn any_json_value_is_a_body() {
    let api = new_project();
    let bodies = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1.5),
        json!(""),
        json!([]),
        json!({}),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!("\u{0}\u{7f}é漢\u{1F600}\u{2028}"),
        json!({"b": 1, "a": [[{}]]}),
    ];
    api.post_bodies("q", &bodies).await;

    let listed = follow(&api, &format!("{MESSAGES}?echo=true"), "messages").await;

    assert_eq!(pick(&listed.into(), "body"), bodies);
}

/// Row 6.1-1.
#[tokio::test]
async fn unknown_fields_are_dropped() {
    let api = new_project();
    let message = json!({"body": 1, "id": "x", "age": 5, "href": "/", "claim_id": "c", "color": "red"});
    answered(api.post(MESSAGES, &json!({"messages": [message], "more": 1})), 201).await;

    let listed = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();

    let keys: Vec<&String> = listed["messages"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "href", "ttl", "age", "body"]);
    assert_ne!(listed["messages"][0]["id"], "x");
}

/// Rows 4-1, 6.1-4.
#[tokio::test]
async fn the_first_post_creates_the_queue() {
    let api = new_project();

    api.post_bodies("q", &[json!(1)]).await;

    assert_eq!(pick(&api.snapshot().await, "name"), ["q"]);
}

/// Rows 5-5, 6.1-11.
#[tokio::test]
async fn a_queue_may_set_the_default_ttl() {
    let api = new_project();
    api.create("q", &json!({"_default_message_ttl": 120})).await;
    answered(api.post(MESSAGES, &json!({"messages": [{"body": 1}, {"body": 2, "ttl": 60}]})), 201).await;
    let patch = json!([{"op": "replace", "path": "/metadata/_default_message_ttl", "value": 240}]);
    answered(api.patch("q", &patch), 200).await;

    api.post_bodies("q", &[json!(3)]).await;

    let listed = answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await.json();
    assert_eq!(pick(&listed["messages"], "ttl"), [120, 60, 240]);
}

const NO_MESSAGES: &str =
    "No messages were found in the request body. It must have the form {\"messages\": [{\"body\": ...}, ...]}.";

/// Malformed documents, each with the title of its error and a text that the description must
/// contain.
fn malformed_documents() -> Vec<(Value, &'static str, &'static str)> {
    let one = |message: Value| json!({"messages": [{"body": "good"}, message]});
    let ttl = "The value of the \"ttl\" field must be a int.";
    vec![
        (json!({}), INVALID_REQUEST, NO_MESSAGES),
        (json!({"message": []}), INVALID_REQUEST, NO_MESSAGES),
        (json!([{"body": 1}]), INVALID_REQUEST, NO_MESSAGES),
        (json!({"messages": {}}), INVALID_BODY, "Document type not supported."),
        (json!({"messages": null}), INVALID_BODY, "Document type not supported."),
        (json!({"messages": "x"}), INVALID_BODY, "Document type not supported."),
        (json!({"messages": []}), INVALID_REQUEST, ""),
        (one(json!(5)), INVALID_BODY, ""),
        (one(json!(null)), INVALID_BODY, ""),
        (one(json!([])), INVALID_BODY, ""),
        (one(json!({})), INVALID_BODY, "Missing \"body\" field. Message 2 has none."),
        (one(json!({"ttl": 60})), INVALID_BODY, "Missing \"body\" field. Message 2 has none."),
        (one(json!({"body": 1, "ttl": null})), INVALID_BODY, ttl),
        (one(json!({"body": 1, "ttl": "60"})), INVALID_BODY, ttl),
        (one(json!({"body": 1, "ttl": 60.0})), INVALID_BODY, ttl),
        (one(json!({"body": 1, "ttl": []})), INVALID_BODY, ttl),
        (one(json!({"body": 1, "ttl": 59})), INVALID_REQUEST, "59"),
        (one(json!({"body": 1, "ttl": 0})), INVALID_REQUEST, ""),
        (one(json!({"body": 1, "ttl": true})), INVALID_REQUEST, ""),
        (one(json!({"body": 1, "ttl": -60})), INVALID_REQUEST, ""),
        (one(json!({"body": 1, "ttl": 1_209_601})), INVALID_REQUEST, "1209600"),
        (one(json!({"body": 1, "ttl": 4_294_967_356_i64})), INVALID_REQUEST, ""),
        (one(json!({"body": 1, "ttl": i64::MIN})), INVALID_REQUEST, ""),
    ]
}

/// Rows 6.1-2, 6.1-8, 6.1-9, 6.1-10, 6.1-12, 6.1-13, 6.1-16, 6.1-17, 6.1-23.
#[tokio::test]
async fn every_malformed_document_is_refused_and_changes_nothing() {
    let api = new_project();
    api.post_bodies("q", &[json!("before")]).await;
    let before = api.snapshot().await;

    for (document, title, expected) in malformed_documents() {
        let answer = send(api.post(MESSAGES, &document)).await;
        assert_eq!(answer.status, 400, "{document}: {answer:?}");
        let description = answer.refusal(400, title);
        assert!(description.contains(expected), "{document}: {description}");
    }
    assert_eq!(api.snapshot().await, before);
}

/// Row 6.1-5.
#[tokio::test]
async fn a_refused_request_creates_no_queue() {
    let api = new_project();

    for (document, title, _) in malformed_documents() {
        refused(api.post(MESSAGES, &document), 400, title).await;
    }

    assert_eq!(api.snapshot().await, json!([]));
}

/// Row 6.1-19.
#[tokio::test]
async fn the_first_failed_check_decides_the_error() {
    let api = new_project();

    let type_and_range = json!({"messages": [{"body": 1, "ttl": 1}, {"body": 1, "ttl": "x"}]});
    refused(api.post(MESSAGES, &type_and_range), 400, INVALID_BODY).await;
    let ttl_and_body = json!({"messages": [{"ttl": "x"}]});
    let description = refused(api.post(MESSAGES, &ttl_and_body), 400, INVALID_BODY).await;
    assert!(description.contains("ttl"), "{description}");
}

/// Row 6.1-6.
#[tokio::test]
async fn the_size_of_a_post_is_limited() {
    let api = new_project();
    let document = |bytes: usize| {
        let frame = r#"{"messages":[{"body":""}]}"#.len();
        format!(r#"{{"messages":[{{"body":"{}"}}]}}"#, "x".repeat(bytes - frame))
    };
    let post = |bytes| api.request(reqwest::Method::POST, MESSAGES).body(document(bytes));

    refused(post(262_145), 400, INVALID_REQUEST).await;
    assert_eq!(api.snapshot().await, json!([]));
    answered(post(262_144), 201).await;
}

/// Rows 5-7, 6.1-6.
#[tokio::test]
async fn a_queue_may_lower_the_size_limit() {
    let api = new_project();
    let document = json!({"messages": [{"body": "x"}]});
    let size = document.to_string().len();
    api.create("q", &json!({"_max_messages_post_size": size})).await;
    answered(api.post(MESSAGES, &document), 201).await;
    let before = api.snapshot().await;

    refused(api.post(MESSAGES, &json!({"messages": [{"body": "xx"}]})), 400, INVALID_REQUEST).await;

    assert_eq!(api.snapshot().await, before);
    let patch = json!([{"op": "replace", "path": "/metadata/_max_messages_post_size", "value": size - 1}]);
    answered(api.patch("q", &patch), 200).await;
    refused(api.post(MESSAGES, &document), 400, INVALID_REQUEST).await;
}
