//! `POST Q/share` (chapter 9): what may be asked for, and what is answered.

use time::format_description::well_known::Iso8601;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::signed_urls::{sign, signing_tenant};
use super::*;

const SHARE: &str = "/v2/queues/q/share";

async fn refusal(tenant: &Tenant, wish: &Value) -> String {
    refused(tenant.post(SHARE, wish), 400, INVALID_REQUEST).await
}

/// Rows 9-3, 9-10.
#[tokio::test]
async fn the_answer_says_all_that_is_signed_in_order() {
    let tenant = signing_tenant();
    let wish = json!({
        "methods": ["POST", "GET", "FETCH"],
        "paths": ["subscriptions", "messages", "claims"],
        "expires": "2099-01-02T03:04:05",
    });

    let answer = answered(tenant.post(SHARE, &wish), 200).await;

    let paths = "/v2/queues/q/claims,/v2/queues/q/messages,/v2/queues/q/subscriptions";
    let signed = sign(paths, "FETCH,GET,POST", &tenant.project, "2099-01-02T03:04:05");
    let document = json!({
        "paths": ["/v2/queues/q/claims", "/v2/queues/q/messages", "/v2/queues/q/subscriptions"],
        "methods": ["FETCH", "GET", "POST"],
        "project": tenant.project,
        "expires": "2099-01-02T03:04:05",
        "signature": signed.signature,
    });
    assert_eq!(answer.text, document.to_string());
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

/// Rows 9-2, 9-3, 9-6.
#[tokio::test]
async fn what_is_not_asked_for_has_a_default() {
    let tenant = signing_tenant();

    for wish in
        [json!({}), json!({"methods": null, "paths": null, "expires": null}), json!({"methods": [], "paths": []})]
    {
        let before = OffsetDateTime::now_utc().unix_timestamp();
        let document = answered(tenant.post(SHARE, &wish), 200).await.json();
        let after = OffsetDateTime::now_utc().unix_timestamp();

        assert_eq!(document["paths"], json!(["/v2/queues/q/messages"]), "{wish}");
        assert_eq!(document["methods"], json!(["GET"]), "{wish}");
        let expires = PrimitiveDateTime::parse(text(&document["expires"]), &Iso8601::PARSING).unwrap();
        let life = expires.assume_utc().unix_timestamp() - 86_400;
        assert!((before..=after).contains(&life), "{wish}: {document}");
    }
}

/// Row 9-4.
#[tokio::test]
async fn expires_is_a_time_in_any_spelling() {
    let tenant = signing_tenant();

    for (expires, shown) in [
        ("2099-01-02", "2099-01-02T00:00:00"),
        ("2099-01-02T03:04:05.999999", "2099-01-02T03:04:05"),
        ("2099-01-02 03:04:05", "2099-01-02T03:04:05"),
        ("2099-01-02T03:04:05Z", "2099-01-02T03:04:05"),
        ("2099-01-02T03:04:05+04:00", "2099-01-01T23:04:05"),
    ] {
        let document = answered(tenant.post(SHARE, &json!({ "expires": expires })), 200).await.json();

        assert_eq!(document["expires"], shown, "{expires}");
    }
}

/// Row 9-5.
#[tokio::test]
async fn expires_is_a_time_to_come() {
    let tenant = signing_tenant();
    let now = OffsetDateTime::now_utc().format(&Iso8601::DEFAULT).unwrap();

    for expires in
        [json!(4_070_908_800_i64), json!("4070908800"), json!("20990101"), json!(""), json!("soon"), json!(1.5)]
    {
        let description = refusal(&tenant, &json!({ "expires": expires })).await;

        assert!(description.contains("it must be a time"), "{expires}: {description}");
    }
    for expires in ["2020-01-01T00:00:00", &now] {
        let description = refusal(&tenant, &json!({ "expires": expires })).await;

        assert!(description.contains("must be in the future"), "{expires}: {description}");
    }
    for expires in [json!(true), json!([]), json!({})] {
        refusal(&tenant, &json!({ "expires": expires })).await;
    }
}

/// Rows 9-1, 9-2, 9-3.
#[tokio::test]
async fn what_cannot_be_shared_is_refused() {
    let tenant = signing_tenant();

    for (wish, culprit) in [
        (json!({"project_id": "p"}), "project_id"),
        (json!({"paths": ["messages"], "path": "messages"}), "path"),
        (json!({"paths": ["stats"]}), "stats"),
        (json!({"paths": ["messages", "messages/m"]}), "messages/m"),
        (json!({"paths": ["../other/messages"]}), "../other/messages"),
        (json!({"paths": [""]}), "cannot be shared"),
        (json!({"paths": "messages"}), "paths"),
        (json!({"paths": {"messages": true}}), "paths"),
        (json!({"paths": [1]}), "paths"),
        (json!({"methods": "GET"}), "methods"),
        (json!({"methods": ["GET", 1]}), "methods"),
        (json!({"methods": ["GET,POST"]}), "GET,POST"),
        (json!({"methods": ["GET\\nother"]}), "not an HTTP method"),
        (json!({"methods": ["GET\n"]}), "not an HTTP method"),
        (json!({"methods": [""]}), "not an HTTP method"),
    ] {
        let description = refusal(&tenant, &wish).await;

        assert!(description.contains(culprit), "{wish}: {description}");
    }
}

/// Row 9-7.
#[tokio::test]
async fn a_share_needs_an_object() {
    let tenant = signing_tenant();
    let share = || tenant.request(Method::POST, SHARE);

    refused(share(), 400, INVALID_BODY).await;
    refused(share().body("{"), 400, INVALID_BODY).await;
    refused(tenant.post(SHARE, &json!([])), 400, INVALID_BODY).await;
    refused(tenant.post(SHARE, &json!(["messages"])), 400, INVALID_BODY).await;
    refused(share().body(" ".repeat(65_537)), 400, INVALID_REQUEST).await;
    refused(tenant.post("/v2/queues/caf%C3%A9/share", &json!({})), 400, INVALID_QUEUE).await;
}

/// Row 9-8.
#[tokio::test]
async fn without_a_secret_nothing_is_signed() {
    let tenant = tenant();

    let description = refusal(&tenant, &json!({})).await;

    assert!(description.contains("secret_key"), "{description}");
}

/// Rows 4-2, 9-9.
#[tokio::test]
async fn sharing_a_queue_does_not_create_it() {
    let tenant = signing_tenant();

    answered(tenant.post(SHARE, &json!({})), 200).await;

    assert_eq!(tenant.everything().await, json!([]));
}
