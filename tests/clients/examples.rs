//! The programs in `examples/` work as `examples/README.md` describes.

use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use support::browser::Browser;
use support::exposition::Exposition;
use support::ports::free_port;
use support::redis::{child_command, spawn, start_listening};
use support::sukkal::Sukkal;
use support::waiting::until;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
const ORDERS: usize = 12;
const LANGUAGES: [(&str, &str, &str); 2] = [("python3", "python", "py"), ("node", "javascript", "mjs")];

/// Runs a program on `ORDERS` orders, and returns the lines that it prints.
fn run(interpreter: &str, program: &str, sukkal: &Sukkal) -> Vec<String> {
    let output = ended(start(interpreter, program, &sukkal.url("")));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Starts a program on `ORDERS` orders.
fn start(interpreter: &str, program: &str, url: &str) -> Child {
    let mut command = example(interpreter, program, url);
    command.arg(ORDERS.to_string()).stderr(Stdio::piped());
    spawn(command).expect("the interpreter is installed")
}

fn ended(program: Child) -> Output {
    program.wait_with_output().expect("the process can be waited for")
}

fn example(interpreter: &str, program: &str, url: &str) -> Command {
    let mut command = child_command(interpreter);
    command.arg(format!("{FOLDER}/{program}")).env("SUKKAL_URL", url).env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdout(Stdio::piped());
    command
}

/// Starts the server of the page, and opens the page.
async fn open_page(browser: &Browser, url: &str) -> Child {
    let port = free_port();
    let mut command = example("node", "browser/server.mjs", url);
    command.arg(port.to_string());
    let server = start_listening(command, port).expect("the example starts");
    browser.open(&format!("http://127.0.0.1:{port}/")).await;
    server
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

#[test]
fn the_examples_say_that_the_service_is_away() {
    let url = format!("http://127.0.0.1:{}", free_port());
    for (interpreter, folder, ending) in LANGUAGES {
        for name in ["producer", "observer", "worker"] {
            let program = format!("{folder}/{name}.{ending}");

            let output = ended(start(interpreter, &program, &url));

            let said = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success(), "{program}");
            assert!(said.starts_with(&format!("Sukkal does not answer at {url}: ")), "{program}: {said}");
            assert_eq!(said.lines().count(), 1, "{program}: {said}");
        }
    }
}

/// A wait ends without an order when the service stops, as it does after 20 seconds.
#[tokio::test(flavor = "multi_thread")]
async fn the_examples_end_when_no_order_comes() {
    let sukkal = Sukkal::start("memory:");
    let programs = LANGUAGES.map(|(interpreter, folder, ending)| {
        ["observer", "worker"].map(|name| start(interpreter, &format!("{folder}/{name}.{ending}"), &sukkal.url("")))
    });
    let waiting = async || Exposition::of(&sukkal.url("")).await.value("sukkal_waiting_requests");
    until("all programs wait", async || waiting().await == Some(4.0)).await;

    sukkal.terminate();

    for program in programs.into_iter().flatten() {
        let output = ended(program);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            format!("there are no more orders: {ORDERS} are missing\n")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_example_says_that_the_service_is_away() {
    let browser = Browser::start().await;
    let mut server = open_page(&browser, &format!("http://127.0.0.1:{}", free_port())).await;

    let script = "return [document.getElementById('state').textContent].filter(text => text)";
    assert_eq!(browser.wait_for_items(script, 1).await, ["Sukkal does not answer. Trying again."]);
    server.kill().expect("the server runs");
    server.wait().expect("the process can be waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_example_shows_the_feed() {
    let sukkal = Sukkal::start("memory:");
    let browser = Browser::start().await;
    let mut server = open_page(&browser, &sukkal.url("")).await;

    for number in 1..=3 {
        let order = json!({ "messages": [{ "body": { "order": number } }] });
        sukkal.project("demo").post("/v2/queues/orders/messages", &order).send().await.unwrap();
    }

    let script = "return [...document.querySelectorAll('#orders li')].map(item => item.textContent)";
    assert_eq!(browser.wait_for_items(script, 3).await, ["order 1", "order 2", "order 3"]);
    server.kill().expect("the server runs");
    server.wait().expect("the process can be waited for");
}
