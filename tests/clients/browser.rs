//! A real `EventSource` in Chromium, which follows a queue through restarts of the server and of
//! Redis.

use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::support::ports::free_port;
use crate::support::redis::{RedisServer, child_command, spawn};
use crate::support::sukkal::{Api, CLIENT, Sukkal};

const PROJECT: &str = "browser";
const MESSAGES: &str = "/v2/queues/q/messages";
/// Number of messages that the browser receives before each restart.
const PART: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(60);
const KEEPS_DATA: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_source_receives_every_message_once_and_in_order() {
    let redis = RedisServer::start_with(&KEEPS_DATA);
    let address: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let mut sukkal = Sukkal::start_at(&redis.url(), address);
    let api = sukkal.project(PROJECT);
    let browser = Browser::start().await;
    // Any document of the server is enough to give the stream the same origin.
    browser.open(&sukkal.url("/v2")).await;
    browser.follow(&format!("{MESSAGES}?echo=true&project_id={PROJECT}&client_id={CLIENT}")).await;
    let posting = tokio::spawn(post_all(api, 4 * PART));

    browser.wait_for_messages(PART).await;
    sukkal.terminate();
    assert!(sukkal.wait().success());
    let mut sukkal = Sukkal::start_at(&redis.url(), address);
    browser.wait_for_messages(2 * PART).await;
    redis.kill();
    redis.restart();
    browser.wait_for_messages(3 * PART).await;
    sukkal.kill();
    let _sukkal = Sukkal::start_at(&redis.url(), address);
    posting.await.unwrap();

    let seen = browser.wait_for_messages(4 * PART).await;
    assert_eq!(seen, (0..4 * PART).map(Value::from).collect::<Vec<_>>());
}

/// Posts the numbers one by one. Each post is repeated until it is stored, which happens once.
async fn post_all(api: Api, count: usize) {
    for number in 0..count {
        let message = json!({ "messages": [{ "body": number }] });
        let posted = || api.post(MESSAGES, &message).header("Idempotency-Key", number.to_string()).send();
        while !posted().await.is_ok_and(|answer| answer.status() == 201) {
            sleep(Duration::from_millis(20)).await;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Chromium without a window, driven by `WebDriver` (<https://www.w3.org/TR/webdriver2/>).
pub(super) struct Browser {
    driver: Child,
    http: reqwest::Client,
    session: String,
}

impl Browser {
    pub(super) async fn start() -> Self {
        let port = free_port();
        let mut command = child_command("chromedriver");
        command.arg(format!("--port={port}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = spawn(command).expect("chromedriver is installed: `make chromium`");
        let http = reqwest::Client::new();
        let arguments =
            ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"];
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": arguments } } } });
        let sessions = format!("http://127.0.0.1:{port}/session");
        let start = async {
            loop {
                if let Ok(answer) = http.post(&sessions).json(&wanted).send().await {
                    let answer: Value = answer.json().await.expect("WebDriver speaks JSON");
                    break answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let id = timeout(TIMEOUT, start).await.expect("the browser starts");
        Self { driver, session: format!("{sessions}/{id}"), http }
    }

    pub(super) async fn open(&self, url: &str) {
        self.call("url", &json!({ "url": url })).await;
    }

    /// Opens an `EventSource` at this URL, whose page collects the bodies of the messages.
    pub(super) async fn follow(&self, url: &str) {
        let script = "window.seen = []; window.source = new EventSource(arguments[0]);
            window.source.onmessage = event => window.seen.push(JSON.parse(event.data).body);";
        self.run(script, json!([url])).await;
    }

    /// Runs a script in the page and returns its result, after a promise has been fulfilled.
    pub(super) async fn run(&self, script: &str, arguments: Value) -> Value {
        self.call("execute/sync", &json!({ "script": script, "args": arguments })).await
    }

    /// Waits until the page has received at least `count` messages, and returns the bodies of all
    /// of them.
    pub(super) async fn wait_for_messages(&self, count: usize) -> Vec<Value> {
        self.wait_for_items("return window.seen", count).await
    }

    /// Waits until the script returns at least `count` items, and returns them.
    pub(super) async fn wait_for_items(&self, script: &str, count: usize) -> Vec<Value> {
        let seen = async {
            loop {
                let seen = self.run(script, json!([])).await;
                let Value::Array(seen) = seen else { panic!("{seen}") };
                if seen.len() >= count {
                    return seen;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(TIMEOUT, seen).await.expect("the browser receives the messages")
    }

    async fn call(&self, what: &str, with: &Value) -> Value {
        let answer = self.http.post(format!("{}/{what}", self.session)).json(with).send().await;
        let mut answer: Value = answer.expect("WebDriver answers").json().await.expect("in JSON");
        assert!(answer["value"]["error"].is_null(), "{answer}");
        answer["value"].take()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _dead_already = self.driver.kill();
        let _reaped = self.driver.wait();
    }
}
