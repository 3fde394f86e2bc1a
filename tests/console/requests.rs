//! How many requests the console sends.

use std::fs;
use std::process::Child;

use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Duration, sleep};

use super::service::{Service, Store};
use super::{Console, PROJECT, create, post};
use crate::support::exposition::Exposition;
use crate::support::ports::{first_that_starts, free_port};
use crate::support::redis::{child_command, start_listening};
use crate::support::sukkal::Sukkal;

/// The number of requests to the API that the page has sent.
const SENT: &str = "return performance.getEntriesByType('resource').filter(one => one.name.includes('/v2/')).length";

/// nginx, which serves a service below the path `/tools/sukkal/`.
pub(super) struct Prefix {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Prefix {
    pub(super) fn start(sukkal: &Sukkal) -> Self {
        first_that_starts(|| {
            let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
            let text = format!(
                "daemon off; pid nginx.pid; error_log stderr; worker_processes 1; events {{ }}
                http {{ access_log off; server {{ listen 127.0.0.1:{port};
                location /tools/sukkal/ {{ proxy_pass http://{}/; proxy_http_version 1.1; proxy_set_header Host $http_host; }} }} }}",
                sukkal.address()
            );
            fs::write(folder.path().join("nginx.conf"), text).unwrap();
            let mut nginx = child_command("nginx");
            nginx.args(["-p", folder.path().to_str().unwrap(), "-c", "nginx.conf"]);
            start_listening(nginx, port).map(|process| Self { process, port, _folder: folder })
        })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        let _dead_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// A tab sends at most two requests in a second when it is left alone, and none when it is hidden.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_tab_sends_two_requests_in_a_second_at_most_and_a_hidden_one_sends_none() {
    const SECONDS: u64 = 6;
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    for number in 0..100 {
        post(&api, &format!("q{number}"), &[json!(number)]).await;
    }
    let console = Console::open(&sukkal.url("/console"), &[]).await;
    for (route, text) in [("#/", "Checked "), ("#/queues", "q1"), ("#/queues/q1", "Since it was created")] {
        console.go(route).await;
        console.shows(text).await;
        let before = console.read(SENT).await.as_u64().unwrap();
        // The time is what is measured: nothing tells that a request was not sent.
        sleep(Duration::from_secs(SECONDS)).await;
        let sent = console.read(SENT).await.as_u64().unwrap() - before;
        assert!(sent <= 2 * SECONDS + 2, "{route}: {sent}");
    }

    console.browser.hide().await;
    // A request that was under way may still arrive.
    sleep(Duration::from_secs(1)).await;
    let before = served(&sukkal).await;
    sleep(Duration::from_secs(SECONDS)).await;
    assert!((served(&sukkal).await - before).abs() < 0.5);
    console.browser.show().await;
    let before = console.read(SENT).await;
    console.browser.wait_for(&format!("{SENT} > arguments[0]"), json!([before])).await;
}

/// The messages of a live tail wait until the tab is visible, and so does its next connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_tail_in_a_hidden_tab_does_not_draw_and_does_not_reconnect() {
    let mut service = Service::start(Store::embedded(), &[]);
    let api = service.api();
    create(&api, "orders", &json!({})).await;
    let console = Console::open(&service.url("/console#/queues/orders/messages"), &[]).await;
    console.click("Live tail").await;
    console.shows("Connected.").await;

    console.browser.hide().await;
    post(&api, "orders", &[json!("while hidden")]).await;
    // The time is what is measured: nothing tells that a page was not drawn.
    sleep(Duration::from_secs(2)).await;
    let shown = "return document.querySelector('#view').textContent.includes(arguments[0])";
    assert_eq!(console.browser.run(shown, json!(["while hidden"])).await, false);
    console.browser.show().await;
    console.shows("while hidden").await;

    console.browser.hide().await;
    let count = "window.fetched = 0; const send = fetch; window.fetch = (...of) => { window.fetched += 1; return send(...of); }";
    console.read(count).await;
    service.stop();
    service.start_again();
    post(&api, "orders", &[json!("after the restart")]).await;
    // A visible tab connects again after 2 seconds.
    sleep(Duration::from_secs(5)).await;
    assert_eq!(console.read("return window.fetched").await, 0);
    console.browser.show().await;
    console.shows("after the restart").await;
    assert_eq!(console.read("return document.querySelectorAll('tbody tr').length").await, 2);
}

/// Returns the number of requests to the API that the service has answered.
async fn served(sukkal: &Sukkal) -> f64 {
    let metrics = Exposition::of(&sukkal.url("")).await;
    let is_api = |labels: &[(String, String)]| labels.iter().any(|(_, value)| value.starts_with("/v2"));
    let all = metrics.all("sukkal_http_requests_total");
    all.iter().filter(|(labels, _)| is_api(labels)).map(|(_, count)| count).sum()
}
