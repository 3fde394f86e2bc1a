//! What needs attention: backlogs that grow, and stores that do not work.

use serde_json::json;

use super::{Console, PROJECT, create, post};
use crate::http::answered;
use support::redis::{RedisServer, limit_files, longest_file};
use support::sukkal::Sukkal;

const IS_WELL: &str = "const text = document.body.innerText;
    return text.includes('All is well.') && !text.includes('does not respond') && !text.includes('is full')";
/// More posts than the store has space for.
const POSTS_MAX: usize = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_grows_if_it_was_larger_in_each_of_three_rounds() {
    const GROWS: &str = "the backlog grows";
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    post(&api, "steady", &[json!(0)]).await;
    let topic = json!({"messages": [{"body": 0}]});
    let console = Console::open(&sukkal.url("/console#/queues")).await;

    for round in 1..=4 {
        // The console looks at the queues while it shows its first page.
        console.go("#/queues").await;
        console.text_of("#search").await;
        post(&api, "orders", &[json!(round)]).await;
        answered(api.post("/v2/topics/prices/messages", &topic), 201).await;
        console.go("#/").await;
        let rounds = "return (await import('./console/sample.js')).sample.rounds === arguments[0]";
        console.browser.wait_for(rounds, json!([round])).await;
        if round < 4 {
            console.hides(GROWS).await;
        }
    }
    console.shows(GROWS).await;
    let problems = "return [...document.querySelectorAll('[data-key=problems] tbody tr')].map(row => row.innerText)";
    let problems = console.read(problems).await;
    assert_eq!(problems.as_array().unwrap().len(), 1, "{problems}");
    assert!(problems[0].as_str().unwrap().starts_with("orders\tthe backlog grows\t4"), "{problems}");

    // It is not larger in the next round.
    console.hides(GROWS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_respond_needs_attention_until_it_does() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    create(&sukkal.project(PROJECT), "orders", &json!({})).await;
    let console = Console::open(&sukkal.url("/console")).await;
    console.shows("All is well.").await;

    redis.pause();
    console.shows("The store does not respond.").await;
    redis.resume();

    console.browser.wait_for(IS_WELL, json!([])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_needs_attention_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let sukkal = Sukkal::start(&format!("embedded:{}", folder.path().display()));
    let api = sukkal.project(PROJECT);
    create(&api, "orders", &json!({})).await;
    let console = Console::open(&sukkal.url("/console")).await;
    console.shows("All is well.").await;

    limit_files(sukkal.id(), Some(longest_file(folder.path())));
    let message = json!({"messages": [{"body": "x".repeat(200_000)}]});
    for count in 0.. {
        let posted = api.post("/v2/queues/orders/messages", &message).send().await.unwrap().status();
        if posted == 503 {
            break;
        }
        assert!(posted == 201 && count < POSTS_MAX, "{posted}");
    }
    console.shows("The disk of the store is full.").await;
    limit_files(sukkal.id(), None);

    console.browser.wait_for(IS_WELL, json!([])).await;
}
