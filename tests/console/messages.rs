//! What operators do with single messages and with claims.

use serde_json::{Value, json};

use super::service::{Service, Store, over_both_stores};
use super::{Console, claim, create, post, read};
use support::sukkal::{Api, CLIENT};

const LISTED: &str =
    "/v2/queues/orders/messages?echo=true&include_delayed=true&include_claimed=true&include_state=true";

over_both_stores! {
    messages_are_posted_with_options_copied_exactly_and_deleted,
    messages_are_deleted_under_their_claims_and_claims_are_released,
}

async fn listed(api: &Api) -> Vec<Value> {
    read(api, LISTED).await["messages"].as_array().unwrap().clone()
}

async fn messages_are_posted_with_options_copied_exactly_and_deleted(store: Store) {
    let mut service = Service::start(store, &[]);
    let api = service.api();
    create(&api, "orders", &json!({"_shards": 4, "_enable_message_delay": true})).await;
    let console = Console::open(&service.url("/console#/queues/orders/messages")).await;

    console.click("Post a message").await;
    console.fill("Body", r#"{"order": {"id": 9007199254740993}}"#).await;
    console.shows("Then the message expires").await;
    console.fill("Time to live, in seconds", "600").await;
    console.fill("Delay, in seconds", "300").await;
    console.fill("Tenant", "acme").await;
    console.click("Post").await;
    console.shows("delayed").await;
    let posted = listed(&api).await;
    assert_eq!((&posted[0]["body"], posted.len()), (&json!({"order": {"id": 9_007_199_254_740_993_u64}}), 1));
    // The time to live begins when the delay ends.
    assert_eq!((&posted[0]["ttl"], &posted[0]["state"]), (&json!(900), &json!("delayed")));
    let stats = read(&api, "/v2/queues/orders/stats?detailed=true").await;
    assert_eq!(stats["tenants"][0]["tenant"], "acme");

    service.restart_and_retry(&console, "Refresh").await;
    console.click(r#"{"order":{"id":9007199254740993}}"#).await;
    console.shows("15 min").await;
    // A headless browser refuses access to the clipboard, so the console shows the text.
    console.click("Copy the body").await;
    let copied = console.text_of("dialog:last-of-type pre.command").await;
    assert_eq!(copied, "{\n  \"order\": {\n    \"id\": 9007199254740993\n  }\n}");
    console.click("Close").await;

    console.click_and_confirm("Delete").await;
    console.shows("There are no messages.").await;
    assert_eq!(listed(&api).await, [Value::Null; 0]);
    assert_eq!(console.read("return document.querySelectorAll('dialog').length").await, 0);
}

async fn messages_are_deleted_under_their_claims_and_claims_are_released(store: Store) {
    let mut service = Service::start(store, &[]);
    let api = service.api();
    post(&api, "orders", &[json!("kept"), json!("removed")]).await;
    let held = claim(&api, "orders").await.unwrap();
    let console = Console::open(&service.url("/console#/queues/orders/messages")).await;

    console.click("\"removed\"").await;
    console.shows("Claimed by").await;
    // The service refuses to delete a claimed message without the id of its claim.
    console.click_and_confirm("Delete").await;
    console.hides("\"removed\"").await;
    let still_held = read(&api, &held).await;
    let bodies: Vec<&Value> = still_held["messages"].as_array().unwrap().iter().map(|one| &one["body"]).collect();
    assert_eq!(bodies, ["kept"]);

    console.go("#/queues/orders/claims").await;
    console.shows(CLIENT).await;
    service.restart(&console).await;
    console.click(held.rsplit('/').next().unwrap()).await;
    console.shows("\"kept\"").await;
    console.click("Close").await;
    console.click_and_confirm("Release").await;
    console.shows("No messages are claimed.").await;
    assert_eq!(api.get(&held).send().await.unwrap().status(), 404);
    assert_eq!(listed(&api).await[0]["state"], "available");
}
