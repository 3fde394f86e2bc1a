//! What operators do with subscriptions, whose subscriber is a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};

use serde_json::{Value, json};

use super::service::{Service, Store, over_both_stores};
use super::{Console, create, post, read};
use crate::push::LOCAL;
use crate::push::endpoint::{Answer, Endpoint};
use support::sukkal::Api;

const LISTED: &str = "/v2/queues/orders/subscriptions";

over_both_stores! {
    an_operator_subscribes_watches_pauses_redelivers_and_deletes,
}

async fn an_operator_subscribes_watches_pauses_redelivers_and_deletes(store: Store) {
    let status = Arc::new(AtomicU16::new(200));
    let next = status.clone();
    let endpoint = Endpoint::answering(move |_| Answer::Status(next.load(SeqCst)));
    let mut service = Service::start(store, &LOCAL);
    let api = service.api();
    create(&api, "orders", &json!({})).await;
    let subscriber = endpoint.url("/hook");
    let console = Console::open(&service.url("/console#/queues/orders/subscriptions")).await;

    subscribe_and_see_the_secret_once(&console, &api, &subscriber).await;
    post(&api, "orders", &[json!(1)]).await;
    assert_eq!(endpoint.bodies(1).await, [1]);
    watch(&console, &subscriber, "200").await;
    console.click("Pause").await;
    console.shows("paused").await;
    assert_eq!(delivery(&api).await["state"], "paused");

    service.restart(&console).await;
    post(&api, "orders", &[json!(2)]).await;
    console.shows("paused").await;
    assert_eq!(endpoint.received().len(), 1);
    console.click(&subscriber).await;
    console.click("Resume").await;
    assert_eq!(endpoint.bodies(2).await, [1, 2]);
    console.shows("active").await;

    console.click(&subscriber).await;
    console.click("Redeliver…").await;
    console.click("Redeliver").await;
    let mut again = endpoint.bodies(4).await.split_off(2);
    again.sort_by_key(Value::as_u64);
    assert_eq!(again, [1, 2]);

    status.store(500, SeqCst);
    post(&api, "orders", &[json!(3)]).await;
    console.go("#/").await;
    console.shows("1 failing subscription").await;
    console.click("1 failing subscription").await;
    watch(&console, &subscriber, "500").await;
    console.click_and_confirm("Delete").await;
    console.shows("There are no subscriptions.").await;
    assert_eq!(read(&api, LISTED).await["subscriptions"], json!([]));
}

async fn subscribe_and_see_the_secret_once(console: &Console, api: &Api, subscriber: &str) {
    console.click("Subscribe").await;
    console.fill("Subscriber", subscriber).await;
    console.shows("Then the subscription is deleted").await;
    console.fill("Time to live, in seconds", "7200").await;
    console.click("Subscribe").await;
    console.shows("It is never shown again.").await;
    let secret = console.text_of("dialog pre.command").await;
    assert!(secret.starts_with("whsec_"), "{secret}");
    console.click("Close").await;
    console.shows("active").await;
    console.click(subscriber).await;
    console.shows("Last attempts").await;
    assert!(!console.read("return document.documentElement.outerHTML").await.to_string().contains("whsec_"));
    console.click("Close").await;
    assert_eq!(read(api, LISTED).await["subscriptions"][0]["ttl"], 7200);
}

/// Waits until the dialog of the subscription shows an attempt with this status and its response.
async fn watch(console: &Console, subscriber: &str, status: &str) {
    let read = "return [...document.querySelectorAll('dialog tbody tr')].map(row => [2, 4].map(index => row.cells[index].textContent).join(' '))";
    for _ in 0..100 {
        console.click(subscriber).await;
        console.shows("Last attempts").await;
        let attempts = console.read(read).await;
        let is_shown = |attempt: &str| attempt.starts_with(status) && attempt.ends_with("an answer");
        if attempts.as_array().unwrap().iter().any(|attempt| is_shown(attempt.as_str().unwrap())) {
            return;
        }
        // The subscriber has the message, but the attempt is not noted yet.
        console.click("Close").await;
    }
    panic!("the console shows no attempt with {status}");
}

async fn delivery(api: &Api) -> Value {
    let listed = read(api, LISTED).await;
    let id = listed["subscriptions"][0]["id"].as_str().unwrap();
    read(api, &format!("{LISTED}/{id}?with_delivery=true")).await["delivery"].clone()
}
