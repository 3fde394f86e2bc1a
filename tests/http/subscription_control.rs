//! Confirmation (fact sheet 8.4 and 8.5), and the extensions that control deliveries: pause,
//! resume, redelivery and attempts.

use reqwest::Method;
use serde_json::{Value, json};

use super::subscriptions::{PATH, URI, new_project};
use super::{INVALID_BODY, INVALID_PARAMETER, INVALID_REQUEST, Project, answered, refused};

async fn delivery(api: &Project, path: &str) -> Value {
    api.show(&format!("{path}?with_delivery=true")).await["delivery"].take()
}

/// Rows 8.4-14, 8.4-15, 8.4-16, 8.4-18.
#[tokio::test]
async fn a_subscriber_confirms_and_ends_its_subscription() {
    let api = new_project();
    let path = api.subscription(&json!({"subscriber": URI})).await;
    let confirm = format!("{path}/confirm");

    for confirmed in [true, false, true] {
        let answer = answered(api.put(&confirm).json(&json!({ "confirmed": confirmed })), 204).await;
        assert_eq!((answer.header("location"), answer.text.as_str()), (Some(confirm.as_str()), ""));
        assert_eq!(api.show(&path).await["confirmed"], confirmed);
    }
    for body in [json!({}), json!({"confirmed": null}), json!({"confirmed": 1}), json!({"confirmed": "true"})] {
        let description = refused(api.put(&confirm).json(&body), 400, INVALID_REQUEST).await;
        assert_eq!(description, "The 'confirmed' should be boolean.");
    }
    refused(api.put(&confirm), 400, INVALID_REQUEST).await;
    refused(api.put(&confirm).json(&json!([])), 400, "Unable to confirm subscription").await;
    answered(api.post(&confirm, &json!({"confirmed": true})), 405).await;
}

#[tokio::test]
async fn a_paused_subscription_is_resumed() {
    let api = new_project();
    let path = api.subscription(&json!({"subscriber": URI})).await;
    let new = json!({
        "state": "active", "reason": null, "until": null, "pending": 0, "delivered": 0, "missed": 0, "given_up": 0, "retrying": 0,
        "attempts": 0, "failing_since": null,
    });
    assert_eq!(delivery(&api, &path).await, new);

    for (verb, state) in [("pause", "paused"), ("pause", "paused"), ("resume", "active"), ("resume", "active")] {
        let answer = answered(api.request(Method::POST, &format!("{path}/{verb}")), 204).await;
        assert_eq!((answer.text.as_str(), &delivery(&api, &path).await["state"]), ("", &json!(state)));
    }
    refused(api.get(&format!("{path}?with_delivery=x")), 400, INVALID_PARAMETER).await;
}

#[tokio::test]
async fn the_messages_of_a_paused_subscription_are_pending() {
    let api = new_project();
    let path = api.subscription(&json!({"subscriber": URI})).await;
    answered(api.request(Method::POST, &format!("{path}/pause")), 204).await;

    api.post_bodies("q", &[json!(1), json!(2)]).await;

    let delivery = delivery(&api, &path).await;
    assert_eq!((&delivery["state"], &delivery["pending"]), (&json!("paused"), &json!(2)));
    let page = answered(api.get(&format!("{PATH}?with_delivery=true")), 200).await.json();
    assert_eq!(page["subscriptions"][0]["delivery"], delivery);
    assert!(page["links"][0]["href"].as_str().unwrap().contains("with_delivery=true"), "{page}");
    refused(api.get(&format!("{PATH}?with_delivery=x")), 400, INVALID_PARAMETER).await;
}

#[tokio::test]
async fn a_new_subscription_has_no_attempts() {
    let api = new_project();
    let path = api.subscription(&json!({"subscriber": URI})).await;

    let attempts = answered(api.get(&format!("{path}/attempts")), 200).await.json();

    assert_eq!(attempts, json!({"attempts": [], "links": []}));
}

#[tokio::test]
async fn a_redelivery_names_a_time_or_messages_of_the_queue() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(1), json!(2)]).await;
    let others = api.post_bodies("r", &[json!(1)]).await;
    let path = api.subscription(&json!({"subscriber": URI})).await;
    answered(api.request(Method::POST, &format!("{path}/pause")), 204).await;
    let redeliver = |body: Value| api.post(&format!("{path}/redeliver"), &body);

    for body in [json!({"since": "now"}), json!({"since": "2026-11-22T12:00:00Z"}), json!({ "ids": ids })] {
        let state = answered(redeliver(body), 202).await.json();
        assert_eq!(state, json!({"state": "paused", "reason": null, "until": null}));
    }
    refused(api.request(Method::POST, &format!("{path}/redeliver")), 400, INVALID_BODY).await;
    for since in [json!("yesterday"), json!(3), json!(null)] {
        refused(redeliver(json!({ "since": since })), 400, INVALID_PARAMETER).await;
    }
    for body in [
        json!({}),
        json!({"since": "now", "ids": ids}),
        json!({"since": "now", "limit": 1}),
        json!({"ids": []}),
        json!({"ids": "x"}),
        json!({"ids": [1]}),
        json!({ "ids": others }),
        json!({ "ids": vec![&ids[0]; 101] }),
    ] {
        refused(redeliver(body), 400, INVALID_REQUEST).await;
    }
}

#[tokio::test]
async fn a_subscription_can_be_told_to_start_at_a_time() {
    let api = new_project();
    for (number, since) in ["now", "2026-11-22T12:00:00Z", "1970-01-01T00:00:00Z"].into_iter().enumerate() {
        api.subscription(&json!({"subscriber": format!("{URI}/{number}"), "since": since})).await;
    }
    for since in [json!("yesterday"), json!(3)] {
        refused(api.subscribe(&json!({"subscriber": URI, "since": since})), 400, INVALID_PARAMETER).await;
    }
    assert_eq!(answered(api.get(PATH), 200).await.json()["subscriptions"].as_array().unwrap().len(), 3);
}
