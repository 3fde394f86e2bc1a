//! What pages show, and how they are used.

use std::path::Path;

use serde_json::json;

use super::{CLICK, Console, PROJECT, claim, create, poison, post, read};
use crate::support::redis::RedisServer;
use crate::support::sukkal::Sukkal;

const PICTURES_SHOWN: [(&str, &str); 4] =
    [("attention", "light"), ("queue", "light"), ("attention", "dark"), ("messages", "phone")];
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/console");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_at_messages_changes_nothing() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    poison(&api).await;
    post(&api, "orders", &[json!("first"), json!("second")]).await;
    claim(&api, "orders").await.unwrap();
    let path = "/v2/queues?with_stats=true&detailed=true";
    let before = read(&api, path).await;
    let console = Console::open(&sukkal.url("/console"), &[]).await;

    for (route, text) in [
        ("#/queues", "orders"),
        ("#/queues/orders", "Since it was created"),
        ("#/queues/orders/messages", "claimed"),
        ("#/queues/orders/claims", "Release"),
        ("#/queues/failed/dead-letters", "From orders"),
        ("#/queues/orders/settings", "_max_claim_count"),
    ] {
        console.go(route).await;
        console.shows(text).await;
    }

    let after = read(&api, path).await;
    for (one, other) in before["queues"].as_array().unwrap().iter().zip(after["queues"].as_array().unwrap()) {
        assert_eq!(one["stats"]["totals"], other["stats"]["totals"]);
        assert_eq!(one["stats"]["available"], other["stats"]["available"]);
        assert_eq!(one["metadata"], other["metadata"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_tail_shows_new_messages_and_can_be_paused_and_filtered() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    create(&api, "orders", &json!({})).await;
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages"), &[]).await;

    console.click("Live tail").await;
    console.shows("Connected.").await;
    // The stream begins when the service has answered, and each post is sent until one arrives.
    let seen = async {
        loop {
            post(&api, "orders", &[json!("seen at once")]).await;
            if console.browser.run("return document.body.innerText.includes('seen at once')", json!([])).await == true {
                break;
            }
        }
    };
    seen.await;
    console.click("Pause").await;
    post(&api, "orders", &[json!("while paused")]).await;
    console.shows("Go on (").await;
    let shown = console.browser.text().await;
    assert!(!shown.contains("while paused"), "{shown}");
    console
        .browser
        .wait_for(
            "return [...document.querySelectorAll('button')].some(one => /Go on [(][1-9]/.test(one.textContent))",
            json!([]),
        )
        .await;
    console.browser.wait_for("const go = [...document.querySelectorAll('button')].find(one => one.textContent.startsWith('Go on')); go?.click(); return Boolean(go)", json!([])).await;
    console.shows("while paused").await;
    console.fill("Filter", "WHILE").await;
    let hides =
        "return !document.body.innerText.includes('seen at once') && document.body.innerText.includes('while paused')";
    console.browser.wait_for(hides, json!([])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_search_move_open_and_help_and_the_address_restores_the_view() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    for name in ["alpha", "beta", "beta-2"] {
        post(&api, name, &[json!(name)]).await;
    }
    let console = Console::open(&sukkal.url("/console"), &[]).await;
    console.shows("Oldest waiting messages").await;

    console.browser.press("/").await;
    console.browser.wait_for("return document.activeElement.id === 'search'", json!([])).await;
    console.browser.press("bet").await;
    console
        .browser
        .wait_for(
            "return !document.body.innerText.includes('alpha') && document.querySelectorAll('tbody tr').length === 2",
            json!([]),
        )
        .await;
    assert_eq!(console.read("return location.hash").await, "#/queues?prefix=bet");
    console.read("document.activeElement.blur(); location.reload()").await;
    console.shows("beta-2").await;
    assert_eq!(console.read("return document.querySelectorAll('tbody tr').length").await, 2);
    console.browser.press("?").await;
    console.shows("Next and previous row").await;
    console.click("Close").await;
    console.browser.press("jj").await;
    assert_eq!(console.read("return document.activeElement.textContent").await, "beta-2");
    console.browser.press("\u{e007}").await;
    console.shows("Since it was created").await;
    assert_eq!(console.read("return location.hash").await, "#/queues/beta-2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_stays_visible_with_its_request_id_until_a_retry_succeeds() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    create(&api, "orders", &json!({})).await;
    let console = Console::open(&sukkal.url("/console#/queues/orders/settings"), &[]).await;

    console.click("Add a key").await;
    console.fill("Key", "_default_message_ttl").await;
    console.fill("Value", "1").await;
    console.click("Save").await;
    console.shows("Save failed.").await;
    let shown = console.read("return document.querySelector('.failure').textContent").await;
    assert!(shown.as_str().unwrap().contains("Request req-"), "{shown}");
    console.fill("Value", "60").await;
    let retry = "const one = [...document.querySelectorAll('.failure button')].find(one => one.textContent === 'Retry'); one?.click(); return Boolean(one)";
    console.browser.wait_for(retry, json!([])).await;

    console.shows("Save: done.").await;
    assert_eq!(console.read("return document.querySelectorAll('.failure').length").await, 0);
    assert_eq!(read(&api, "/v2/queues/orders").await["_default_message_ttl"], 60);
}

/// Also draws the pictures of docs/console.md, if `SUKKAL_PICTURES` is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_fit_on_a_phone_and_have_a_dark_form() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    poison(&api).await;
    for number in 0..12 {
        post(
            &api,
            "orders",
            &[json!({"order": number, "customer": {"name": "Ada", "since": 1843}, "paid": number % 3 == 0})],
        )
        .await;
    }
    post(&api, "mails", &[json!("Hello, world!")]).await;
    api.post("/v2/queues/mails/pause", &json!({})).send().await.unwrap();
    for (name, arguments, colors) in [
        ("light", ["--window-size=1100,760"].as_slice(), "rgb(246, 247, 249)"),
        ("dark", &["--window-size=1100,760", "--blink-settings=preferredColorScheme=0"], "rgb(18, 22, 29)"),
        ("phone", &["--window-size=500,900"], "rgb(246, 247, 249)"),
    ] {
        let console = Console::open(&sukkal.url("/console"), arguments).await;
        for (page, route, text) in [
            ("attention", "#/", "All 3 queues were looked at"),
            ("queue", "#/queues/orders", "Since it was created"),
            ("messages", "#/queues/orders/messages", "customer"),
        ] {
            console.go(route).await;
            console.shows(text).await;
            let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(console.read(overflow).await, 0, "{page} is wider than the window in {name}");
            if std::env::var_os("SUKKAL_PICTURES").is_some() && PICTURES_SHOWN.contains(&(page, name)) {
                std::fs::create_dir_all(PICTURES).unwrap();
                std::fs::write(Path::new(PICTURES).join(format!("{page}-{name}.png")), console.browser.picture().await)
                    .unwrap();
            }
        }
        assert_eq!(console.read("return getComputedStyle(document.body).backgroundColor").await, colors, "{name}");
        assert_eq!(console.browser.run(CLICK, json!(["No such button"])).await, false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_respond_needs_attention_until_it_does() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    create(&sukkal.project(PROJECT), "orders", &json!({})).await;
    let console = Console::open(&sukkal.url("/console"), &[]).await;
    console.shows("All is well.").await;

    redis.pause();
    console.shows("The store does not respond.").await;
    redis.resume();

    let is_well = "return !document.body.innerText.includes('does not respond') && document.body.innerText.includes('All is well.')";
    console.browser.wait_for(is_well, json!([])).await;
}
