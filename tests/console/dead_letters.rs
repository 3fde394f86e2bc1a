//! Dead letters: an operator finds a poison message, and redrives all, some or one of them.

use serde_json::{Value, json};

use super::service::{Service, Store, over_both_stores};
use super::{Console, PROJECT, claim, create, poison, poison_more, poison_with, post, read, total};
use crate::http::answered;
use crate::pools::until;
use support::sukkal::{Api, Sukkal};

over_both_stores! {
    an_operator_finds_reads_and_redrives_a_poison_message,
    selected_letters_go_where_they_are_sent_and_a_slow_redrive_is_stopped,
}

/// The service restarts while the console is open.
async fn an_operator_finds_reads_and_redrives_a_poison_message(store: Store) {
    let mut service = Service::start(store, &[]);
    let api = service.api();
    poison(&api).await;

    let console = Console::open(&service.url("/console")).await;
    console.shows("Checked 2 queues.").await;
    console.click("1 dead letter of orders").await;
    console.shows("From orders").await;
    console.click(r#"{"order":4711,"poison":true}"#).await;
    console.shows("Dead letter of").await;
    console.shows("4711").await;
    console.click("Close").await;
    service.restart(&console).await;
    console.click("Redrive all…").await;
    console.shows("Move to orders: 1").await;
    console.click("Redrive").await;

    console.shows("done").await;
    console.shows("There are no dead letters in this queue.").await;
    wait_for_total(&api, "orders", 1).await;
    let orders = read(&api, "/v2/queues/orders/messages?echo=true").await;
    assert_eq!(orders["messages"][0]["body"], json!({"order": 4711, "poison": true}));
    assert_eq!(total(&api, "failed").await, 0);
    console.go("#/").await;
    console.shows("All is well.").await;
}

async fn selected_letters_go_where_they_are_sent_and_a_slow_redrive_is_stopped(store: Store) {
    // At one in a second, they do not all move before the redrive is stopped.
    const LETTERS: u64 = 60;
    let mut service = Service::start(store, &[]);
    let api = service.api();
    let letters: Vec<Value> = (0..LETTERS).map(|number| json!({ "letter": number })).collect();
    poison_with(&api, &letters).await;
    create(&api, "rescue", &json!({})).await;
    let console = Console::open(&service.url("/console#/dead-letters")).await;

    console.click("failed").await;
    console.shows("From orders 60 messages").await;
    for body in [r#"{"letter":3}"#, r#"{"letter":5}"#] {
        let select = "const row = [...document.querySelectorAll('tbody tr')].find(row => row.textContent.includes(arguments[0])); row.querySelector('input').click()";
        console.browser.run(select, json!([body])).await;
    }
    console.click("Redrive the selected (2)").await;
    console.fill("To", "rescue").await;
    console.click("Redrive").await;
    console.shows("From orders 58 messages").await;
    wait_for_total(&api, "rescue", 2).await;
    let rescued = read(&api, "/v2/queues/rescue/messages?echo=true").await;
    let bodies: Vec<&Value> = rescued["messages"].as_array().unwrap().iter().map(|one| &one["body"]).collect();
    assert_eq!(bodies, [&letters[3], &letters[5]]);

    console.click("Redrive all…").await;
    console.fill("Messages per second", "1").await;
    console.click("Redrive").await;
    console.shows("running").await;
    console.hides("From orders 58 messages").await;
    service.restart(&console).await;
    console.shows("running").await;
    console.click_and_confirm("Stop").await;
    console.shows("stopped").await;
    let tasks = read(&api, "/v2/queues/failed/tasks").await;
    assert_eq!(tasks["tasks"][0]["state"], "stopped");
    let moved = tasks["tasks"][0]["moved"].as_u64().unwrap();
    assert!((1..LETTERS / 2).contains(&moved), "{moved}");
    console.browser.wait_for("return document.querySelector('progress').value === arguments[0]", json!([moved])).await;
    wait_for_total(&api, "orders", moved).await;
    assert_eq!(total(&api, "failed").await, LETTERS - 2 - moved);

    console.click(r#"{"letter":59}"#).await;
    console.click("Redrive…").await;
    console.shows("Move to orders: 1").await;
    console.click("Redrive").await;
    console.hides(r#"{"letter":59}"#).await;
    wait_for_total(&api, "orders", moved + 1).await;
    console.go("#/dead-letters").await;
    console.shows(&format!("failed\t{}\torders", LETTERS - 3 - moved)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_says_first_what_moves_and_what_stays() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    poison_with(&api, &[json!(1), json!(2), json!(3)]).await;
    claim_one(&api).await;
    let delayed = claim_one(&api).await;
    answered(api.delete(&format!("{delayed}?delay=600")), 204).await;
    let console = Console::open(&sukkal.url("/console#/queues/orders/dead-letters")).await;
    console.shows("The dead letters of this queue are in failed.").await;
    console.click("failed").await;
    console.shows("From orders 3 messages").await;

    console.click("Redrive all…").await;
    console.shows("Stay, because they are claimed: 1").await;
    console.shows("Stay, because they are delayed: 1").await;
    console.shows("Move to orders: 1").await;
    console.fill("To", "nowhere").await;
    console.shows("The queue nowhere does not exist.").await;
    console.fill("To", "failed").await;
    console.shows("Choose another queue than this one.").await;
    console.click("Close").await;

    answered(api.delete("/v2/queues/orders"), 204).await;
    console.click("Redrive all…").await;
    console.shows("Stay, because orders does not exist any more: 1").await;
    console.click("Redrive").await;
    console.shows("Redrive: started.").await;
    assert_eq!(total(&api, "failed").await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_any_queue_can_be_redriven() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    // The console uses this word for a part of the page.
    create(&api, "actions", &json!({"_dead_letter_queue": "failed", "_max_claim_count": 1})).await;
    post(&api, "actions", &[json!("one")]).await;
    let claimed = claim(&api, "actions").await.unwrap();
    answered(api.delete(&claimed), 204).await;
    assert_eq!(claim(&api, "actions").await, None);
    let console = Console::open(&sukkal.url("/console#/queues/failed/dead-letters")).await;

    console.shows("From actions 1 message").await;
    has_read_again(&console).await;
    console.click("Redrive all…").await;
    console.click("Redrive").await;

    console.shows("There are no dead letters in this queue.").await;
    assert_eq!(total(&api, "actions").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_takes_the_place_of_another_one_is_shown() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    poison_with(&api, &[json!("the first")]).await;
    let console = Console::open(&sukkal.url("/console#/queues/failed/dead-letters")).await;
    console.shows("the first").await;
    has_read_again(&console).await;

    answered(api.delete("/v2/queues/failed/messages?pop=1"), 200).await;
    poison_more(&api, &[json!("the second")]).await;

    console.shows("the second").await;
    console.hides("the first").await;
}

/// Waits until the page of dead letters reads its queue for the second time.
async fn has_read_again(console: &Console) {
    let reads = "return performance.getEntriesByType('resource').filter(one => one.name.endsWith('/tasks')).length > 1";
    console.browser.wait_for(reads, json!([])).await;
}

/// Claims one dead letter, and returns its path in the claim.
async fn claim_one(api: &Api) -> String {
    let term = json!({"ttl": 300, "grace": 60});
    let claimed = answered(api.post("/v2/queues/failed/claims?limit=1", &term), 201).await;
    let (claim, messages) = (claimed.header("location").unwrap(), claimed.json());
    format!("{claim}/messages/{}", messages["messages"][0]["id"].as_str().unwrap())
}

/// Waits until a queue has this many messages. Over Redis, a message that a redrive has moved
/// arrives a moment later.
async fn wait_for_total(api: &Api, queue: &str, count: u64) {
    until(&format!("{queue} has {count} messages"), async || total(api, queue).await == count).await;
}
