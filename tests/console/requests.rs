//! How many requests the console sends.

use std::time::Duration;

use serde_json::json;

use super::service::{Service, Store};
use super::{Console, PROJECT, create, post};
use support::sukkal::Sukkal;

/// Notes when the page sends requests, in milliseconds of its clock, and how many have no response.
const NOTE_REQUESTS: &str = "
    Object.assign(window, {sent: [], unanswered: 0});
    const send = fetch;
    window.fetch = async (...of) => {
        window.sent.push(performance.now());
        window.unanswered += 1;
        try {
            return await send(...of);
        } finally {
            window.unanswered -= 1;
        }
    };";
const ALL_ANSWERED: &str = "return window.unanswered === 0";
/// The URLs of the requests of any kind that have begun after a time, and ended.
const SENT_SINCE: &str =
    "return performance.getEntriesByType('resource').filter(one => one.startTime > arguments[0]).map(one => one.name)";
/// Keeps what event streams have sent, and whether one has ended.
const KEEP_STREAMED: &str = "
    Object.assign(window, {streamed: '', hasEnded: false});
    const read = ReadableStreamDefaultReader.prototype.read;
    ReadableStreamDefaultReader.prototype.read = async function () {
        const part = await read.call(this).catch(error => {
            window.hasEnded = true;
            throw error;
        });
        window.streamed += part.value ?? '';
        window.hasEnded ||= part.done;
        return part;
    };";

/// The time is that of the page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_tab_sends_two_requests_in_a_second_at_most_and_a_hidden_one_sends_none() {
    const PART: Duration = Duration::from_millis(500);
    const PARTS: usize = 24;
    /// Milliseconds in which at most two requests are sent: a second, less what the page needs to
    /// send one.
    const WINDOW_MS: f64 = 800.0;
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    for number in 0..100 {
        post(&api, &format!("q{number}"), &[json!(number)]).await;
    }
    let console = Console::open(&sukkal.url("/console")).await;
    console.read(NOTE_REQUESTS).await;
    for (route, text) in [("#/", "Checked "), ("#/queues", "q1"), ("#/queues/q1", "Since it was created")] {
        console.read("window.sent = []").await;
        console.go(route).await;
        console.shows(text).await;
        for _ in 0..PARTS {
            console.pass(PART).await;
            console.browser.wait_for(ALL_ANSWERED, json!([])).await;
        }
        let sent = console.read("return window.sent").await;
        let sent: Vec<f64> = sent.as_array().unwrap().iter().map(|at| at.as_f64().unwrap()).collect();
        assert!(sent.len() > 2 && sent.windows(3).all(|three| three[2] - three[0] > WINDOW_MS), "{route}: {sent:?}");
    }

    console.browser.hide().await;
    let hidden_at = console.read("return new Event('now').timeStamp").await;
    console.pass(Duration::from_secs(60)).await;
    console.browser.wait_for(ALL_ANSWERED, json!([])).await;
    assert_eq!(console.browser.run(SENT_SINCE, json!([hidden_at])).await, json!([]));
    console.read("window.sent = []").await;
    console.browser.show().await;
    console.browser.wait_for("return window.sent.length > 0", json!([])).await;
}

/// The messages of a live tail wait until the tab is visible, and so does its next connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_tail_in_a_hidden_tab_does_not_draw_and_does_not_reconnect() {
    let mut service = Service::start(Store::embedded(), &[]);
    let api = service.api();
    create(&api, "orders", &json!({})).await;
    let console = Console::open(&service.url("/console#/queues/orders/messages")).await;
    console.read(KEEP_STREAMED).await;
    console.click("Live tail").await;
    console.shows("Connected.").await;

    console.browser.hide().await;
    post(&api, "orders", &[json!("while hidden")]).await;
    console.browser.wait_for("return window.streamed.includes(arguments[0])", json!(["while hidden"])).await;
    console.pass(Duration::from_secs(10)).await;
    let shown = "return document.querySelector('#view').textContent.includes(arguments[0])";
    assert_eq!(console.browser.run(shown, json!(["while hidden"])).await, false);
    console.browser.show().await;
    console.shows("while hidden").await;

    console.browser.hide().await;
    console.read(NOTE_REQUESTS).await;
    service.stop();
    service.start_again();
    post(&api, "orders", &[json!("after the restart")]).await;
    console.browser.wait_for("return window.hasEnded", json!([])).await;
    // A visible tab connects again after 2 seconds.
    console.pass(Duration::from_secs(10)).await;
    assert_eq!(console.read("return window.sent").await, json!([]));
    console.browser.show().await;
    console.shows("after the restart").await;
    assert_eq!(console.read("return document.querySelectorAll('tbody tr').length").await, 2);
}
