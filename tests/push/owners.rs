//! What the owner of a subscription can do with its deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use time::format_description::well_known::Rfc3339;
use tokio::sync::watch;
use tokio::time::sleep;

use super::endpoint::{Answer, Endpoint};
use super::{Bench, id, numbers};
use crate::http::{PATCH_TYPE, answered};
use support::waiting::until;

async fn a_paused_subscription_continues_where_it_was(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;
    bench.post(&numbers(0, 2)).await;
    endpoint.wait_for(2).await;

    bench.act(&id(&created), "pause", &json!({})).await;
    bench.post(&numbers(2, 2)).await;
    assert_eq!(bench.figures(&id(&created)).await["state"], "paused");
    bench.act(&id(&created), "resume", &json!({})).await;

    assert_eq!(endpoint.bodies(4).await, numbers(0, 4));
}

async fn a_held_subscription_says_so_and_a_resume_ends_the_hold(mut bench: Bench) {
    let endpoint = Endpoint::answering({
        let is_first = AtomicBool::new(true);
        move |_| {
            let is_first = is_first.swap(false, Ordering::SeqCst);
            if is_first { Answer::With(503, "retry-after", "3600".to_owned()) } else { Answer::Status(204) }
        }
    });
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    let ids = bench.post(&numbers(0, 1)).await;
    let held = bench.wait_until(&id(&created), |figures| figures["state"] == "held").await;
    assert_eq!(held["reason"], "The subscriber has asked to wait (Retry-After).");
    let until = time::OffsetDateTime::parse(held["until"].as_str().unwrap(), &Rfc3339).unwrap();
    let left = until - time::OffsetDateTime::now_utc();
    assert!((3_500..=3_601).contains(&left.whole_seconds()), "{held}");

    // The next process knows only what is stored.
    bench.restart(&[]).await;
    let answer = bench.act(&id(&created), "redeliver", &json!({ "ids": ids })).await;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer, json!({"state": "held", "reason": held["reason"], "until": held["until"]}));
    assert_eq!(endpoint.received().len(), 1);
    bench.act(&id(&created), "resume", &json!({})).await;

    assert_eq!(endpoint.bodies(2).await, [json!(0), json!(0)]);
    let figures = bench.wait_until(&id(&created), |figures| figures["delivered"] == 1).await;
    assert_eq!((&figures["state"], &figures["until"]), (&json!("active"), &json!(null)));
}

async fn a_former_subscriber_cannot_disable_the_subscription(bench: Bench) {
    let (end, is_over) = watch::channel(false);
    let former = Endpoint::answering(move |_| Answer::When(is_over.clone(), 410));
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&former.url("/"), json!({})).await;
    bench.post(&numbers(0, 1)).await;
    former.wait_for(1).await;

    let path = format!("/v2/queues/q/subscriptions/{}", id(&created));
    let change = json!({ "subscriber": endpoint.url("/") });
    answered(bench.api.request(reqwest::Method::PATCH, &path).json(&change), 204).await;
    // The service knows the new subscriber when it sends the next message to it.
    bench.post(&numbers(1, 1)).await;
    assert_eq!(endpoint.bodies(1).await, numbers(1, 1));
    end.send_replace(true);

    assert_eq!(endpoint.bodies(2).await[1], 0, "the first message is sent to the new subscriber too");
    let figures = bench.wait_until(&id(&created), |figures| figures["delivered"] == 2).await;
    assert_eq!(figures["state"], "active");
}

async fn a_redelivery_skips_no_message_that_was_not_sent_yet(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;
    bench.act(&id(&created), "pause", &json!({})).await;
    bench.post(&numbers(0, 2)).await;
    let now = time::OffsetDateTime::now_utc().format(&Rfc3339).unwrap();
    bench.post(&numbers(2, 2)).await;

    bench.act(&id(&created), "redeliver", &json!({ "since": now })).await;
    bench.act(&id(&created), "resume", &json!({})).await;

    assert_eq!(endpoint.bodies(4).await, numbers(0, 4));
}

async fn messages_are_redelivered_by_their_ids(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    let ids = bench.post(&numbers(0, 3)).await;
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 3).await;

    bench.act(&id(&created), "redeliver", &json!({"ids": [ids[1]]})).await;

    let received = endpoint.wait_for(4).await;
    assert_eq!(received[3].header("webhook-id"), ids[1]);
    let figures = bench.wait_until(&id(&created), |figures| figures["delivered"] == 4).await;
    assert_eq!((&figures["missed"], &figures["retrying"]), (&json!(0), &json!(0)));
}

async fn messages_are_redelivered_from_a_time_on(bench: Bench) {
    let endpoint = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;
    bench.post(&numbers(0, 3)).await;
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 3).await;

    bench.act(&id(&created), "redeliver", &json!({"since": "1970-01-01T00:00:00Z"})).await;

    assert_eq!(endpoint.bodies(6).await, [numbers(0, 3), numbers(0, 3)].concat());
    let figures = bench.wait_until(&id(&created), |figures| figures["delivered"] == 6).await;
    assert_eq!(figures["missed"], 0);
}

async fn a_message_that_is_requested_while_it_fails_has_one_retry(bench: Bench) {
    let (end, is_over) = watch::channel(false);
    let endpoint = Endpoint::answering({
        let is_first = AtomicBool::new(true);
        move |_| {
            let is_first = is_first.swap(false, Ordering::SeqCst);
            if is_first { Answer::When(is_over.clone(), 500) } else { Answer::Status(200) }
        }
    });
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 1, "maximum_delay": 11});
    let created = bench.subscribe(&endpoint.url("/"), json!({"concurrency": 1, "_retry_policy": policy})).await;
    let ids = bench.post(&numbers(0, 1)).await;
    endpoint.wait_for(1).await;

    bench.act(&id(&created), "redeliver", &json!({"ids": ids})).await;
    bench.act(&id(&created), "redeliver", &json!({"since": "1970-01-01T00:00:00Z"})).await;
    end.send_replace(true);

    bench.wait_until(&id(&created), |figures| figures["delivered"] == 1 && figures["retrying"] == 0).await;
    bench.post(&numbers(1, 1)).await;
    assert_eq!(endpoint.bodies(3).await, [0, 0, 1].map(|number| json!(number)));
}

async fn large_messages_that_have_a_retry_are_not_sent_from_the_feed_too(bench: Bench) {
    let is_failing = Arc::new(AtomicBool::new(true));
    let failing = is_failing.clone();
    let endpoint = Endpoint::answering(move |_| Answer::Status(if failing.load(Ordering::SeqCst) { 500 } else { 200 }));
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 60, "maximum_delay": 70});
    let created = bench.subscribe(&endpoint.url("/"), json!({"_retry_policy": policy})).await;
    for number in 0..8 {
        bench.post(&[json!([number, "x".repeat(200_000)])]).await;
    }
    bench.wait_until(&id(&created), |figures| figures["retrying"] == 8).await;
    is_failing.store(false, Ordering::SeqCst);

    bench.act(&id(&created), "redeliver", &json!({"since": "1970-01-01T00:00:00Z"})).await;
    // What the request makes the service send arrives before this message.
    bench.post(&[json!("later")]).await;
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 1).await;
    assert_eq!(endpoint.received().len(), 9);
    bench.set_clock_ahead(&id(&created), 70).await;

    let figures = bench.wait_until(&id(&created), |figures| figures["retrying"] == 0).await;
    assert_eq!((&figures["delivered"], &figures["attempts"]), (&json!(9), &json!(17)));
}

/// Row 8.6-7.
async fn a_changed_policy_of_the_queue_applies_to_running_deliveries(bench: Bench) {
    let endpoint = Endpoint::answering(|_| Answer::Status(500));
    let policy = |at_once| json!({"retries_with_no_delay": at_once, "minimum_delay": 600, "maximum_delay": 700});
    let slow = json!({"_retry_policy": policy(0)});
    answered(bench.api.put("/v2/queues/q").json(&slow), 201).await;
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    bench.post(&numbers(0, 1)).await;
    bench.wait_until(&id(&created), |figures| figures["retrying"] == 1).await;

    let patch = json!([{"op": "replace", "path": "/metadata/_retry_policy", "value": policy(1)}]);
    let request = bench.api.request(reqwest::Method::PATCH, "/v2/queues/q").body(patch.to_string());
    let request = request.header("content-type", PATCH_TYPE);
    answered(request, 200).await;

    // The deliverer of the queue always has work. It notices the change after some seconds.
    let mut posted = 1;
    until("a message is repeated", async || {
        bench.post(&numbers(posted, 1)).await;
        posted += 1;
        sleep(Duration::from_millis(100)).await;
        endpoint.received().len() > posted
    })
    .await;
}

async fn what_waits_for_a_connection_is_not_sent_after_a_pause(bench: Bench) {
    let (end, is_over) = watch::channel(false);
    let endpoint = Endpoint::answering(move |_| Answer::When(is_over.clone(), 200));
    let other = Endpoint::start();
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    bench.subscribe(&other.url("/"), json!({})).await;
    bench.post(&numbers(0, 4)).await;
    endpoint.wait_for(1).await;

    bench.act(&id(&created), "pause", &json!({})).await;

    // The other subscription shows that the service knows of the pause, and that it goes on.
    bench.post(&numbers(4, 1)).await;
    other.wait_for(5).await;
    end.send_replace(true);
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 1).await;
    bench.post(&numbers(5, 1)).await;
    other.wait_for(6).await;
    assert_eq!(endpoint.received().len(), 1);
    bench.act(&id(&created), "resume", &json!({})).await;
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 6).await;
    assert_eq!(endpoint.received().len(), 6);
}

async fn changed_options_apply_to_the_next_message(bench: Bench) {
    let (before, after) = (Endpoint::start(), Endpoint::start());
    let created = bench.subscribe(&before.url("/"), json!({})).await;
    bench.post(&numbers(0, 1)).await;
    before.wait_for(1).await;

    let path = format!("/v2/queues/q/subscriptions/{}", id(&created));
    let request = bench.api.request(reqwest::Method::PATCH, &path);
    answered(request.json(&json!({"subscriber": after.url("/new")})), 204).await;
    bench.post(&numbers(1, 1)).await;

    assert_eq!(after.wait_for(1).await[0].path, "/new");
    assert_eq!(before.received().len(), 1);
}

super::over_each_store! {
    a_paused_subscription_continues_where_it_was,
    a_held_subscription_says_so_and_a_resume_ends_the_hold,
    a_former_subscriber_cannot_disable_the_subscription,
    a_redelivery_skips_no_message_that_was_not_sent_yet,
    messages_are_redelivered_by_their_ids,
    messages_are_redelivered_from_a_time_on,
    a_message_that_is_requested_while_it_fails_has_one_retry,
    large_messages_that_have_a_retry_are_not_sent_from_the_feed_too,
    a_changed_policy_of_the_queue_applies_to_running_deliveries,
    changed_options_apply_to_the_next_message,
}

mod on_one_connection_per_host {
    crate::push::over_each_store! {
        with &[("SUKKAL_PUSH__MAX_CONNECTIONS_PER_HOST", "1")];
        what_waits_for_a_connection_is_not_sent_after_a_pause,
    }

    use super::what_waits_for_a_connection_is_not_sent_after_a_pause;
}
