//! What operators do with whole queues.

use serde_json::json;

use super::service::{Service, Store, over_both_stores};
use super::{Console, claim, open_orders, read};

over_both_stores! {
    a_queue_is_posted_to_paused_and_resumed,
    a_queue_is_changed_purged_and_deleted,
}

async fn a_queue_is_posted_to_paused_and_resumed(store: Store) {
    let mut service = Service::start(store, &[]);
    let api = service.api();
    let console = Console::open(&service.url("/console#/queues")).await;

    console.click("post a sample from here").await;
    console.fill("Body", "{").await;
    console.shows("This is not JSON").await;
    console.fill("Body", r#"{"exact": 9007199254740993, "decimal": 1.10}"#).await;
    console.shows("This is valid JSON.").await;
    console.click("Post").await;
    console.shows(r#"{"exact":9007199254740993"#).await;
    let stored = api.get("/v2/queues/hello/messages?echo=true").send().await.unwrap().text().await.unwrap();
    assert!(stored.contains("9007199254740993"), "{stored}");

    console.go("#/queues/hello").await;
    console.click("Pause").await;
    console.shows("Paused: claims and pops get no messages.").await;
    assert_eq!(claim(&api, "hello").await, None);
    console.click("Queues").await;
    service.restart(&console).await;
    // The row has the figures of the queue.
    let row = "return document.querySelector('tbody tr').textContent";
    let shown = console.read(row).await;
    assert!(shown.as_str().unwrap().starts_with("hellopaused100"), "{shown}");
    console.click("hello").await;
    console.shows("Paused: claims and pops get no messages.").await;
    assert_eq!(claim(&api, "hello").await, None);
    console.click("Resume").await;
    console.hides("Paused:").await;
    claim(&api, "hello").await.expect("the queue is resumed");
}

async fn a_queue_is_changed_purged_and_deleted(store: Store) {
    let mut service = Service::start(store, &[]);
    let api = service.api();
    super::post(&api, "hello", &[json!(1)]).await;
    let console = Console::open(&service.url("/console#/queues/hello/settings")).await;

    console.click("Add a key").await;
    console.fill("Key", "team").await;
    console.fill("Value", r#"{"name": "billing"}"#).await;
    console.click("Save").await;
    console.shows(r#"{"name":"billing"}"#).await;
    assert_eq!(read(&api, "/v2/queues/hello").await["team"], json!({"name": "billing"}));
    change(&console, "team").await;
    console.fill("Value", "shipping/~").await;
    console.click("Save").await;
    console.hides("JSON, or a text.").await;
    console.shows("\"shipping/~\"").await;
    assert_eq!(read(&api, "/v2/queues/hello").await["team"], "shipping/~");
    change(&console, "_default_message_ttl").await;
    console.fill("Value", "120").await;
    service.restart_and_retry(&console, "Save").await;
    console.hides("JSON, or a text.").await;
    change(&console, "team").await;
    console.click_and_confirm("Remove").await;
    console.shows("Remove: done.").await;
    console.hides("shipping").await;
    let metadata = read(&api, "/v2/queues/hello").await;
    assert_eq!((&metadata["_default_message_ttl"], metadata.get("team")), (&json!(120), None));

    console.click("Purge").await;
    console.fill("Type hello to confirm", "hell").await;
    let is_off = "return [...document.querySelectorAll('dialog button.danger')].at(-1).disabled";
    assert_eq!(console.read(is_off).await, true);
    console.fill("Type hello to confirm", "hello").await;
    console.click("Yes, do it").await;
    console.shows("Purge: done.").await;
    assert_eq!(read(&api, "/v2/queues/hello/stats").await["messages"]["total"], 0);
    console.click_and_type("Delete", "hello").await;
    console.shows("There are no queues.").await;
    assert_eq!(read(&api, "/v2/queues").await["queues"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_a_key_that_is_not_set_says_that_nothing_has_changed() {
    let (_sukkal, _api, console) = open_orders("settings").await;

    change(&console, "_default_message_ttl").await;
    console.click_and_confirm("Remove").await;

    console.shows("Remove: nothing has changed. The key was not set, or was set to its default.").await;
}

/// Opens the editor of a key.
async fn change(console: &Console, key: &str) {
    let click = "const one = document.querySelector(`li[data-key='${arguments[0]}'] button`); one?.click(); return Boolean(one)";
    console.browser.wait_for(click, json!([key])).await;
}
