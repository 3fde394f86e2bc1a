//! Topics: a sample, a subscription, and the end of a topic.

use serde_json::json;

use super::service::{Service, Store, over_both_stores};
use super::{Console, read};
use crate::push::LOCAL;
use crate::push::endpoint::Endpoint;

over_both_stores! {
    a_topic_is_posted_to_subscribed_to_purged_and_deleted,
}

async fn a_topic_is_posted_to_subscribed_to_purged_and_deleted(store: Store) {
    let endpoint = Endpoint::start();
    let mut service = Service::start(store, &LOCAL);
    let api = service.api();
    let console = Console::open(&service.url("/console#/topics")).await;

    console.click("post a sample from here").await;
    console.click("Post").await;
    console.hides("There are no messages.").await;
    let posted = read(&api, "/v2/topics/hello/messages?echo=true").await;
    assert_eq!(posted["messages"][0]["body"], json!({"hello": "world"}));
    let tabs = "return [...document.querySelectorAll('.tabs a')].map(tab => tab.textContent)";
    assert_eq!(console.read(tabs).await, json!(["Overview", "Messages", "Subscriptions", "Settings"]));

    console.click("Subscriptions").await;
    console.click("Subscribe").await;
    console.fill("Subscriber", &endpoint.url("/")).await;
    console.click("Subscribe").await;
    console.shows("whsec_").await;
    console.click("Close").await;
    console.shows("active").await;
    console.click("Messages").await;
    console.click("Post a message").await;
    console.fill("Body", "\"to subscribers\"").await;
    console.click("Post").await;
    let received = endpoint.bodies(1).await;
    assert_eq!(received.last().unwrap(), "to subscribers");

    console.click("Overview").await;
    console.shows("Posted\n2").await;
    service.restart(&console).await;
    console.shows("Posted\n2").await;
    console.click("Topics").await;
    console.click("hello").await;
    console.click("Settings").await;
    console.click_and_type("Purge", "hello").await;
    console.shows("Purge: done.").await;
    assert_eq!(read(&api, "/v2/topics/hello/stats").await["messages"]["total"], 0);
    console.click_and_type("Delete", "hello").await;
    console.shows("There are no topics.").await;
    assert_eq!(read(&api, "/v2/topics").await["topics"], json!([]));
}
