//! How many requests the console sends.

use std::fs;
use std::process::Child;

use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Duration, sleep};

use super::{Console, PROJECT, post};
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
    for (route, text) in [("#/", "were looked at"), ("#/queues", "q1"), ("#/queues/q1", "Since it was created")] {
        console.go(route).await;
        console.shows(text).await;
        let before = console.read(SENT).await.as_u64().unwrap();
        // The time is what is measured: nothing tells that a request was not sent.
        sleep(Duration::from_secs(SECONDS)).await;
        let sent = console.read(SENT).await.as_u64().unwrap() - before;
        assert!(sent <= 2 * SECONDS + 2, "{route}: {sent}");
    }

    let hide = "Object.defineProperty(document, 'hidden', {value: true, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'))";
    console.browser.run(hide, json!([])).await;
    // A request that was under way may still arrive.
    sleep(Duration::from_secs(1)).await;
    let before = served(&sukkal).await;
    sleep(Duration::from_secs(SECONDS)).await;
    assert!((served(&sukkal).await - before).abs() < 0.5);
    let show = "Object.defineProperty(document, 'hidden', {value: false}); document.dispatchEvent(new Event('visibilitychange'))";
    console.browser.run(show, json!([])).await;
    let before = console.read(SENT).await;
    console.browser.wait_for(&format!("{SENT} > arguments[0]"), json!([before])).await;
}

/// Returns the number of requests to the API that the service has answered.
async fn served(sukkal: &Sukkal) -> f64 {
    let metrics = Exposition::of(&sukkal.url("")).await;
    let is_api = |labels: &[(String, String)]| labels.iter().any(|(_, value)| value.starts_with("/v2"));
    let all = metrics.all("sukkal_http_requests_total");
    all.iter().filter(|(labels, _)| is_api(labels)).map(|(_, count)| count).sum()
}
