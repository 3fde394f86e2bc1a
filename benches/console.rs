//! Measures the console in Chromium with 10,000 queues and with a queue of 1,000,000 messages: the
//! first paint, the longest task of the main thread in each interaction, and the requests of an
//! open tab.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::send;
use crate::report::Report;
use support::browser::Browser;
use support::sukkal::{Api, Sukkal};

const PER_POST: usize = 1_000;
const PROJECT: &str = "demo";

/// Notes the tasks of the main thread that take 50 ms or more. A browser does not report shorter
/// ones.
const OBSERVE: &str = "
    window.tasks = [];
    new PerformanceObserver(list => { for (const one of list.getEntries()) window.tasks.push(one.duration); })
        .observe({type: 'longtask', buffered: true});";
/// Milliseconds from the navigation to the first text on the screen.
const PAINT: &str = "
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    return paint ? Math.round(paint.startTime) : null";
const SIGN_IN: &str = "
    document.querySelector('[name=project]').value = arguments[0];
    document.querySelector('dialog form').requestSubmit()";
const LONGEST: &str = "const longest = Math.max(0, ...window.tasks); window.tasks = []; return Math.round(longest)";
const SENT: &str = "return performance.getEntriesByType('resource').filter(one => one.name.includes('/v2/')).length";
const TYPE: &str = "
    const input = document.getElementById('search');
    input.value = arguments[0];
    input.dispatchEvent(new Event('input', {bubbles: true}))";
const CLICK: &str = "
    const found = [...document.querySelectorAll('button')].find(one => one.textContent.trim() === arguments[0] && !one.disabled);
    found?.click();
    return found !== undefined";
const OPEN_FIRST: &str = "
    const found = document.querySelector('td.body button');
    found?.click();
    return found !== null";

pub(crate) async fn run(report: &mut Report) {
    let (queues, messages, settle_ms, alone_s) =
        if report.is_short { (100, 2_000, 100, 1) } else { (10_000, 1_000_000, 3_000, 30) };
    // The tasks of an interaction end in this time.
    let settle = Duration::from_millis(settle_ms);
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    fill(&api, queues, messages).await;
    let browser = Browser::start().await;
    // The first page also warms up the browser.
    for name in ["of a page with one word, in a new browser", "of a page with one word"] {
        browser.open("data:text/html,<p>Hello").await;
        writeln!(report, "First paint {name}: {} ms.", browser.wait_for(PAINT, json!([])).await).unwrap();
    }
    browser.open(&sukkal.url("/console")).await;
    browser.run(OBSERVE, json!([])).await;
    browser.wait_for("return document.querySelector('dialog form') !== null", json!([])).await;
    let paint = browser.wait_for(PAINT, json!([])).await;
    writeln!(
        report,
        "First paint of the console: {paint} ms.\n\n| interaction | longest task, ms (0: below 50) |\n|---|---|"
    )
    .unwrap();
    // Writes the longest task since the last call.
    let mut write_longest = async |interaction: &str| {
        sleep(settle).await;
        writeln!(report, "| {interaction} | {} |", browser.run(LONGEST, json!([])).await).unwrap();
    };
    write_longest("load the console").await;
    browser.run(SIGN_IN, json!([PROJECT])).await;
    write_longest("sign in, and look at the queues").await;
    for (name, route) in [
        ("list of 10,000 queues", "#/queues"),
        ("queue with 1,000,000 messages", "#/queues/big"),
        ("its newest messages", "#/queues/big/messages"),
    ] {
        browser.run("location.hash = arguments[0]", json!([route])).await;
        write_longest(name).await;
    }
    for (name, script, argument) in [
        ("next page", CLICK, "Next"),
        ("open a message of 250 KB", OPEN_FIRST, ""),
        ("close it", CLICK, "Close"),
        ("live tail", CLICK, "Live tail"),
    ] {
        browser.wait_for(script, json!([argument])).await;
        if name == "live tail" {
            for number in 0..20 {
                post(&api, "big", &vec![json!({ "number": number }); 100]).await;
            }
        }
        write_longest(name).await;
    }
    browser.run("location.hash = '#/queues'", json!([])).await;
    browser.wait_for("return document.getElementById('search') !== null", json!([])).await;
    for prefix in ["q", "q9", "q99", "q999"] {
        browser.run(TYPE, json!([prefix])).await;
    }
    write_longest("type the beginning of a name").await;

    writeln!(report, "\n| page | requests in a minute |\n|---|---|").unwrap();
    let pages = [
        ("Attention", "#/"),
        ("Queues", "#/queues"),
        ("a queue", "#/queues/big"),
        ("its claims", "#/queues/big/claims"),
    ];
    for (name, route) in &pages[..if report.is_short { 1 } else { pages.len() }] {
        browser
            .run("location.hash = arguments[0]; performance.setResourceTimingBufferSize(100000)", json!([route]))
            .await;
        sleep(settle).await;
        let before = browser.run(SENT, json!([])).await.as_u64().unwrap();
        sleep(Duration::from_secs(alone_s)).await;
        let sent = browser.run(SENT, json!([])).await.as_u64().unwrap() - before;
        writeln!(report, "| {name} | {} |", sent * 60 / alone_s).unwrap();
    }
}

/// Creates the queues. The newest page of the largest queue has large messages.
async fn fill(api: &Api, queues: usize, messages: usize) {
    let mut posts = JoinSet::new();
    for number in 0..queues {
        let api = api.clone();
        posts.spawn(async move { post(&api, &format!("q{number}"), &[json!({ "number": number })]).await });
        if posts.len() >= 64 {
            posts.join_next().await;
        }
    }
    posts.join_all().await;
    for first in (0..messages).step_by(PER_POST) {
        let bodies: Vec<Value> = (first..first + PER_POST).map(|number| json!({ "number": number })).collect();
        post(api, "big", &bodies).await;
    }
    let large: Vec<Value> = (0..20_000).map(|number| json!({ "n": number })).collect();
    for _ in 0..3 {
        post(api, "big", &[json!(large)]).await;
    }
}

async fn post(api: &Api, queue: &str, bodies: &[Value]) {
    let messages: Vec<Value> = bodies.iter().map(|body| json!({ "body": body })).collect();
    send(api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages })), 201).await;
}
