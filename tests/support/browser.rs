//! Chromium, driven by `WebDriver`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::ports::free_port;
use super::redis::{child_command, spawn};

const TIMEOUT: Duration = Duration::from_secs(60);
const END_TIMEOUT: Duration = Duration::from_secs(10);
const ARGUMENTS: [&str; 5] =
    ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"];

/// Chromium without a window, driven by `WebDriver` (<https://www.w3.org/TR/webdriver2/>).
pub(crate) struct Browser {
    driver: Child,
    http: reqwest::Client,
    session: String,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts with these arguments, too.
    pub(crate) async fn start_with(further: &[&str]) -> Self {
        let port = free_port();
        let mut command = child_command("chromedriver");
        command.arg(format!("--port={port}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = spawn(command).expect("chromedriver is installed: `make chromium`");
        let http = reqwest::Client::new();
        let arguments = [&ARGUMENTS[..], further].concat();
        let options = json!({ "goog:chromeOptions": { "args": arguments }, "goog:loggingPrefs": { "browser": "ALL" } });
        let wanted = json!({ "capabilities": { "alwaysMatch": options } });
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

    pub(crate) async fn open(&self, url: &str) {
        self.call("url", &json!({ "url": url })).await;
    }

    /// Opens an `EventSource` at this URL, whose page collects the bodies of the messages.
    pub(crate) async fn follow(&self, url: &str) {
        let script = "window.seen = []; window.source = new EventSource(arguments[0]);
            window.source.onmessage = event => window.seen.push(JSON.parse(event.data).body);";
        self.run(script, json!([url])).await;
    }

    /// Runs a script in the page and returns its result, after a promise has been fulfilled.
    pub(crate) async fn run(&self, script: &str, arguments: Value) -> Value {
        self.call("execute/sync", &json!({ "script": script, "args": arguments })).await
    }

    /// Waits until the page has received at least `count` messages, and returns the bodies of all
    /// of them.
    pub(crate) async fn wait_for_messages(&self, count: usize) -> Vec<Value> {
        self.wait_for_items("return window.seen", count).await
    }

    /// Waits until the script returns at least `count` items, and returns them.
    pub(crate) async fn wait_for_items(&self, script: &str, count: usize) -> Vec<Value> {
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

    /// Waits until the script returns something else than null and false, and returns it.
    pub(crate) async fn wait_for(&self, script: &str, arguments: Value) -> Value {
        let found = async {
            loop {
                let value = self.run(script, arguments.clone()).await;
                if !matches!(value, Value::Null | Value::Bool(false)) {
                    return value;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        if let Ok(value) = timeout(TIMEOUT, found).await {
            return value;
        }
        panic!("{script} {arguments}: the page is {}", self.text().await)
    }

    /// Returns the text that the page shows.
    pub(crate) async fn text(&self) -> String {
        let text = self.run("return document.body.innerText", json!([])).await;
        text.as_str().expect("a text").to_owned()
    }

    /// Presses keys, one after the other.
    pub(crate) async fn press(&self, keys: &str) {
        let press = |key: char| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        self.call("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})).await;
    }

    /// Minimizes the window, so that its page is hidden.
    pub(crate) async fn hide(&self) {
        self.call("window/minimize", &json!({})).await;
        self.wait_for("return document.hidden", json!([])).await;
    }

    /// Shows the window again.
    pub(crate) async fn show(&self) {
        self.call("window/rect", &json!({"width": 1000, "height": 800})).await;
        self.wait_for("return !document.hidden", json!([])).await;
    }

    /// Sets the time zone of pages, such as `Asia/Kolkata`.
    pub(crate) async fn set_time_zone(&self, zone: &str) {
        let command = json!({"cmd": "Emulation.setTimezoneOverride", "params": {"timezoneId": zone}});
        self.call("goog/cdp/execute", &command).await;
    }

    /// Returns a picture of the window in PNG.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        let answer = self.http.get(format!("{}/screenshot", self.session)).send().await;
        let answer: Value = answer.expect("WebDriver answers").json().await.expect("in JSON");
        STANDARD.decode(answer["value"].as_str().expect("a picture")).expect("in base64")
    }

    /// Returns the messages of the browser's console since the last call, one in each line.
    pub(crate) async fn messages(&self) -> Vec<String> {
        let logged = self.call("se/log", &json!({"type": "browser"})).await;
        let lines = logged.as_array().expect("a list").iter();
        lines.map(|line| line["message"].as_str().expect("a text").to_owned()).collect()
    }

    async fn call(&self, what: &str, with: &Value) -> Value {
        let answer = self.http.post(format!("{}/{what}", self.session)).json(with).send().await;
        let mut answer: Value = answer.expect("WebDriver answers").json().await.expect("in JSON");
        assert!(answer["value"]["error"].is_null(), "{answer}");
        answer["value"].take()
    }
}

impl Browser {
    /// Ends the browser, which a killed driver would leave running.
    fn end(&self) -> io::Result<()> {
        let (address, path) = self.session["http://".len()..].split_once('/').expect("the URL has a path");
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(END_TIMEOUT))?;
        write!(stream, "DELETE /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        stream.read(&mut [0; 1024]).map(|_answer| ())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _driver_is_gone = self.end();
        let _dead_already = self.driver.kill();
        let _reaped = self.driver.wait();
    }
}
