//! What operators do with subscriptions, whose subscriber is a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};

use serde_json::{Value, json};

use super::service::{Service, Store, over_both_stores};
use super::{Console, PROJECT, create, post, read};
use crate::push::LOCAL;
use crate::push::endpoint::{Answer, Endpoint};
use support::sukkal::{Api, Sukkal};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redelivery_that_has_to_wait_says_for_what() {
    let endpoint = Endpoint::answering(|_| Answer::With(503, "retry-after", "3600".to_owned()));
    let sukkal = Sukkal::start_with("memory:", &LOCAL);
    let api = sukkal.project(PROJECT);
    let subscriber = endpoint.url("/hook");
    let created = api.post(LISTED, &json!({ "subscriber": subscriber })).send().await.unwrap();
    let created: Value = created.json().await.unwrap();
    post(&api, "orders", &[json!(1)]).await;
    let console = Console::open(&sukkal.url("/console#/queues/orders/subscriptions")).await;
    let redeliver = async || {
        console.click(&subscriber).await;
        console.click("Redeliver…").await;
        console.click("Redeliver").await;
    };

    console.shows("until ").await;
    redeliver().await;
    console.shows("Redeliver: accepted, but the subscription is held until ").await;
    console.shows(". Nothing is delivered until then.").await;

    let pause = format!("{LISTED}/{}/pause", created["subscription_id"].as_str().unwrap());
    assert_eq!(api.post(&pause, &json!({})).send().await.unwrap().status(), 204);
    redeliver().await;
    let paused = "Redeliver: accepted, but the subscription is paused. Nothing is delivered until it is resumed.";
    console.shows(paused).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribing_again_says_that_nothing_was_created() {
    let endpoint = Endpoint::start();
    let confirmed = [("SUKKAL_PUSH__REQUIRE_CONFIRMATION", "true"), ("SUKKAL_SIGNED_URL__SECRET_KEY", "any")];
    let sukkal = Sukkal::start_with("memory:", &[&LOCAL[..], &confirmed].concat());
    let console = Console::open(&sukkal.url("/console#/queues/orders/subscriptions")).await;
    let subscribe = async |ttl| {
        console.click("Subscribe").await;
        console.fill("Subscriber", &endpoint.url("/hook")).await;
        console.fill("Time to live, in seconds", ttl).await;
        console.click("Subscribe").await;
    };

    subscribe("7200").await;
    console.shows("whsec_").await;
    console.click("Close").await;
    subscribe("7200").await;
    let nothing = "Subscribe: nothing was created, because the subscriber has a subscription that is not confirmed.";
    console.shows(nothing).await;
    subscribe("3600").await;
    console.shows("change them with PATCH").await;
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
