//! Bodies and names that try to run scripts or to break the pages.

use serde_json::{Value, json};

use super::{Console, PROJECT, post};
use crate::http::answered;
use support::sukkal::Sukkal;

const MARKUP: &str = "<script>window.ran = true</script><img src=x onerror='window.ran = true'><a href=\"javascript:window.ran=true\">x</a>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_bodies_run_nothing_and_break_nothing() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let long: Vec<Value> = (0..30_000).map(|number| json!(number)).collect();
    let bodies = [
        json!(MARKUP),
        json!({MARKUP: MARKUP, "__proto__": {"polluted": true}, "constructor": 1}),
        json!("javascript:window.ran=true"),
        json!("\u{202e}txt.exe\u{202d} \u{200f}right to left"),
        deep,
        json!(long),
        json!("x".repeat(250_000)),
        json!({"": null, " ": "", "\u{0}": "\u{0}\u{1f}"}),
    ];
    for body in &bodies {
        post(&api, "orders", std::slice::from_ref(body)).await;
    }
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages")).await;
    console.shows("<script>").await;
    let count = console.read("return document.querySelectorAll('td.body button').length").await;

    for index in 0..count.as_u64().unwrap() {
        console.browser.run("document.querySelectorAll('td.body button')[arguments[0]].click()", json!([index])).await;
        console.shows("Time to live").await;
        let unfold = "for (let round = 0; round < 120; round += 1) for (const one of document.querySelectorAll('dialog details:not([open])')) one.open = true;";
        console.browser.run(unfold, json!([])).await;
        console.click("Close").await;
    }
    console.go("#/queues/%3Cscript%3Ewindow.ran=true%3C%2Fscript%3E/messages").await;
    console.shows("<script>window.ran=true</script>").await;
    console.shows("failed.").await;
    console.go("#/queues?prefix=%3Cimg%20src=x%20onerror=window.ran=true%3E").await;
    console.shows("No name begins with").await;

    assert_eq!(count, json!(bodies.len()));
    assert_eq!(console.read("return [window.ran, ({}).polluted]").await, json!([null, null]));
    let violations: Vec<String> =
        console.browser.messages().await.into_iter().filter(|line| !line.contains("404")).collect();
    assert_eq!(violations, [""; 0]);
    // A violation would be among the messages.
    let violate = "const image = new Image(); image.src = 'http://127.0.0.1:9'; await image.decode().catch(() => {})";
    console.read(violate).await;
    let refused = console.browser.messages().await;
    assert!(refused.iter().any(|line| line.contains("Content Security Policy")), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_shown_exactly() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    let text = r#"{"messages": [{"body": {"id": 9223372036854775807, "half": 0.5, "list": [1, 2, {"a": [true, null, "x"]}], "text": "a\"b\\\n"}}]}"#;
    answered(api.request(reqwest::Method::POST, "/v2/queues/orders/messages").body(text), 201).await;
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages")).await;

    console
        .click(r#"{"id":9223372036854775807,"half":0.5,"list":[1,2,{"a":[true,null,"x"]}],"text":"a\"b\\\n"}"#)
        .await;

    console.shows("9223372036854775807").await;
    let copied = "const {parse, write} = await import('./console/json.js');
        return arguments[0].map(text => write(parse(text)).text)";
    let texts = json!([
        "1.10",
        "[1e400,-0,12345678901234567890.5]",
        "{\"a\":{\"b\":[1.0,{}]}}",
        "\"\\u0041\"",
        "[[],{},[1E2]]"
    ]);
    let shown = console.browser.run(copied, json!([texts])).await;
    assert_eq!(
        shown,
        json!(["1.10", "[1e400,-0,12345678901234567890.5]", "{\"a\":{\"b\":[1.0,{}]}}", "\"A\"", "[[],{},[1E2]]"])
    );
}
