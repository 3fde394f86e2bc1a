//! Requests that fail, are refused, or get no response, and the warnings of those that succeed.

use std::time::Duration;

use serde_json::json;

use super::{Console, PROJECT, create, open_orders, post, read};
use support::sukkal::Sukkal;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_stays_visible_with_its_request_id_until_a_retry_succeeds() {
    let (_sukkal, api, console) = open_orders("settings").await;

    console.fail_to_save().await;
    let shown = console.read("return document.querySelector('.failure').textContent").await;
    assert!(shown.as_str().unwrap().contains("Request req-"), "{shown}");
    console.fill("Value", "60").await;
    console.click("Retry").await;

    console.shows("Save: done.").await;
    assert_eq!(console.read("return document.querySelectorAll('.failure').length").await, 0);
    assert_eq!(read(&api, "/v2/queues/orders").await["_default_message_ttl"], 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_cannot_be_opened_says_why_until_it_is_opened() {
    const VIEW_SHOWS: &str = "return document.getElementById('view').innerText.includes(arguments[0])";
    let (_sukkal, _api, console) = open_orders("messages").await;
    console.shows("There are no messages.").await;

    console.go("#/queues/..").await;
    console.browser.wait_for(VIEW_SHOWS, json!(["Browsers cannot address a queue named"])).await;
    console.hides("Loading…").await;
    let lose = "const send = fetch; window.fetch = async () => { window.fetch = send; throw new TypeError('lost'); }";
    console.read(lose).await;
    console.go("#/queues/orders/settings").await;
    console.browser.wait_for(VIEW_SHOWS, json!(["The service cannot be reached"])).await;
    console.click("Retry").await;

    console.shows("Irreversible actions").await;
    console.hides("The service cannot be reached").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dismissed_failure_is_shown_again_when_the_action_fails_again() {
    let (_sukkal, _api, console) = open_orders("settings").await;
    console.fail_to_save().await;

    console.click("Dismiss").await;
    console.hides("Save failed.").await;
    console.click("Save").await;

    console.shows("Save failed.").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_whose_response_is_lost_is_stored_once_after_a_retry() {
    let (_sukkal, api, console) = open_orders("messages").await;
    console.shows("There are no messages.").await;

    let lose = "const send = fetch; window.fetch = async (...of) => {
        const response = await send(...of);
        if (of[1].method !== 'POST') return response;
        window.fetch = send;
        throw new TypeError('the response is lost');
    };";
    console.read(lose).await;
    console.click("Post a message").await;
    console.click("Post").await;
    console.shows("the response is lost").await;
    console.click("Retry").await;

    console.shows("Post: done.").await;
    let posted = read(&api, "/v2/queues/orders/messages?echo=true").await;
    assert_eq!(posted["messages"].as_array().unwrap().len(), 1, "{posted}");
}

/// Nothing waits for ever for a service that accepts connections and does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_fails_after_20_seconds_without_a_response_and_can_be_retried() {
    let (sukkal, api, console) = open_orders("settings").await;
    console.click("Add a key").await;
    console.fill("Key", "team").await;
    console.fill("Value", "billing").await;
    // The browser measures the timeouts of requests with a clock of its own. This one uses the
    // clock of the page.
    let limit_next = "const limit = AbortSignal.timeout; AbortSignal.timeout = ms => {
        AbortSignal.timeout = limit;
        const controller = new AbortController();
        setTimeout(() => controller.abort(new DOMException('', 'TimeoutError')), ms);
        return controller.signal;
    };";
    console.read(limit_next).await;

    sukkal.pause();
    console.click("Save").await;
    console.pass(Duration::from_secs(15)).await;
    let failures = console.read("return document.querySelectorAll('.failure').length").await;
    assert_eq!(failures, 0);
    console.pass(Duration::from_secs(5)).await;
    console.shows("Save failed. The service has not responded in 20 s").await;
    sukkal.resume();
    console.click("Retry").await;

    console.shows("Save: done.").await;
    assert_eq!(read(&api, "/v2/queues/orders").await["team"], "billing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_deletion_does_not_leave_the_page_that_was_opened_meanwhile() {
    let (sukkal, api, console) = open_orders("settings").await;
    create(&api, "carts", &json!({})).await;

    console.shows("Irreversible actions").await;
    sukkal.pause();
    console.click_and_type("Delete", "orders").await;
    console.go("#/queues/carts/settings").await;
    console.shows("Loading…").await;
    sukkal.resume();

    console.shows("Delete: done.").await;
    console.shows("Irreversible actions").await;
    assert_eq!(console.read("return location.hash").await, "#/queues/carts/settings");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_that_is_refused_says_why_and_begins_when_another_one_ends() {
    let sukkal = Sukkal::start_with("memory:", &[("SUKKAL_TRANSPORT__MAX_STREAMS_PER_PROJECT", "1")]);
    let api = sukkal.project(PROJECT);
    create(&api, "orders", &json!({})).await;
    let stream = api.get("/v2/queues/orders/messages").header("Accept", "text/event-stream").send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages")).await;

    console.click("Live tail").await;
    console.shows("Reconnecting… (").await;
    let shown = console.text_of("[role=status]").await;
    assert!(shown.contains("event streams"), "{shown}");
    drop(stream);

    console.shows("Connected.").await;
    post(&api, "orders", &[json!("after the other one")]).await;
    console.shows("after the other one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_shows_the_warning_of_the_service() {
    let (_sukkal, _api, console) = open_orders("settings").await;

    console.click("Add a key").await;
    console.fill("Key", "_defualt_message_ttl").await;
    console.fill("Value", "60").await;
    console.click("Save").await;

    console.shows("Save: done. ").await;
    let shown = console.text_of(".notice").await;
    assert!(shown.contains("_defualt_message_ttl") && shown.contains("_default_message_ttl"), "{shown}");
}
