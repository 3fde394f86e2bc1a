//! The programs in `examples/` work as `examples/README.md` describes.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use support::browser::Browser;
use support::ports::free_port;
use support::redis::{child_command, spawn, start_listening};
use support::sukkal::Sukkal;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
const ORDERS: usize = 12;

/// Runs a program on `ORDERS` orders, and returns the lines that it prints.
fn run(interpreter: &str, program: &str, sukkal: &Sukkal) -> Vec<String> {
    let mut command = example(interpreter, program, sukkal);
    command.arg(ORDERS.to_string()).stderr(Stdio::piped());
    let output = spawn(command)
        .expect("the interpreter is installed")
        .wait_with_output()
        .expect("the process can be waited for");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn example(interpreter: &str, program: &str, sukkal: &Sukkal) -> Command {
    let mut command = child_command(interpreter);
    command.arg(format!("{FOLDER}/{program}")).env("SUKKAL_URL", sukkal.url("")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdout(Stdio::piped());
    command
}

fn orders(prefix: &str) -> Vec<String> {
    (1..=ORDERS).map(|number| format!("{prefix} order {number}")).collect()
}

async fn assert_examples_post_observe_and_work(interpreter: &'static str, folder: &str, ending: &str) {
    let sukkal = Sukkal::start("memory:");
    let program = |name: &str| format!("{folder}/{name}.{ending}");

    let posted = run(interpreter, &program("producer"), &sukkal);
    let seen = run(interpreter, &program("observer"), &sukkal);
    let done = run(interpreter, &program("worker"), &sukkal);

    assert_eq!(posted.len(), ORDERS);
    assert_eq!(seen, orders("saw"));
    assert_eq!(done, orders("doing"));
    let left: Value = sukkal.project("demo").get("/v2/queues/orders/stats").send().await.unwrap().json().await.unwrap();
    assert_eq!(left["messages"]["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_examples_post_observe_and_work() {
    assert_examples_post_observe_and_work("python3", "python", "py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_examples_post_observe_and_work() {
    assert_examples_post_observe_and_work("node", "javascript", "mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_example_shows_the_feed() {
    let sukkal = Sukkal::start("memory:");
    let port = free_port();
    let mut command = example("node", "browser/server.mjs", &sukkal);
    command.arg(port.to_string());
    let mut server = start_listening(command, port).expect("the example starts");
    let page = format!("http://127.0.0.1:{port}/");
    let browser = Browser::start().await;

    browser.open(&page).await;
    for number in 1..=3 {
        let order = json!({ "messages": [{ "body": { "order": number } }] });
        sukkal.project("demo").post("/v2/queues/orders/messages", &order).send().await.unwrap();
    }

    let script = "return [...document.querySelectorAll('#orders li')].map(item => item.textContent)";
    assert_eq!(browser.wait_for_items(script, 3).await, ["order 1", "order 2", "order 3"]);
    server.kill().expect("the server runs");
    server.wait().expect("the process can be waited for");
}
