//! `POST Q/share` (fact sheet 9): its request and its response.

use time::format_description::well_known::Iso8601;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::signed_urls::{sign, signing_project};
use super::*;

const SHARE: &str = "/v2/queues/q/share";

async fn refusal(project: &Project, body: &Value) -> String {
    refused(project.post(SHARE, body), 400, INVALID_REQUEST).await
}

/// Rows 9-3, 9-10.
#[tokio::test]
async fn the_response_lists_everything_that_is_signed_in_a_fixed_order() {
    let project = signing_project();
    let body = json!({
        "methods": ["POST", "GET", "FETCH"],
        "paths": ["subscriptions", "messages", "claims"],
        "expires": "2099-01-02T03:04:05",
    });

    let answer = answered(project.post(SHARE, &body), 200).await;

    let paths = "/v2/queues/q/claims,/v2/queues/q/messages,/v2/queues/q/subscriptions";
    let signed = sign(paths, "FETCH,GET,POST", &project.id, "2099-01-02T03:04:05");
    let document = json!({
        "paths": ["/v2/queues/q/claims", "/v2/queues/q/messages", "/v2/queues/q/subscriptions"],
        "methods": ["FETCH", "GET", "POST"],
        "project": project.id,
        "expires": "2099-01-02T03:04:05",
        "signature": signed.signature,
    });
    assert_eq!(answer.text, document.to_string());
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

/// Rows 9-2, 9-3, 9-6.
#[tokio::test]
async fn missing_fields_have_defaults() {
    let project = signing_project();

    for body in
        [json!({}), json!({"methods": null, "paths": null, "expires": null}), json!({"methods": [], "paths": []})]
    {
        let before = OffsetDateTime::now_utc().unix_timestamp();
        let document = answered(project.post(SHARE, &body), 200).await.json();
        let after = OffsetDateTime::now_utc().unix_timestamp();

        assert_eq!(document["paths"], json!(["/v2/queues/q/messages"]), "{body}");
        assert_eq!(document["methods"], json!(["GET"]), "{body}");
        let expires = PrimitiveDateTime::parse(text(&document["expires"]), &Iso8601::PARSING).unwrap();
        let life = expires.assume_utc().unix_timestamp() - 86_400;
        assert!((before..=after).contains(&life), "{body}: {document}");
    }
}

/// Row 9-4.
#[tokio::test]
async fn expires_accepts_every_spelling_of_iso_8601() {
    let project = signing_project();

    for (expires, shown) in [
        ("2099-01-02", "2099-01-02T00:00:00"),
        ("2099-01-02T03:04:05.999999", "2099-01-02T03:04:05"),
        ("2099-01-02 03:04:05", "2099-01-02T03:04:05"),
        ("2099-01-02T03:04:05Z", "2099-01-02T03:04:05"),
        ("2099-01-02T03:04:05+04:00", "2099-01-01T23:04:05"),
    ] {
        let document = answered(project.post(SHARE, &json!({ "expires": expires })), 200).await.json();

        assert_eq!(document["expires"], shown, "{expires}");
    }
}

/// Row 9-5.
#[tokio::test]
async fn expires_must_be_in_the_future() {
    let project = signing_project();
    let now = OffsetDateTime::now_utc().format(&Iso8601::DEFAULT).unwrap();

    for expires in
        [json!(4_070_908_800_i64), json!("4070908800"), json!("20990101"), json!(""), json!("soon"), json!(1.5)]
    {
        let description = refusal(&project, &json!({ "expires": expires })).await;

        assert!(description.contains("it must be a time"), "{expires}: {description}");
    }
    for expires in ["2020-01-01T00:00:00", &now] {
        let description = refusal(&project, &json!({ "expires": expires })).await;

        assert!(description.contains("must be in the future"), "{expires}: {description}");
    }
    for expires in [json!(true), json!([]), json!({})] {
        refusal(&project, &json!({ "expires": expires })).await;
    }
}

/// Rows 9-1, 9-2, 9-3.
#[tokio::test]
async fn unsupported_fields_paths_and_methods_are_refused() {
    let project = signing_project();

    for (body, culprit) in [
        (json!({"project_id": "p"}), "project_id"),
        (json!({"paths": ["messages"], "path": "messages"}), "path"),
        (json!({"paths": ["stats"]}), "stats"),
        (json!({"paths": ["messages", "messages/m"]}), "messages/m"),
        (json!({"paths": ["../other/messages"]}), "../other/messages"),
        (json!({"paths": [""]}), "paths contains \"\""),
        (json!({"paths": "messages"}), "paths"),
        (json!({"paths": {"messages": true}}), "paths"),
        (json!({"paths": [1]}), "paths"),
        (json!({"methods": "GET"}), "methods"),
        (json!({"methods": ["GET", 1]}), "methods"),
        (json!({"methods": ["GET,POST"]}), "GET,POST"),
        (json!({"methods": ["GET\\nother"]}), "not an HTTP method"),
        (json!({"methods": ["GET\n"]}), "not an HTTP method"),
        (json!({"methods": [""]}), "not an HTTP method"),
        (json!({"methods": ["GET", "get"]}), "\"get\", which is not an HTTP method in upper case"),
    ] {
        let description = refusal(&project, &body).await;

        assert!(description.contains(culprit), "{body}: {description}");
    }
}

/// Row 9-7.
#[tokio::test]
async fn the_body_must_be_an_object() {
    let project = signing_project();
    let share = || project.request(Method::POST, SHARE);

    refused(share(), 400, INVALID_BODY).await;
    refused(share().body("{"), 400, INVALID_BODY).await;
    refused(project.post(SHARE, &json!([])), 400, INVALID_BODY).await;
    refused(project.post(SHARE, &json!(["messages"])), 400, INVALID_BODY).await;
    refused(share().body(" ".repeat(65_537)), 400, INVALID_REQUEST).await;
    refused(project.post("/v2/queues/caf%C3%A9/share", &json!({})), 400, INVALID_QUEUE).await;
}

/// Row 9-8.
#[tokio::test]
async fn a_server_without_a_secret_signs_nothing() {
    let project = new_project();

    let description = refusal(&project, &json!({})).await;

    assert!(description.contains("secret_key"), "{description}");
}

/// Rows 4-2, 9-9.
#[tokio::test]
async fn sharing_a_queue_does_not_create_it() {
    let project = signing_project();

    answered(project.post(SHARE, &json!({})), 200).await;

    assert_eq!(project.snapshot().await, json!([]));
}
