//! Fact sheet 4.2 and 1.5: creating queues.

use reqwest::Method;
use serde_json::{Value, json};

use super::{INVALID_BODY, INVALID_QUEUE, INVALID_REQUEST, answered, new_project, refused};

/// Rows 4.2-6, 4.2-7, 4.2-8.
#[tokio::test]
async fn creating_an_existing_queue_does_not_change_it() {
    let api = new_project();

    let created = answered(api.put("/v2/queues/q").json(&json!({"k": 1})), 201).await;
    let again = answered(api.put("/v2/queues/q").json(&json!({"k": 2, "l": 3})), 204).await;
    let bare = answered(api.put("/v2/queues/q"), 204).await;

    for answer in [created, again, bare] {
        assert_eq!((answer.header("location"), answer.text.as_str()), (Some("/v2/queues/q"), ""));
    }
    let metadata = answered(api.get("/v2/queues/q"), 200).await.json();
    assert_eq!((&metadata["k"], metadata.get("l")), (&json!(1), None));
}

/// Row 4.2-1.
#[tokio::test]
async fn the_body_is_optional() {
    let api = new_project();

    answered(api.put("/v2/queues/none"), 201).await;
    answered(api.put("/v2/queues/empty").body(""), 201).await;
    answered(api.put("/v2/queues/blank").body("{}"), 201).await;
}

/// Rows 4.2-2, 4.2-9, 4.3-5, 5-3.
#[tokio::test]
async fn metadata_is_returned_unchanged() {
    let api = new_project();
    let metadata = json!({
        "name": "q1", "text": "héllo \u{1F600} \" \\ \u{0}", "nothing": null, "list": [1, [2.5, {}]], "": "no key",
        "/": true, "_mine": {"a": 1}, "_flavor": "gold", "large": i64::MAX, "small": i64::MIN,
    });
    api.create("q", &metadata).await;

    let shown = answered(api.get("/v2/queues/q"), 200).await.json();

    for (key, value) in metadata.as_object().unwrap() {
        assert_eq!(&shown[key], value, "{key}");
    }
}

#[tokio::test]
async fn a_queue_name_has_1_to_64_plain_characters() {
    let api = new_project();

    for name in ["a", "A-b_c.9", "...", "-", "0", &"x".repeat(64)] {
        answered(api.put(&format!("/v2/queues/{name}")), 201).await;
        answered(api.delete(&format!("/v2/queues/{name}")), 204).await;
    }
}

#[tokio::test]
async fn an_invalid_queue_name_is_refused_on_every_route() {
    let api = new_project();
    let long = "x".repeat(65);
    let names = [
        "%20",
        "a%20b",
        "q%0A",
        "%0Aq",
        "q%00",
        "caf%C3%A9",
        "%E9%98%9F%E5%88%97",
        "%D0%BE%D1%87",
        "%FF",
        "%",
        "a%zz",
        "a:b",
        "a*",
        "{q}",
        "a;b",
        "q%3F",
        &long,
    ];

    for name in names {
        let queue = format!("/v2/queues/{name}");
        for (method, path) in [
            (Method::PUT, queue.clone()),
            (Method::GET, queue.clone()),
            (Method::DELETE, queue.clone()),
            (Method::GET, format!("{queue}/messages")),
            (Method::DELETE, format!("{queue}/messages/m")),
        ] {
            api.send_raw(format!("{}\r\n", api.head(method.as_str(), &path))).await.refusal(400, INVALID_QUEUE);
        }
        let patch = api.patch(name, &json!([]));
        refused(patch, 400, INVALID_QUEUE).await;
        let message = json!({"messages": [{"body": 1}]});
        refused(api.post(&format!("{queue}/messages"), &message), 400, INVALID_QUEUE).await;
    }
    assert_eq!(api.snapshot().await, json!([]));
}

/// Row 4.2-4.
#[tokio::test]
async fn the_size_of_metadata_is_limited() {
    let api = new_project();
    let metadata = |bytes: usize| {
        let frame = r#"{"k": ""}"#.len();
        format!(r#"{{"k": "{}"}}"#, "x".repeat(bytes - frame))
    };

    answered(api.put("/v2/queues/full").body(metadata(65536)), 201).await;
    refused(api.put("/v2/queues/over").body(metadata(65537)), 400, INVALID_REQUEST).await;

    let names: Vec<Value> = api.snapshot().await.as_array().unwrap().iter().map(|q| q["name"].clone()).collect();
    assert_eq!(names, ["full"]);
}

/// Row 4.2-11.
#[tokio::test]
async fn the_values_and_levels_of_metadata_are_limited() {
    let api = new_project();
    let values = |count: usize| json!({ "k": vec![json!([0]); count / 2], "l": 1 });
    let nested = |levels: usize| json!({ "k": (2..levels).fold(json!([]), |value, _| json!([value])) });
    let (many, deep) = (
        "the metadata has 1002 values at all levels; at most 1000 are allowed, so write inner arrays and objects as texts",
        "the metadata has 33 levels; at most 32 are allowed, so write inner arrays and objects as texts",
    );

    for (queue, metadata) in [("full", values(998)), ("deep", nested(32))] {
        answered(api.put(&format!("/v2/queues/{queue}")).json(&metadata), 201).await;
    }
    for (metadata, description) in [(values(1_000), many), (nested(33), deep)] {
        assert_eq!(refused(api.put("/v2/queues/q").json(&metadata), 400, INVALID_REQUEST).await, description);
        let patch = json!([{ "op": "add", "path": "/metadata/k", "value": metadata["k"] },
            { "op": "add", "path": "/metadata/l", "value": 1 }]);
        let description = refused(api.patch("full", &patch), 400, INVALID_BODY).await;
        assert!(description.starts_with("the metadata has "), "{description}");
    }
    let equal_keys = format!(r#"{{"k": {}, "k": 1}}"#, values(30_000)["k"]);
    answered(api.put("/v2/queues/equal").body(equal_keys), 201).await;
    assert_eq!(answered(api.get("/v2/queues/full"), 200).await.json()["k"], values(998)["k"]);
    let names: Vec<Value> = api.snapshot().await.as_array().unwrap().iter().map(|q| q["name"].clone()).collect();
    assert_eq!(names, ["deep", "equal", "full"]);
}

/// Row 4.2-5.
#[tokio::test]
async fn metadata_must_be_an_object() {
    let api = new_project();

    for (body, description) in [
        ("[]", "Document type not supported."),
        (r#"[{"k": 1}]"#, "Document type not supported."),
        ("null", "Request body could not be parsed. It must be an object or an array."),
        ("{\n  \"k\": yes\n}", "Request body could not be parsed. Line 2, column 8: expected value."),
        (" ", "Request body could not be parsed. Line 1, column 1: EOF while parsing a value."),
        (r#"{"k": 9223372036854775808}"#, "JSON contains integer that is too large."),
    ] {
        assert_eq!(refused(api.put("/v2/queues/q").body(body), 400, INVALID_BODY).await, description, "{body}");
    }
    assert_eq!(api.snapshot().await, json!([]));
}
