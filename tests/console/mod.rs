//! The console in Chromium, against real services.

mod accessibility;
mod attention;
mod dead_letters;
mod failures;
mod hostile;
mod lists;
mod messages;
mod operators;
mod pages;
mod queues;
mod reference;
mod requests;
mod service;
mod session;
mod subscriptions;
mod topics;

use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{answered, post_as as post, total};
use support::browser::{Browser, Window};
use support::sukkal::{Api, Sukkal};

const PROJECT: &str = "demo";
const PHONE: Window = Window { size: (500, 900), is_dark: false };
/// The maximum number of messages in a post.
const POSTED_MAX: usize = 20;
/// Clicks what has this label: in the topmost dialog, if one is open.
const CLICK: &str = "
    const [label] = arguments;
    const root = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document;
    const found = [...root.querySelectorAll('button, a')].find(one => one.textContent.trim() === label && !one.disabled);
    found?.click();
    return Boolean(found);";
/// Types into the field with this label, as a reader does.
const FILL: &str = "
    const [label, text] = arguments;
    const root = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document;
    const field = [...root.querySelectorAll('label.field')].find(one => one.firstChild.textContent === label);
    const input = field?.querySelector('input, textarea, select') ?? root.querySelector(`[aria-label='${label}']`);
    if (!input) return false;
    input.value = text;
    for (const kind of ['input', 'change']) input.dispatchEvent(new Event(kind, {bubbles: true}));
    return true;";
const SHOWS: &str = "return document.body.innerText.includes(arguments[0])";

/// A browser that shows the console.
struct Console {
    browser: Browser,
}

impl Console {
    /// Opens the console at this address and signs in to the project.
    async fn open(url: &str) -> Self {
        Self::open_in(url, Window::default()).await
    }

    /// The same in a window like this one.
    async fn open_in(url: &str, window: Window) -> Self {
        let console = Self::signed_out(url, window).await;
        console.sign_in(&[]).await;
        console
    }

    /// Opens the console of a service without authentication, as an operator.
    async fn of_operator(sukkal: &Sukkal) -> Self {
        let console = Self::signed_out(&sukkal.url("/console"), Window::default()).await;
        console.sign_in(&[("Roles", "admin")]).await;
        console
    }

    /// Opens the console at this address and signs in to the project with a token.
    async fn with_token(url: &str, token: &str) -> Self {
        let console = Self::signed_out(url, Window::default()).await;
        console.sign_in(&[("Token", token)]).await;
        console
    }

    /// Opens the console at this address. Its timers use a clock that tests move: see
    /// `Browser::use_movable_clock`.
    async fn signed_out(url: &str, window: Window) -> Self {
        let browser = Browser::start_in(window).await;
        browser.use_movable_clock().await;
        browser.open(url).await;
        Self { browser }
    }

    /// Signs in to the project, with these further fields.
    async fn sign_in(&self, fields: &[(&str, &str)]) {
        self.fill("Project", PROJECT).await;
        for (label, text) in fields {
            self.fill(label, text).await;
        }
        self.click("Sign in").await;
    }

    async fn click(&self, label: &str) {
        self.browser.wait_for(CLICK, json!([label])).await;
    }

    async fn fill(&self, label: &str, text: &str) {
        self.browser.wait_for(FILL, json!([label, text])).await;
    }

    async fn shows(&self, text: &str) {
        self.browser.wait_for(SHOWS, json!([text])).await;
    }

    /// Waits until the page does not show this text any more.
    async fn hides(&self, text: &str) {
        self.browser.wait_for("return !document.body.innerText.includes(arguments[0])", json!([text])).await;
    }

    /// Clicks what has this label, and says that it is meant.
    async fn click_and_confirm(&self, label: &str) {
        self.click(label).await;
        self.click("Yes, do it").await;
    }

    /// Clicks what has this label, and types the name of the queue to confirm that it is meant.
    async fn click_and_type(&self, label: &str, queue: &str) {
        self.click(label).await;
        self.fill(&format!("Type {queue} to confirm"), queue).await;
        self.click("Yes, do it").await;
    }

    /// Saves a time to live that the service refuses, in the settings of a queue.
    async fn fail_to_save(&self) {
        self.click("Add a key").await;
        self.fill("Key", "_default_message_ttl").await;
        self.fill("Value", "1").await;
        self.click("Save").await;
        self.shows("Save failed.").await;
    }

    /// Waits until this element exists, and returns its text.
    async fn text_of(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.textContent ?? null";
        let text = self.browser.wait_for(script, json!([selector])).await;
        text.as_str().unwrap().to_owned()
    }

    /// Lets this time pass for the timers of the page.
    async fn pass(&self, time: Duration) {
        self.browser.pass(time).await;
    }

    /// Goes to another page of the console.
    async fn go(&self, route: &str) {
        self.browser.run("location.hash = arguments[0]", json!([route])).await;
    }

    /// Checks that the page is not wider than the window.
    async fn fits(&self) {
        let wider = "const {scrollWidth, clientWidth} = document.documentElement; return scrollWidth > clientWidth";
        assert_eq!(
            self.read(wider).await,
            false,
            "{} is wider than the window",
            self.read("return location.hash").await
        );
    }

    /// Loads the page again, and waits until the former one is gone.
    async fn reload(&self) {
        self.read("window.isFormer = true; location.reload()").await;
        self.browser.wait_for("return !window.isFormer", json!([])).await;
    }

    /// Returns the result of a script.
    async fn read(&self, script: &str) -> Value {
        self.browser.run(script, json!([])).await
    }
}

/// Starts a service with the queue `orders`, and opens this part of its page.
async fn open_orders(part: &str) -> (Sukkal, Api, Console) {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    create(&api, "orders", &json!({})).await;
    let console = Console::open(&sukkal.url(&format!("/console#/queues/orders/{part}"))).await;
    (sukkal, api, console)
}

/// Creates a queue with this metadata.
async fn create(api: &Api, queue: &str, metadata: &Value) {
    answered(api.put(&format!("/v2/queues/{queue}")).json(metadata), 201).await;
}

/// Claims messages and returns the path of the claim.
async fn claim(api: &Api, queue: &str) -> Option<String> {
    let path = format!("/v2/queues/{queue}/claims");
    let claimed = api.post(&path, &json!({"ttl": 300, "grace": 60})).send().await.unwrap();
    let location = claimed.headers().get("Location")?;
    Some(location.to_str().unwrap().to_owned())
}

async fn read(api: &Api, path: &str) -> Value {
    api.get(path).send().await.unwrap().json().await.unwrap()
}

/// Makes a dead letter in `failed`, whose origin is `orders`.
async fn poison(api: &Api) {
    poison_with(api, &[json!({"order": 4711, "poison": true})]).await;
}

/// Makes dead letters with these bodies in `failed`, whose origin is `orders`.
async fn poison_with(api: &Api, bodies: &[Value]) {
    create(api, "orders", &json!({"_dead_letter_queue": "failed", "_max_claim_count": 1})).await;
    poison_more(api, bodies).await;
}

/// Makes further dead letters with these bodies.
async fn poison_more(api: &Api, bodies: &[Value]) {
    for chunk in bodies.chunks(POSTED_MAX) {
        post(api, "orders", chunk).await;
    }
    while total(api, "orders").await > 0 {
        if let Some(claim_path) = claim(api, "orders").await {
            answered(api.delete(&claim_path), 204).await;
        }
    }
}
