//! The console in Chromium, against real services.

mod accessibility;
mod hostile;
mod operators;
mod pages;
mod requests;
mod session;

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::sukkal::{Api, Sukkal};

const PROJECT: &str = "demo";
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
    async fn open(url: &str, arguments: &[&str]) -> Self {
        let browser = Browser::start_with(arguments).await;
        browser.open(url).await;
        let console = Self { browser };
        console.fill("Project", PROJECT).await;
        console.click("Sign in").await;
        console
    }

    /// Opens the console of a service without authentication, as an operator.
    async fn of_operator(sukkal: &Sukkal) -> Self {
        let browser = Browser::start().await;
        browser.open(&sukkal.url("/console")).await;
        let console = Self { browser };
        console.fill("Project", PROJECT).await;
        console.fill("Roles", "admin").await;
        console.click("Sign in").await;
        console
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

    /// Goes to another page of the console.
    async fn go(&self, route: &str) {
        self.browser.run("location.hash = arguments[0]", json!([route])).await;
    }

    /// Returns the result of a script.
    async fn read(&self, script: &str) -> Value {
        self.browser.run(script, json!([])).await
    }
}

/// Posts messages with these bodies.
async fn post(api: &Api, queue: &str, bodies: &[Value]) {
    let messages: Vec<Value> = bodies.iter().map(|body| json!({ "body": body })).collect();
    let posted = api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages })).send().await;
    assert_eq!(posted.unwrap().status(), 201);
}

/// Creates a queue with this metadata.
async fn create(api: &Api, queue: &str, metadata: &Value) {
    let created = api.put(&format!("/v2/queues/{queue}")).json(metadata).send().await.unwrap();
    assert_eq!(created.status(), 201);
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
    create(api, "orders", &json!({"_dead_letter_queue": "failed", "_max_claim_count": 1})).await;
    post(api, "orders", &[json!({"order": 4711, "poison": true})]).await;
    let claim_path = claim(api, "orders").await.expect("there is a message");
    assert_eq!(api.delete(&claim_path).send().await.unwrap().status(), 204);
    assert_eq!(claim(api, "orders").await, None);
}
