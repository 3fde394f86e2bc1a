//! axe-core looks for obstacles to people who use the keyboard, a screen reader or large contrast.

use std::fs;

use serde_json::{Value, json};

use super::{Console, PHONE, PROJECT, claim, poison, post};
use support::browser::Window;
use support::node;
use support::sukkal::Sukkal;

/// Returns the serious violations of the rules, with the elements that violate them.
const FIND: &str = "
    const found = await axe.run(arguments[0] ?? document, {resultTypes: ['violations']});
    return found.violations.filter(one => ['serious', 'critical'].includes(one.impact))
        .map(one => `${one.id}: ${one.help}: ${one.nodes.map(node => node.html + ' ' + (node.any[0]?.message ?? '')).join(' ')}`);";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_has_a_serious_obstacle() {
    let axe = fs::read_to_string(node::packages().join("node_modules/axe-core/axe.min.js")).unwrap();
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    poison(&api).await;
    post(&api, "orders", &[json!({"order": 1}), json!("two")]).await;
    claim(&api, "orders").await.unwrap();
    for window in [Window { size: (1100, 900), is_dark: false }, Window { is_dark: true, ..PHONE }] {
        let console = Console::open_in(&sukkal.url("/console"), window).await;
        console.browser.run(&axe, json!([])).await;
        for (route, text, opens) in [
            ("#/", "1 dead letter of orders", "demo"),
            ("#/queues", "orders", "Keys"),
            ("#/topics", "The first message creates the topic", ""),
            ("#/queues/orders", "Since it was created", ""),
            ("#/queues/orders/messages", "claimed", "Post a message"),
            ("#/queues/orders/messages", "claimed", "\"two\""),
            ("#/queues/orders/claims", "Release", ""),
            ("#/queues/failed/dead-letters", "From orders", "Redrive all…"),
            ("#/queues/orders/subscriptions", "There are no subscriptions.", "Subscribe"),
            ("#/queues/orders/settings", "_max_claim_count", "Purge"),
            ("#/dead-letters", "failed", ""),
            ("#/operators", "Usage of this project", ""),
        ] {
            console.go("#/nowhere").await;
            console.shows("Not found").await;
            console.go(route).await;
            console.shows(text).await;
            if !opens.is_empty() {
                console.click(opens).await;
            }
            let found = console.browser.run(FIND, json!([])).await;
            assert_eq!(found, Value::Array(Vec::new()), "{route} {opens}");
            if !opens.is_empty() {
                console.click("Close").await;
            }
        }
    }
    let console = Console::open(&sukkal.url("/console")).await;
    console.browser.open(&sukkal.url("/docs")).await;
    console.browser.run(&axe, json!([])).await;
    // All of it takes minutes, and its parts are alike.
    let parts = json!(["header", ".contents", "#tag-tasks", "#schema-Task"]);
    assert_eq!(console.browser.run(FIND, json!([parts])).await, Value::Array(Vec::new()), "/docs");
}
