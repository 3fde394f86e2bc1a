//! Chromium, controlled with the `DevTools` protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>).
//!
//! The tests of a process share one Chromium. Each `Browser` has a window of its own in it, and its
//! own cookies, storage, cache and permissions. Chromium removes all of them when the connection of
//! the `Browser` is closed.

use std::fmt::Display;
use std::fs::{self, File};
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{SinkExt, StreamExt};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::redis::{child_command, shared_instance, spawn};
use super::waiting::block_until;

/// Maximum time of each wait: for an answer of Chromium, or for something in a page.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two looks at a page.
const POLL_PAUSE: Duration = Duration::from_millis(20);
/// Milliseconds by which a look at a page that finds nothing moves the clock of the page.
const POLL_MOVE_MS: u64 = 200;
/// Pause between two timers of a page whose clock is moved, in which requests get their responses.
const TIMER_PAUSE: Duration = Duration::from_millis(5);

const ARGUMENTS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    // The address bars of all windows would load pages of their own.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
    "--remote-debugging-port=0",
    "about:blank",
];
/// The file of a profile with the port of the `DevTools`, and their path in the next line.
const PORT_FILE: &str = "DevToolsActivePort";
const LOG_FILE: &str = "chromium.log";

/// Keys for `Browser::press` whose characters are not printed.
pub const ENTER: &str = "\r";
pub const ESCAPE: &str = "\u{1b}";

/// Makes a clock that is the sum of the real one and of what `passTime` has added, and gives it to
/// timers and `performance.now`. `passTime` moves the clock by the given milliseconds, or only to
/// the next timer, which it runs. It returns the milliseconds that are left.
const MOVABLE_CLOCK: &str = "(() => {
    const { setTimeout: begin, clearTimeout: cancel } = window;
    const realNow = performance.now.bind(performance);
    const timers = new Map();
    let [moved, last] = [0, 0];
    const now = () => realNow() + moved;
    const arm = timer => {
        cancel(timer.real);
        timer.real = begin(() => run(timer), timer.at - now());
    };
    const remove = id => {
        cancel(timers.get(id)?.real);
        timers.delete(id);
    };
    const run = timer => {
        if (timer.isRepeated) {
            timer.at += timer.ms;
            arm(timer);
        } else {
            remove(timer.id);
        }
        timer.callback();
    };
    const adder = isRepeated => (callback, ms = 0, ...values) => {
        last += 1;
        const timer = { id: last, at: now() + ms, ms, isRepeated, callback: () => callback(...values) };
        timers.set(last, timer);
        arm(timer);
        return last;
    };
    performance.now = now;
    Object.assign(window, { setTimeout: adder(false), clearTimeout: remove });
    Object.assign(window, { setInterval: adder(true), clearInterval: remove });
    window.passTime = ms => {
        const [next] = [...timers.values()].sort((one, other) => one.at - other.at);
        const wait = next ? Math.max(0, next.at - now()) : Infinity;
        moved += Math.min(wait, ms);
        for (const timer of timers.values()) arm(timer);
        if (wait <= ms) run(next);
        return Math.max(0, ms - wait);
    };
})()";

/// The window of a `Browser`.
#[derive(Clone, Copy)]
pub struct Window {
    /// The width and the height in pixels, with the frame.
    pub size: (u32, u32),
    /// Whether its user prefers dark colors.
    pub is_dark: bool,
}

impl Default for Window {
    fn default() -> Self {
        Self { size: (1200, 900), is_dark: false }
    }
}

/// A window of Chromium with one page, and a session with the `DevTools` of that page.
pub struct Browser {
    connection: Mutex<Connection>,
    session: String,
    /// Ends with its last user, after the connection.
    _chromium: Arc<Chromium>,
}

impl Browser {
    pub async fn start() -> Self {
        Self::start_in(Window::default()).await
    }

    /// Opens a window like this one.
    pub async fn start_in(window: Window) -> Self {
        let chromium = Chromium::shared();
        let mut connection = limited("Chromium accepts a connection", Connection::open(&chromium.url)).await;
        let mut call = async |method, parameters| connection.call(method, &parameters, None).await.unwrap();
        let mut context = call("Target.createBrowserContext", json!({"disposeOnDetach": true})).await;
        let context = context["browserContextId"].take();
        // All windows have the same clipboard.
        let denied =
            json!({"browserContextId": context, "permission": {"name": "clipboard-write"}, "setting": "denied"});
        call("Browser.setPermission", denied).await;
        let (width, height) = window.size;
        let mut page = json!({"url": "about:blank", "newWindow": true, "width": width, "height": height});
        page["browserContextId"] = context;
        let target = call("Target.createTarget", page).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = call("Target.attachToTarget", attach).await;
        let session = text(&attached["sessionId"]).to_owned();

        let browser = Self { connection: Mutex::new(connection), session, _chromium: chromium };
        for domain in ["Log", "Page", "Runtime"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        if window.is_dark {
            let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
            browser.call("Emulation.setEmulatedMedia", dark).await;
        }
        browser
    }

    /// Gives a movable clock to the pages that are opened from now on: `pass` moves it, and each
    /// wait moves it a little. It also runs by itself. It has no effect on dates and on timeouts of
    /// requests.
    pub async fn use_movable_clock(&self) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": MOVABLE_CLOCK })).await;
    }

    /// Moves the clock of the page, and runs the timers that are due, one after the other.
    pub async fn pass(&self, time: Duration) {
        let mut left = json!(time.as_millis());
        let passed = async {
            while left != 0 {
                left = self.run("return passTime(arguments[0])", json!([left])).await;
                sleep(TIMER_PAUSE).await;
            }
        };
        limited(format!("{time:?} have passed in the page"), passed).await;
    }

    pub async fn open(&self, url: &str) {
        let opened = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
    }

    /// Opens an `EventSource` at this URL, whose page collects the bodies of the messages.
    pub async fn follow(&self, url: &str) {
        let script = "window.seen = []; window.source = new EventSource(arguments[0]);
            window.source.onmessage = event => window.seen.push(JSON.parse(event.data).body);";
        self.run(script, json!([url])).await;
    }

    /// Runs a script in the page, after the page has been loaded. Returns its result, after a
    /// promise has been fulfilled.
    pub async fn run(&self, script: &str, arguments: Value) -> Value {
        self.evaluate(script, &arguments).await.unwrap_or_else(|left| panic!("{script:.200} {arguments}: {left}"))
    }

    /// Waits until the page has received at least `count` messages, and returns the bodies of all
    /// of them.
    pub async fn wait_for_messages(&self, count: usize) -> Vec<Value> {
        self.wait_for_items("return window.seen", count).await
    }

    /// Waits until the script returns at least `count` items, and returns them.
    pub async fn wait_for_items(&self, script: &str, count: usize) -> Vec<Value> {
        let seen = async {
            loop {
                let seen = self.run(script, json!([])).await;
                let Value::Array(seen) = seen else { panic!("{seen}") };
                if seen.len() >= count {
                    return seen;
                }
                self.pause().await;
            }
        };
        limited(format!("{count} items of `{script}`"), seen).await
    }

    /// Waits until the script returns something else than null and false, and returns it. If the
    /// page is left meanwhile, the script runs in the next one.
    pub async fn wait_for(&self, script: &str, arguments: Value) -> Value {
        let found = async {
            loop {
                match self.evaluate(script, &arguments).await {
                    Err(_) | Ok(Value::Null | Value::Bool(false)) => self.pause().await,
                    Ok(value) => return value,
                }
            }
        };
        if let Ok(value) = timeout(TIMEOUT, found).await {
            return value;
        }
        panic!("not within {TIMEOUT:?}: {script} {arguments}: the page is {}", self.text().await)
    }

    /// Returns the text that the page shows.
    pub async fn text(&self) -> String {
        let shown = self.run("return document.body.innerText", json!([])).await;
        text(&shown).to_owned()
    }

    /// Presses the keys of these characters, one after the other.
    pub async fn press(&self, keys: &str) {
        for key in keys.chars().map(String::from) {
            let (name, code) = match &*key {
                ENTER => ("Enter", 13),
                ESCAPE => ("Escape", 27),
                character => (character, 0),
            };
            let typed = if key == ESCAPE { "" } else { &key };
            let down = json!({"type": "keyDown", "key": name, "windowsVirtualKeyCode": code, "text": typed});
            self.call("Input.dispatchKeyEvent", down).await;
            let up = json!({"type": "keyUp", "key": name, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", up).await;
        }
    }

    /// Minimizes the window, so that its page is hidden.
    pub async fn hide(&self) {
        self.set_window_state("minimized").await;
        self.wait_for("return document.hidden", json!([])).await;
    }

    /// Shows the window again.
    pub async fn show(&self) {
        self.set_window_state("normal").await;
        self.wait_for("return !document.hidden", json!([])).await;
    }

    async fn set_window_state(&self, state: &str) {
        let window = self.call("Browser.getWindowForTarget", json!({})).await;
        let change = json!({"windowId": window["windowId"], "bounds": {"windowState": state}});
        self.call("Browser.setWindowBounds", change).await;
    }

    /// Sets the time zone of pages, such as `Asia/Kolkata`.
    pub async fn set_time_zone(&self, zone: &str) {
        self.call("Emulation.setTimezoneOverride", json!({ "timezoneId": zone })).await;
    }

    /// Returns a picture of the page in PNG.
    pub async fn picture(&self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({})).await;
        STANDARD.decode(text(&picture["data"])).expect("a picture is in base64")
    }

    /// Returns the messages of the browser's console since the last call.
    pub async fn messages(&self) -> Vec<String> {
        // They arrive before the result of a later script.
        self.run("", json!([])).await;
        mem::take(&mut self.connection.lock().await.messages)
    }

    /// The error says that the page was left.
    async fn evaluate(&self, script: &str, arguments: &Value) -> Result<Value, String> {
        let expression = format!(
            "(async () => {{
                if (document.readyState !== 'complete') await new Promise(done => addEventListener('load', done));
                return (async function () {{ {script}
                }}).apply(null, {arguments});
            }})()"
        );
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let evaluated = self.try_call("Runtime.evaluate", &parameters);
        let mut evaluated = limited(format!("the result of `{script:.200}` {arguments}"), evaluated).await?;
        let thrown = &evaluated["exceptionDetails"];
        assert!(thrown.is_null(), "{script:.200} {arguments}: {thrown}");
        Ok(evaluated["result"]["value"].take())
    }

    /// Lets some time pass, in which the page may change.
    async fn pause(&self) {
        let _left = self.evaluate("window.passTime?.(arguments[0])", &json!([POLL_MOVE_MS])).await;
        sleep(POLL_PAUSE).await;
    }

    async fn call(&self, method: &str, parameters: Value) -> Value {
        let called = self.try_call(method, &parameters).await;
        called.unwrap_or_else(|error| panic!("{method} {parameters}: {error}"))
    }

    async fn try_call(&self, method: &str, parameters: &Value) -> Result<Value, String> {
        self.connection.lock().await.call(method, parameters, Some(&self.session)).await
    }
}

/// A connection to the `DevTools` of the whole Chromium.
struct Connection {
    stream: WebSocketStream<TcpStream>,
    /// The number of calls.
    called: u64,
    /// What pages have written to the console.
    messages: Vec<String>,
}

impl Connection {
    async fn open(url: &str) -> Self {
        let address = url.split('/').nth(2).expect("the URL has a host");
        let stream = TcpStream::connect(address).await.expect("Chromium runs");
        stream.set_nodelay(true).expect("an open connection has options");
        let (stream, _response) = client_async(url, stream).await.expect("Chromium speaks WebSocket");
        Self { stream, called: 0, messages: Vec::new() }
    }

    /// Calls a method of a session, or of Chromium itself. Returns its result, or its error.
    async fn call(&mut self, method: &str, parameters: &Value, session: Option<&str>) -> Result<Value, String> {
        self.called += 1;
        let mut command = json!({"id": self.called, "method": method, "params": parameters});
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        limited(format!("the answer to {method}"), self.exchange(&command)).await
    }

    async fn exchange(&mut self, command: &Value) -> Result<Value, String> {
        self.stream.send(Message::text(command.to_string())).await.expect("Chromium runs");
        loop {
            let received = self.stream.next().await.expect("Chromium runs").expect("Chromium runs");
            let Message::Text(received) = received else { continue };
            let mut received: Value = serde_json::from_str(&received).expect("Chromium speaks JSON");
            if received["id"] == command["id"] {
                let error = received["error"].take();
                return if error.is_null() { Ok(received["result"].take()) } else { Err(error.to_string()) };
            }
            self.note(&received);
        }
    }

    /// Notes what a page has written to the console, if the event says so.
    fn note(&mut self, event: &Value) {
        let of = &event["params"];
        let message = match event["method"].as_str() {
            Some("Log.entryAdded") => text(&of["entry"]["text"]).to_owned(),
            Some("Runtime.exceptionThrown") => {
                let thrown = &of["exceptionDetails"];
                format!("{}: {}", thrown["text"], thrown["exception"]["description"])
            }
            Some("Runtime.consoleAPICalled") => {
                let written = of["args"].as_array().expect("a list").iter();
                let written = written.map(|one| format!("{} {}", one["value"], one["description"]));
                written.collect::<Vec<_>>().join(" ")
            }
            _ => return,
        };
        self.messages.push(message);
    }
}

/// A process of Chromium, which is killed on drop with its children.
struct Chromium {
    process: Child,
    /// The URL of the `DevTools`.
    url: String,
    profile: TempDir,
}

impl Chromium {
    /// Returns the Chromium that all tests of this process share.
    fn shared() -> Arc<Self> {
        static SHARED: std::sync::Mutex<Weak<Chromium>> = std::sync::Mutex::new(Weak::new());

        shared_instance(&SHARED, Self::start)
    }

    fn start() -> Self {
        let profile = tempfile::tempdir().expect("a temporary directory can be made");
        let log = File::create(profile.path().join(LOG_FILE)).expect("the directory is writable");
        let mut command = child_command("chromium");
        command.arg(format!("--user-data-dir={}", profile.path().display())).args(ARGUMENTS);
        command.env("TMPDIR", profile.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = spawn(command).expect("chromium is installed: `make tools`");
        let mut chromium = Self { process, url: String::new(), profile };
        block_until("Chromium listens or ends", || {
            chromium.url = url_of(&chromium.read(PORT_FILE)).unwrap_or_default();
            !chromium.url.is_empty() || chromium.process.try_wait().expect("its state is known").is_some()
        });
        assert!(!chromium.url.is_empty(), "Chromium does not start: {}", chromium.read(LOG_FILE));
        chromium
    }

    /// Returns a file of the profile. It is empty if there is no such file.
    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.profile.path().join(file)).unwrap_or_default()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Its children would still write to the profile while that is removed.
        let _dead_already = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _reaped = self.process.wait();
    }
}

/// Returns the URL of the `DevTools`, if the file with their port is complete.
fn url_of(port_file: &str) -> Option<String> {
    let (port, path) = port_file.trim_end().split_once('\n')?;
    path.starts_with("/devtools/browser/").then(|| format!("ws://127.0.0.1:{port}{path}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Waits for something, and panics with `what` after `TIMEOUT`.
async fn limited<T>(what: impl Display, awaited: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, awaited).await.unwrap_or_else(|_late| panic!("not within {TIMEOUT:?}: {what}"))
}
