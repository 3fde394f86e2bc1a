//! Fact sheet 4.4: changing a queue's metadata.

use reqwest::Method;
use serde_json::{Value, json};

use super::{CONFLICT, INVALID_BODY, NOT_FOUND, PATCH_TYPE, Project, answered, new_project, refused};

async fn project_with_queue(metadata: &Value) -> Project {
    let api = new_project();
    api.create("q", metadata).await;
    api
}

async fn patch_and_get(api: &Project, patch: &Value) -> Value {
    let metadata = answered(api.patch("q", patch), 200).await.json();
    assert_eq!(answered(api.get("/v2/queues/q"), 200).await.json(), metadata);
    metadata
}

/// Checks that each patch is refused with this status and title, and changes nothing.
async fn assert_all_refused(api: &Project, patches: &[Value], status: u16, title: &str) {
    let before = api.snapshot().await;
    for patch in patches {
        let answer = super::send(api.patch("q", patch)).await;
        assert_eq!(answer.status, status, "{patch}: {answer:?}");
        answer.refusal(status, title);
    }
    assert_eq!(api.snapshot().await, before);
}

/// Rows 4.4-6, 4.4-7, 4.4-10, 4.4-16, 4.4-24.
#[tokio::test]
async fn operations_add_replace_and_remove_keys() {
    let api = project_with_queue(&json!({"a": 1, "b": 2, "c": 3})).await;

    let metadata = patch_and_get(
        &api,
        &json!([
            {"op": "add", "path": "/metadata/new", "value": {"x": [null]}},
            {"op": "add", "path": "/metadata/a", "value": "again"},
            {"op": "replace", "path": "/METADATA/b", "value": null, "more": "ignored"},
            {"op": "remove", "path": "/metadata/c", "value": "ignored"},
            {"op": "replace", "path": "/metadata/new", "value": 7},
        ]),
    )
    .await;

    assert_eq!(metadata["new"], 7);
    assert_eq!(metadata["a"], "again");
    assert_eq!(metadata.get("b"), Some(&Value::Null));
    assert_eq!(metadata.get("c"), None);
    assert_eq!(metadata["_default_message_ttl"], 3600);
}

/// Row 4.4-5.
#[tokio::test]
async fn an_empty_patch_changes_nothing() {
    let api = project_with_queue(&json!({"a": 1})).await;

    assert_eq!(patch_and_get(&api, &json!([])).await["a"], 1);
}

/// Rows 4.4-15, 4.4-17.
#[tokio::test]
async fn keys_in_paths_are_unescaped_and_trimmed() {
    let api = project_with_queue(&json!({"a/b": 1, "c~d": 2, "~1": 3, "Key": 4})).await;

    let metadata = patch_and_get(
        &api,
        &json!([
            {"op": "replace", "path": "/metadata/a~1b", "value": 10},
            {"op": "replace", "path": "/metadata/c~0d", "value": 20},
            {"op": "replace", "path": "/metadata/~01", "value": 30},
            {"op": "replace", "path": "/metadata/Key", "value": 60},
            {"op": "add", "path": "/ metadata / e ", "value": 40},
            {"op": "add", "path": "/metadata/é", "value": 50},
        ]),
    )
    .await;

    for (key, value) in [("a/b", 10), ("c~d", 20), ("~1", 30), ("e", 40), ("é", 50), ("Key", 60)] {
        assert_eq!(metadata[key], value, "{key}");
    }
}

/// Rows 4.4-8, 4.4-11.
#[tokio::test]
async fn reserved_keys_can_always_be_replaced_and_removed() {
    let api = project_with_queue(&json!({"_default_message_ttl": 60})).await;

    let metadata = patch_and_get(
        &api,
        &json!([
            {"op": "replace", "path": "/metadata/_max_claim_count", "value": 5},
            {"op": "remove", "path": "/metadata/_dead_letter_queue"},
            {"op": "remove", "path": "/metadata/_default_message_ttl"},
            {"op": "remove", "path": "/metadata/_default_message_ttl"},
        ]),
    )
    .await;

    assert_eq!((&metadata["_max_claim_count"], &metadata["_default_message_ttl"]), (&json!(5), &json!(3600)));
}

/// Row 4.4-13.
#[tokio::test]
async fn remove_ignores_the_first_segment() {
    let api = project_with_queue(&json!({"k": 1})).await;

    assert_eq!(patch_and_get(&api, &json!([{"op": "remove", "path": "/foo/k"}])).await.get("k"), None);
}

/// Rows 4.4-9, 4.4-12, 4.4-23.
#[tokio::test]
async fn a_missing_key_cannot_be_replaced_or_removed() {
    let api = project_with_queue(&json!({"k": 1})).await;
    let replace = |key: &str| json!([{"op": "replace", "path": format!("/metadata/{key}"), "value": 1}]);
    let remove = |key: &str| json!([{"op": "remove", "path": format!("/metadata/{key}")}]);

    let patches = ["K", "_flavor", "_retry_policy"].map(|key| [replace(key), remove(key)]).concat();
    assert_all_refused(&api, &patches, 409, CONFLICT).await;
    let replaced = refused(api.patch("q", &replace("x")), 409, CONFLICT).await;
    assert_eq!(replaced, "Can't replace non-existent object x.");
    let removed = refused(api.patch("q", &remove("x")), 409, CONFLICT).await;
    assert_eq!(removed, "Can't remove non-existent object x.");
}

/// Rows 4.4-6, 4.4-7, 4.4-14, 4.4-15, 4.4-16, 4.4-18, 4.4-19.
#[tokio::test]
async fn a_malformed_operation_is_refused() {
    let api = project_with_queue(&json!({"k": 1})).await;
    let paths = [
        json!("metadata/k"),
        json!(""),
        json!("/"),
        json!("/metadata"),
        json!("/metadata/"),
        json!("/metadata/k/"),
        json!("/metadata/k/l"),
        json!("//k"),
        json!("/metadata//"),
        json!("/foo/k"),
        json!("/metadata/~2"),
        json!("/metadata/k~"),
        json!("/metadata/ "),
        json!(null),
        json!(5),
        json!(["metadata", "k"]),
        json!({}),
    ];
    let of_paths = paths.iter().map(|path| json!([{"op": "add", "path": path, "value": 1}]));
    let others = [
        json!([{"path": "/metadata/k", "value": 1}]),
        json!([{"op": "move", "path": "/metadata/k", "value": 1}]),
        json!([{"op": "ADD", "path": "/metadata/k", "value": 1}]),
        json!([{"op": 1, "path": "/metadata/k", "value": 1}]),
        json!([{"op": "add", "value": 1}]),
        json!([{"op": "add", "path": "/metadata/k"}]),
        json!([{"op": "replace", "path": "/metadata/k"}]),
        json!([{"op": "remove"}]),
        json!([[]]),
        json!([null]),
        json!(["add"]),
        json!([{"op": "add", "path": "/metadata/k", "value": 2}, 5]),
    ];

    assert_all_refused(&api, &of_paths.chain(others).collect::<Vec<_>>(), 400, INVALID_BODY).await;
}

/// Rows 4.4-3, 4.4-4.
#[tokio::test]
async fn a_patch_is_an_array() {
    let api = project_with_queue(&json!({"k": 1})).await;
    let before = api.snapshot().await;
    let patch = || api.request(Method::PATCH, "/v2/queues/q").header("Content-Type", PATCH_TYPE);

    for request in [patch(), patch().body("")] {
        let description = refused(request, 400, INVALID_BODY).await;
        assert_eq!(description, "PATCH body could not be empty for update.");
    }
    for body in
        ["{}", r#"{"op": "add", "path": "/metadata/k", "value": 2}"#, "null", "5", "[", "\u{feff}\u{feff}[]", "\0"]
    {
        refused(patch().body(body), 400, INVALID_BODY).await;
    }
    assert_eq!(api.snapshot().await, before);
}

/// Row 4.4-2.
#[tokio::test]
async fn a_patch_has_one_of_two_media_types() {
    let api = project_with_queue(&json!({})).await;
    let patch = || api.request(Method::PATCH, "/v2/queues/q").body("[]");

    for other in ["application/json", "application/json-patch", "text/plain; json-patch", ""] {
        let description = refused(patch().header("Content-Type", other), 415, "415 Unsupported Media Type").await;

        assert!(description.contains(PATCH_TYPE), "{description}");
    }
    refused(patch(), 415, "415 Unsupported Media Type").await;
    for accepted in ["application/json-patch+json", &PATCH_TYPE.to_uppercase(), &format!("{PATCH_TYPE}; charset=utf-8")]
    {
        answered(patch().header("Content-Type", accepted), 200).await;
    }
}

/// Row 4.4-1.
#[tokio::test]
async fn the_size_of_a_patch_is_checked_before_its_media_type() {
    let api = project_with_queue(&json!({})).await;
    let patch = |bytes: usize| {
        let frame = r#"[{"op":"add","path":"/metadata/k","value":""}]"#.len();
        format!(r#"[{{"op":"add","path":"/metadata/k","value":"{}"}}]"#, "x".repeat(bytes - frame))
    };
    let request = |body| api.request(Method::PATCH, "/v2/queues/q").body(body);

    refused(request(patch(65537)), 400, INVALID_BODY).await;
    refused(request(patch(65537)).header("Content-Type", PATCH_TYPE), 400, INVALID_BODY).await;
    refused(request(patch(65536)), 415, "415 Unsupported Media Type").await;
    answered(request(patch(65536)).header("Content-Type", PATCH_TYPE), 200).await;
}

/// Row 4.4-20.
#[tokio::test]
async fn patching_a_missing_queue_is_404() {
    let api = new_project();

    for patch in [json!([]), json!([{"op": "add", "path": "/metadata/k", "value": 1}])] {
        let description = refused(api.patch("q", &patch), 404, NOT_FOUND).await;

        assert!(description.starts_with("Queue q does not exist for project "), "{description}");
    }
    assert_eq!(api.snapshot().await, json!([]));
}

/// Row 4.4-21.
#[tokio::test]
async fn syntax_is_checked_before_existence_and_existence_before_values() {
    let api = project_with_queue(&json!({})).await;
    let bad_syntax = json!({"op": "add", "path": "metadata/k", "value": 1});
    let bad_key = json!({"op": "remove", "path": "/metadata/none"});
    let bad_value = json!({"op": "add", "path": "/metadata/_default_message_ttl", "value": 1});

    refused(api.patch("missing", &json!([bad_key, bad_syntax])), 400, INVALID_BODY).await;
    refused(api.patch("missing", &json!([bad_value, bad_key])), 404, NOT_FOUND).await;
    refused(api.patch("q", &json!([bad_value, bad_key, bad_syntax])), 400, INVALID_BODY).await;
    refused(api.patch("q", &json!([bad_value, bad_key])), 409, CONFLICT).await;
    refused(api.patch("q", &json!([bad_value])), 400, INVALID_BODY).await;
}

/// Row 4.4-22.
#[tokio::test]
async fn a_patch_is_atomic() {
    let api = project_with_queue(&json!({"k": 1})).await;
    let good = json!({"op": "add", "path": "/metadata/k", "value": 2});

    let conflict = json!([good, {"op": "remove", "path": "/metadata/none"}]);
    assert_all_refused(&api, &[conflict], 409, CONFLICT).await;
    let invalid = json!([good, {"op": "add", "path": "/metadata/_max_claim_count", "value": "x"}]);
    assert_all_refused(&api, &[invalid], 400, INVALID_BODY).await;
}

#[tokio::test]
async fn patches_cannot_grow_metadata_beyond_the_size_limit() {
    let project = new_project();
    assert_eq!(project.put("/v2/queues/q").send().await.unwrap().status(), 201);
    let large = |key: &str| json!([{ "op": "add", "path": format!("/metadata/{key}"), "value": "x".repeat(40_000) }]);
    let patch = |body: Value| {
        let request = project.request(Method::PATCH, "/v2/queues/q").header("Content-Type", PATCH_TYPE);
        request.body(body.to_string()).send()
    };

    assert_eq!(patch(large("first")).await.unwrap().status(), 200);
    assert_eq!(patch(large("second")).await.unwrap().status(), 400);

    let shown: Value = project.get("/v2/queues/q").send().await.unwrap().json().await.unwrap();
    assert!(shown.get("first").is_some() && shown.get("second").is_none());
}
