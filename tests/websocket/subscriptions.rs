//! Section 13.4: subscriptions of connections.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sukkal::auth::{Caller, Client};
use sukkal::broker::Broker;
use sukkal::broker::messages::MessageQuery;
use sukkal::config::Config;
use sukkal_domain::{ClientIdRule, ProjectId, QueueId};
use sukkal_storage::embedded::EmbeddedStore;
use tokio::time::Instant;
use uuid::Uuid;

use super::{notification, open, post, start, start_here};
use crate::http::answered;
use support::socket::Socket;
use support::sukkal::CLIENT;
use support::waiting::{advance, until};

async fn listed(api: &support::sukkal::Api) -> Vec<Value> {
    let page = answered(api.get("/v2/queues/q/subscriptions"), 200).await.json();
    page["subscriptions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_subscribed_connection_gets_the_messages_in_the_format_of_its_request() {
    let sukkal = start(&[]);
    let mut poster = open(&sukkal).await;
    for is_binary in [false, true] {
        let queue = format!("q{is_binary}");
        let mut socket = open(&sukkal).await.of_kind(is_binary);
        socket.subscribe(json!({ "queue_name": queue })).await;
        let bodies: Vec<Value> = (0..30).map(Value::from).collect();
        for body in &bodies {
            post(&mut poster, &queue, &[body.clone(), json!({ "n": body })]).await;
        }
        for body in &bodies {
            assert_eq!(socket.document().await, notification(&queue, body));
            assert_eq!(socket.document().await, notification(&queue, &json!({ "n": body })));
        }
        // A request of the other kind does not change the format.
        socket.is_binary = !is_binary;
        assert_eq!(socket.ask("queue_get", json!({ "queue_name": queue })).await.0, 200);
        socket.is_binary = is_binary;
        post(&mut poster, &queue, &[json!("last")]).await;
        assert_eq!(socket.document().await, notification(&queue, &json!("last")));
    }
}

#[tokio::test]
async fn the_options_of_a_subscription_choose_and_mark_messages() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let options = json!({ "match": { "kind": "a" }, "with_delivery": true });
    let id = socket.subscribe(json!({ "queue_name": "q", "options": options })).await;

    let mut poster = open(&sukkal).await;
    let ids = post(&mut poster, "q", &[json!({ "kind": "b" }), json!(1), json!({ "kind": "a", "n": 1 })]).await;

    let mut expected = notification("q", &json!({ "kind": "a", "n": 1 }));
    expected["delivery"] = json!({ "message_id": ids[2], "subscription_id": id });
    assert_eq!(socket.document().await, expected);
    let invalid = json!({ "queue_name": "x", "options": { "match": 1 } });
    assert_eq!(socket.ask("subscription_create", invalid).await.0, 400);
    let (_, queues) = socket.ask("queue_list", json!({})).await;
    assert_eq!(queues["queues"].as_array().unwrap().len(), 1, "a refused request creates no queue: {queues}");
}

#[tokio::test]
async fn a_subscription_begins_at_a_time_or_after_a_message() {
    let sukkal = start(&[]);
    let mut poster = open(&sukkal).await;
    let ids = post(&mut poster, "q", &[json!(0), json!(1), json!(2)]).await;
    // A claimed message is delivered too.
    assert_eq!(poster.ask("claim_create", json!({ "queue_name": "q", "limit": 3 })).await.0, 201);
    for (since, first) in [
        (Some("1970-01-01T00:00:00Z"), 0),
        (Some(ids[0].as_str()), 1),
        (Some(ids[2].as_str()), 3),
        (Some("now"), 3),
        (None, 3),
    ] {
        let mut socket = open(&sukkal).await;
        let mut body = json!({ "queue_name": "q" });
        if let Some(since) = since {
            body["since"] = json!(since);
        }
        socket.subscribe(body).await;
        for number in first..3 {
            assert_eq!(socket.document().await["body"], number, "{since:?}");
        }
        let (_, reply) =
            socket.ask("message_post", json!({ "queue_name": "q", "messages": [{ "body": 3, "ttl": 60 }] })).await;
        assert_eq!(socket.document().await, notification("q", &json!(3)), "{since:?}");
        let id = &reply["message_ids"][0];
        assert_eq!(poster.ask("message_delete", json!({ "queue_name": "q", "message_id": id })).await.0, 204);
    }
}

#[tokio::test]
async fn other_requests_see_and_end_the_subscription_of_a_connection() {
    let sukkal = start(&[("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"), ("SUKKAL_PUSH__ALLOWED_PORTS", "1-65535")]);
    let api = sukkal.project("p");
    let mut socket = open(&sukkal).await;
    let id = socket.subscribe(json!({ "queue_name": "q", "ttl": 600, "options": { "a": 1 } })).await;
    let path = format!("/v2/queues/q/subscriptions/{id}");

    let shown = answered(api.get(&path), 200).await.json();
    assert!(shown["subscriber"].as_str().unwrap().starts_with("websocket:"), "{shown}");
    assert_eq!((&shown["id"], &shown["ttl"], &shown["options"]), (&json!(id), &json!(600), &json!({ "a": 1 })));
    assert_eq!(answered(api.get("/v2/queues/other/subscriptions"), 200).await.json()["subscriptions"], json!([]));
    let (status, text) = socket.ask("subscription_create", json!({ "queue_name": "q" })).await;
    assert_eq!((status, text), (409, json!("Subscription q not created.")));
    let change = api.request(reqwest::Method::PATCH, &path).json(&json!({ "ttl": 60 }));
    answered(change, 409).await;

    // A page has those of connections and those of the store, by id.
    for port in 1..4 {
        let body = json!({ "subscriber": format!("http://127.0.0.1:{port}/") });
        answered(api.post("/v2/queues/q/subscriptions", &body), 201).await;
    }
    let mut all = Vec::new();
    let mut marker = String::new();
    loop {
        let page = answered(api.get(&format!("/v2/queues/q/subscriptions?limit=1{marker}")), 200).await.json();
        let Some(found) = page["subscriptions"].get(0) else { break };
        all.push(found["id"].as_str().unwrap().to_owned());
        marker = format!("&marker={}", all.last().unwrap());
    }
    assert!(all.is_sorted() && all.len() == 4 && all.contains(&id), "{all:?}");

    answered(api.delete(&path), 204).await;
    answered(api.get(&path), 404).await;
    socket.subscribe(json!({ "queue_name": "q" })).await;
    post(&mut socket, "q", &[json!(1)]).await;
    assert_eq!(socket.document().await, notification("q", &json!(1)), "the new subscription delivers");
    assert_eq!(socket.ask("queue_list", json!({})).await.0, 200, "the ended one sends nothing");
}

/// The subscriptions of a connection do nothing while it handles a request, so they must not keep
/// the request from being admitted.
#[tokio::test]
async fn a_connection_with_many_subscriptions_is_not_refused() {
    let redis = support::redis::RedisServer::start();
    let sukkal = support::sukkal::Sukkal::start_with(&redis.url(), &[]);
    let mut socket = open(&sukkal).await;

    for number in 0..300 {
        socket.subscribe(json!({ "queue_name": format!("q{number}") })).await;
    }
}

#[tokio::test]
async fn the_deletion_of_its_queue_ends_the_subscription_with_a_reason_whichever_process_deletes_it() {
    let redis = support::redis::RedisServer::start();
    let [here, elsewhere] = [(); 2].map(|()| support::sukkal::Sukkal::start_with(&redis.url(), &[]));
    let embedded = start(&[]);
    for (sukkal, deleting) in [(&here, &here), (&here, &elsewhere), (&embedded, &embedded)] {
        let mut socket = open(sukkal).await;
        let id = socket.subscribe(json!({ "queue_name": "q" })).await;
        answered(deleting.project("p").delete("/v2/queues/q"), 204).await;

        let ended = socket.document().await;
        assert_eq!((&ended["Message_Type"], &ended["subscription_id"]), (&json!("SubscriptionFailure"), &json!(id)));
        assert_eq!(ended["exception"], "Queue q does not exist for project p", "{ended}");
        assert_eq!(listed(&sukkal.project("p")).await, [Value::Null; 0]);
        post(&mut socket, "q", &[json!(1)]).await;
        assert_eq!(socket.ask("queue_list", json!({})).await.0, 200, "an ended subscription sends nothing");
        answered(deleting.project("p").delete("/v2/queues/q"), 204).await;
    }
}

#[tokio::test]
async fn a_purge_ends_the_subscription_with_a_reason_whichever_process_purges() {
    let redis = support::redis::RedisServer::start();
    let [here, elsewhere] = [(); 2].map(|()| support::sukkal::Sukkal::start_with(&redis.url(), &[]));
    let embedded = start(&[]);
    for (sukkal, purging) in [(&here, &here), (&here, &elsewhere), (&embedded, &embedded)] {
        let mut socket = open(sukkal).await;
        // A subscription is not ended by an earlier purge.
        for _ in 0..2 {
            let id = socket.subscribe(json!({ "queue_name": "q" })).await;
            post(&mut socket, "q", &[json!(1)]).await;
            assert_eq!(socket.document().await, notification("q", &json!(1)));
            let purge = json!({ "resource_types": ["subscriptions"] });
            answered(purging.project("p").post("/v2/queues/q/purge", &purge), 204).await;

            let ended = socket.document().await;
            let expected = (&json!("SubscriptionFailure"), &json!(id), &json!("Subscription purged"));
            assert_eq!((&ended["Message_Type"], &ended["subscription_id"], &ended["error"]), expected, "{ended}");
            assert_eq!(listed(&sukkal.project("p")).await, [Value::Null; 0]);
        }
    }
}

#[tokio::test]
async fn a_subscription_ends_with_its_connection() {
    let sukkal = start(&[]);
    let api = sukkal.project("p");
    let mut socket = open(&sukkal).await;
    socket.subscribe(json!({ "queue_name": "q" })).await;
    assert_eq!(listed(&api).await.len(), 1);

    drop(socket);
    until("the subscription ends", async || listed(&api).await.is_empty()).await;
}

/// The clock is paused, so this takes no minute. Connections wait for the end in the same way if a
/// subscription is deleted.
#[tokio::test]
async fn a_subscription_is_listed_until_its_ttl_is_over() {
    let (config, store) = (Config::load(None, [], &[]).unwrap(), EmbeddedStore::in_memory().unwrap());
    let broker = Broker::new(Arc::new(store), config.transport.limits, config.push, None, Arc::default());
    let (project, id) = (ProjectId::new("p").unwrap(), ClientIdRule::Uuid.parse(CLIENT).unwrap());
    let queue = QueueId::new(project.clone(), "q".parse().unwrap()).unwrap();
    let caller = Caller::Client(Client { project, id, roles: Vec::new(), identity: None });
    let (fields, from) = (json!({ "ttl": 90 }).as_object().unwrap().clone(), MessageQuery::default());
    let subscribed = broker.subscribe_connection(&caller, &queue, Uuid::nil(), &fields, from).await.unwrap();
    let began = Instant::now();

    tokio::time::pause();
    subscribed.end.reached().await;
    let elapsed = began.elapsed();
    tokio::time::resume();

    assert!((89..=90).contains(&elapsed.as_secs()), "{elapsed:?}");
    let listed = async || broker.list_subscriptions(&caller, &queue, None, None).await.unwrap();
    let shown: Vec<_> = listed().await.iter().map(|one| (one.subscription.id, one.subscription.ttl_s)).collect();
    assert_eq!(shown, [(subscribed.end.id(), 90)]);
    drop(subscribed);
    assert!(listed().await.is_empty());
}

#[tokio::test]
async fn the_end_of_the_ttl_ends_the_subscription_with_a_reason() {
    let url = start_here(&[]).await;
    let mut socket = Socket::open(&url, "p").await;
    let id = socket.subscribe(json!({ "queue_name": "q", "ttl": 60 })).await;

    advance(Duration::from_secs(30)).await;
    let listed = socket.ask("subscription_list", json!({ "queue_name": "q" })).await.1;
    assert_eq!(listed["subscriptions"][0]["id"], id, "the subscription lives for its ttl");
    advance(Duration::from_secs(30)).await;

    let ended = socket.document().await;
    assert_eq!((&ended["Message_Type"], &ended["queue_name"]), (&json!("SubscriptionFailure"), &json!("q")), "{ended}");
    assert_eq!((&ended["subscription_id"], &ended["error"]), (&json!(id), &json!("Subscription expired")), "{ended}");
    assert_eq!(socket.ask("subscription_list", json!({ "queue_name": "q" })).await.1, json!({ "subscriptions": [] }));
}

#[tokio::test]
async fn an_unreadable_message_ends_the_subscription_with_a_reason() {
    let key = "SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY";
    let redis = support::redis::RedisServer::start();
    let writer = support::sukkal::Sukkal::start_with(&redis.url(), &[(key, "a key for tests")]);
    let reader = support::sukkal::Sukkal::start_with(&redis.url(), &[(key, "another key for tests")]);
    let mut poster = open(&writer).await;
    let metadata = json!({ "_enable_encrypt_messages": true });
    assert_eq!(poster.ask("queue_create", json!({ "queue_name": "q", "metadata": metadata })).await.0, 201);
    let mut socket = open(&reader).await;
    socket.subscribe(json!({ "queue_name": "q" })).await;
    post(&mut poster, "q", &[json!(1)]).await;

    let failure = socket.document().await;
    assert_eq!(failure["Message_Type"], "SubscriptionFailure", "{failure}");
    assert_eq!((&failure["queue_name"], failure["exception"].is_string()), (&json!("q"), true), "{failure}");
    assert_eq!(socket.ask("subscription_list", json!({ "queue_name": "q" })).await.1, json!({ "subscriptions": [] }));
}
