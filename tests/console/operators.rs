//! What operators do: find a poison message and redrive it, and steer queues, subscriptions, tokens and
//! quotas.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{Console, PROJECT, claim, create, poison, post, read};
use crate::support::ports::free_port;
use crate::support::redis::RedisServer;
use crate::support::sukkal::Sukkal;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_finds_reads_and_redrives_a_poison_message_over_redis() {
    let redis = RedisServer::start();

    find_read_and_redrive(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_finds_reads_and_redrives_a_poison_message_over_an_embedded_store() {
    let folder = tempfile::tempdir().unwrap();

    find_read_and_redrive(&format!("embedded:{}", folder.path().display())).await;
}

/// The service restarts while the console is open.
async fn find_read_and_redrive(store: &str) {
    let address: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let mut sukkal = Sukkal::start_at(store, address);
    let api = sukkal.project(PROJECT);
    poison(&api).await;

    let console = Console::open(&sukkal.url("/console"), &[]).await;
    console.click("1 dead letter of orders").await;
    console.shows("From orders").await;
    console.click(r#"{"order":4711,"poison":true}"#).await;
    console.shows("Dead letter of").await;
    console.shows("4711").await;
    console.click("Close").await;
    sukkal.terminate();
    assert!(sukkal.wait().success());
    console.shows("The service cannot be reached").await;
    let sukkal = Sukkal::start_at(store, address);
    console.click("Redrive all to their origins").await;
    console.shows("1 of those shown came from orders").await;
    console.click("Redrive").await;

    console.shows("done").await;
    console.shows("There are no messages here.").await;
    let api = sukkal.project(PROJECT);
    let orders = read(&api, "/v2/queues/orders/messages?echo=true").await;
    assert_eq!(orders["messages"][0]["body"], json!({"order": 4711, "poison": true}));
    assert_eq!(read(&api, "/v2/queues/failed/stats").await["messages"]["total"], 0);
    console.go("#/").await;
    console.shows("All is well.").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_posts_pauses_changes_purges_and_deletes_a_queue() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    let console = Console::open(&sukkal.url("/console#/queues"), &[]).await;

    console.click("post a sample from here").await;
    console.fill("Body", r#"{"exact": 9007199254740993, "decimal": 1.10}"#).await;
    console.shows("This is valid JSON.").await;
    console.fill("Body", "{").await;
    console.shows("This is not JSON").await;
    console.fill("Body", r#"{"exact": 9007199254740993, "decimal": 1.10}"#).await;
    console.click("Post").await;
    console.shows(r#"{"exact":9007199254740993"#).await;
    let stored = api.get("/v2/queues/hello/messages?echo=true").send().await.unwrap().text().await.unwrap();
    assert!(stored.contains("9007199254740993"), "{stored}");

    console.go("#/queues/hello").await;
    console.click("Pause").await;
    console.shows("Paused: claims and pops get no messages.").await;
    assert_eq!(claim(&api, "hello").await, None);
    console.click("Resume").await;
    console.browser.wait_for("return !document.body.innerText.includes('Paused:')", json!([])).await;
    let held = claim(&api, "hello").await.expect("the queue is resumed");
    console.go("#/queues/hello/claims").await;
    console.click("Release").await;
    console.click("Yes, do it").await;
    console.shows("No messages are claimed.").await;
    assert_eq!(api.get(&held).send().await.unwrap().status(), 404);

    console.go("#/queues/hello/settings").await;
    console.click("Add a key").await;
    console.fill("Key", "team").await;
    console.fill("Value", r#"{"name": "billing"}"#).await;
    console.click("Save").await;
    console.shows(r#"{"name":"billing"}"#).await;
    assert_eq!(read(&api, "/v2/queues/hello").await["team"], json!({"name": "billing"}));

    console.click("Purge").await;
    console.fill("Type hello to confirm", "hell").await;
    assert_eq!(
        console.read("return [...document.querySelectorAll('dialog button.danger')].at(-1).disabled").await,
        true
    );
    console.fill("Type hello to confirm", "hello").await;
    console.click("Yes, do it").await;
    console.shows("Purge: done.").await;
    assert_eq!(read(&api, "/v2/queues/hello/stats").await["messages"]["total"], 0);
    console.click("Delete").await;
    console.fill("Type hello to confirm", "hello").await;
    console.click("Yes, do it").await;
    console.shows("There are 0 queues.").await;
    assert_eq!(read(&api, "/v2/queues").await["queues"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_steers_subscriptions() {
    let options = [("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"), ("SUKKAL_PUSH__ALLOWED_PORTS", "1-65535")];
    let sukkal = Sukkal::start_with("memory:", &options);
    let api = sukkal.project(PROJECT);
    create(&api, "orders", &json!({})).await;
    let subscriber = format!("http://127.0.0.1:{}/nobody-listens", free_port());
    let console = Console::open(&sukkal.url("/console#/queues/orders/subscriptions"), &[]).await;

    console.click("Subscribe").await;
    console.fill("Subscriber", &subscriber).await;
    console.click("Subscribe").await;
    console.shows("whsec_").await;
    console.click("Close").await;
    console.shows("active").await;
    post(&api, "orders", &[json!(1)]).await;
    console.browser.wait_for("return document.querySelector('td time') !== null", json!([])).await;
    console.click(&subscriber).await;
    console.shows("Last attempts").await;
    console.shows("onnect").await;
    console.click("Pause").await;
    console.shows("paused").await;
    let listed = read(&api, "/v2/queues/orders/subscriptions").await;
    let id = listed["subscriptions"][0]["id"].as_str().unwrap();
    let shown = read(&api, &format!("/v2/queues/orders/subscriptions/{id}?with_delivery=true")).await;
    assert_eq!(shown["delivery"]["state"], "paused");
    console.click(&subscriber).await;
    console.click("Resume").await;
    console.shows("active").await;
    console.click(&subscriber).await;
    console.click("Delete").await;
    console.click("Yes, do it").await;
    console.shows("Nobody is subscribed.").await;
    assert_eq!(read(&api, "/v2/queues/orders/subscriptions").await["subscriptions"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_projects_and_sets_quotas() {
    let sukkal = Sukkal::start_with("memory:", &[("SUKKAL_ADMIN_MODE", "true")]);
    post(&sukkal.project("shop"), "orders", &[json!(1)]).await;
    let console = Console::of_operator(&sukkal).await;
    console.go("#/operators").await;

    console.click("Change").await;
    console.fill("Limits", r#"{"queues": 5}"#).await;
    console.click("Save").await;
    console.shows("Quotas of this project").await;
    console.shows("Save: done.").await;
    let quotas = sukkal.project(PROJECT).get("/v2/quotas").header("X-Roles", "admin").send().await.unwrap();
    assert_eq!(quotas.json::<Value>().await.unwrap()["quotas"], json!({"queues": 5}));
    console.click("Test all operations").await;
    console.shows("storage_reachable").await;
    console.click("shop").await;
    console.shows("orders").await;
    assert_eq!(console.read("return location.hash").await, "#/queues");
}
