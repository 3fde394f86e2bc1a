//! What subscribers receive.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::endpoint::{Answer, Endpoint};
use super::{Bench, id, numbers};
use crate::http::answered;

/// Rows 8.6-1, 8.6-3, 8.6-5.
async fn each_message_is_delivered_once_as_documented(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/hook"), json!({})).await;

    let ids = bench.post(&[json!({"order": 1}), json!([2])]).await;

    let received = endpoint.wait_for(2).await;
    for (one, expected) in ids.iter().zip([json!({"order": 1}), json!([2])]) {
        let matching: Vec<_> = received.iter().filter(|received| received.header("webhook-id") == one).collect();
        assert_eq!(matching.len(), 1, "message {one}");
        let document = json!({"ttl": 600, "body": expected, "Message_Type": "Notification", "queue_name": "q"});
        assert_eq!((matching[0].json(), matching[0].path.as_str()), (document, "/hook"));
        assert_eq!(matching[0].header("content-type"), "application/json");
        let secret = created["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(secret).unwrap()).unwrap();
        mac.update(format!("{one}.{}.", matching[0].header("webhook-timestamp")).as_bytes());
        mac.update(&matching[0].text);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        assert_eq!(matching[0].header("webhook-signature"), format!("v1,{signature}"));
    }
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 2).await;
    assert_eq!(endpoint.received().len(), 2);
}

/// Row 8.6-1.
async fn every_subscription_of_a_queue_is_notified(bench: Bench) {
    // The deliverer loads 20 subscriptions at a time.
    let count = 201;
    let endpoint = Endpoint::start();
    for number in 0..count {
        bench.subscribe(&endpoint.url(&format!("/{number}")), json!({})).await;
    }

    bench.post(&numbers(0, 1)).await;

    let received = endpoint.wait_for(count).await;
    let paths: HashSet<&str> = received.iter().map(|one| one.path.as_str()).collect();
    assert_eq!((paths.len(), received.len()), (count, count), "each is notified once");
}

async fn only_messages_after_the_subscription_are_delivered_unless_since_says_otherwise(bench: Bench) {
    bench.post(&numbers(0, 2)).await;
    let (from_now, from_start) = (Endpoint::start(), Endpoint::start());
    bench.subscribe(&from_now.url("/"), json!({})).await;
    let document = json!({"subscriber": from_start.url("/"), "ttl": 600, "since": "1970-01-01T00:00:00Z"});
    answered(bench.api.post("/v2/queues/q/subscriptions", &document), 201).await;

    bench.post(&numbers(2, 1)).await;

    assert_eq!(from_now.bodies(1).await, numbers(2, 1));
    let mut bodies = from_start.bodies(3).await;
    bodies.sort_by_key(Value::as_u64);
    assert_eq!(bodies, numbers(0, 3));
}

async fn a_deleted_subscription_gets_nothing_that_is_posted_afterwards(bench: Bench) {
    let (deleted, kept) = (Endpoint::start(), Endpoint::start());
    let created = bench.subscribe(&deleted.url("/"), json!({})).await;
    bench.subscribe(&kept.url("/"), json!({})).await;
    for round in 0..20 {
        bench.post(&numbers(round, 1)).await;
        deleted.wait_for(round + 1).await;
    }

    let path = format!("/v2/queues/q/subscriptions/{}", id(&created));
    answered(bench.api.delete(&path), 204).await;
    bench.post(&numbers(20, 5)).await;

    kept.wait_for(25).await;
    assert_eq!(deleted.received().len(), 20);
}

/// Row 8.6-2.
async fn a_delayed_message_is_delivered_when_it_is_due(bench: Bench) {
    let delays = json!({"_default_message_delay": 1});
    answered(bench.api.put("/v2/queues/q").json(&delays), 201).await;
    let endpoint = Endpoint::start();
    bench.subscribe(&endpoint.url("/"), json!({})).await;

    let posted = Instant::now();
    bench.post(&numbers(0, 1)).await;

    let received = endpoint.wait_for(1).await;
    assert!(received[0].at - posted >= Duration::from_secs(1), "not before it is due");
}

async fn an_ordered_subscription_is_notified_one_at_a_time_in_the_order_of_the_feed(bench: Bench) {
    let endpoint = Endpoint::answering(|_| Answer::After(Duration::from_millis(2), 200));
    bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;

    for round in 0..10 {
        bench.post(&numbers(10 * round, 10)).await;
    }

    assert_eq!(endpoint.bodies(100).await, numbers(0, 100));
}

async fn a_slow_message_delays_no_other(bench: Bench) {
    let endpoint = Endpoint::answering(|received| match received.body().as_u64() {
        Some(0) => Answer::Hang,
        _ => Answer::Status(200),
    });
    bench.subscribe(&endpoint.url("/"), json!({})).await;

    bench.post(&numbers(0, 200)).await;

    endpoint.wait_for(200).await;
}

async fn only_messages_that_match_are_delivered(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({"match": {"kind": "a", "n": 1}})).await;

    let wanted = json!({"kind": "a", "n": 1, "more": []});
    bench.post(&[json!({"kind": "b", "n": 1}), json!("a"), json!({"kind": "a"}), wanted.clone()]).await;

    assert_eq!(endpoint.bodies(1).await, [wanted]);
    let figures = bench.wait_until(&id(&created), |figures| figures["delivered"] == 1).await;
    assert_eq!(figures["missed"], 0, "messages that do not match are not missed");
}

/// Rows 8.6-4, 8.6-5.
async fn the_template_and_the_headers_of_the_owner_are_used(bench: Bench) {
    let endpoint = Endpoint::start();
    let options = json!({
        "post_data": r#"{"wrapped": "$zaqar_message$"}"#,
        "post_headers": {"X-Api-Key": "k", "Content-Type": "application/vnd.test+json"},
    });
    bench.subscribe(&endpoint.url("/"), options).await;

    bench.post(&numbers(7, 1)).await;

    let received = endpoint.wait_for(1).await;
    assert_eq!(received[0].json()["wrapped"]["body"], 7);
    assert_eq!(received[0].header("x-api-key"), "k");
    assert_eq!(received[0].header("content-type"), "application/vnd.test+json");
}

/// Row 8.6-2.
async fn messages_that_are_gone_before_their_first_attempt_are_counted_as_missed(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    bench.act(&id(&created), "pause", &json!({})).await;
    let ids = bench.post(&numbers(0, 3)).await;
    let path = format!("/v2/queues/q/messages?ids={},{}", ids[0], ids[1]);
    answered(bench.api.delete(&path), 204).await;

    bench.act(&id(&created), "resume", &json!({})).await;

    assert_eq!(endpoint.bodies(1).await, numbers(2, 1));
    let figures = bench.wait_until(&id(&created), |figures| figures["missed"] == 2).await;
    assert_eq!(figures["delivered"], 1);
}

/// Nothing but the signal of the store starts the delivery, because maintenance pauses for a day.
async fn the_subscriptions_of_a_queue_that_is_created_again_are_served_at_once(bench: Bench) {
    let endpoint = Endpoint::start();
    bench.subscribe(&endpoint.url("/"), json!({})).await;
    bench.post(&numbers(0, 1)).await;
    endpoint.wait_for(1).await;

    answered(bench.api.delete("/v2/queues/q"), 204).await;
    bench.subscribe(&endpoint.url("/"), json!({})).await;
    bench.post(&numbers(1, 1)).await;

    assert_eq!(endpoint.bodies(2).await, numbers(0, 2));
}

mod without_maintenance {
    crate::push::over_each_store! {
        with &[("SUKKAL_JANITOR__PAUSE", "86400")];
        the_subscriptions_of_a_queue_that_is_created_again_are_served_at_once,
    }

    use super::the_subscriptions_of_a_queue_that_is_created_again_are_served_at_once;
}

super::over_each_store! {
    each_message_is_delivered_once_as_documented,
    every_subscription_of_a_queue_is_notified,
    only_messages_after_the_subscription_are_delivered_unless_since_says_otherwise,
    a_deleted_subscription_gets_nothing_that_is_posted_afterwards,
    a_delayed_message_is_delivered_when_it_is_due,
    an_ordered_subscription_is_notified_one_at_a_time_in_the_order_of_the_feed,
    a_slow_message_delays_no_other,
    only_messages_that_match_are_delivered,
    the_template_and_the_headers_of_the_owner_are_used,
    messages_that_are_gone_before_their_first_attempt_are_counted_as_missed,
}
