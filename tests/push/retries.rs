//! What happens when a notification fails.

use serde_json::{Value, json};

use super::endpoint::{Answer, Endpoint};
use super::{Bench, attempts, failing_first, id, numbers, retries_at_once, retry_policy, subscribe_to, wait_until};
use crate::http::pick;
use support::waiting::until;

/// Row 8.6-6.
async fn a_failed_notification_is_repeated_with_the_same_id(bench: Bench) {
    let endpoint = failing_first(vec![500, 404]);
    let created = bench.subscribe(&endpoint.url("/"), json!({"_retry_policy": retry_policy()})).await;

    bench.post(&numbers(0, 1)).await;

    let received = endpoint.wait_for(3).await;
    assert!(received.iter().all(|one| one.header("webhook-id") == received[0].header("webhook-id")));
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 1 && figures["retrying"] == 0).await;
    let attempts: Value = attempts(&bench.api, &id(&created)).await.into();
    assert_eq!(pick(&attempts, "status"), [204, 404, 500], "the newest first");
    assert_eq!(pick(&attempts, "attempt"), [3, 2, 1]);
    assert_eq!(attempts[1]["response"], "an answer");
}

async fn a_failure_in_an_ordered_subscription_holds_back_the_rest(bench: Bench) {
    let endpoint = failing_first(vec![500, 500]);
    let options = json!({"ordered": true, "_retry_policy": retry_policy()});
    bench.subscribe(&endpoint.url("/"), options).await;

    bench.post(&numbers(0, 3)).await;

    assert_eq!(endpoint.bodies(5).await, [0, 0, 0, 1, 2].map(|number| json!(number)));
}

async fn a_retry_outlives_its_message(bench: Bench) {
    let endpoint = failing_first(vec![500]);
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 1, "maximum_delay": 11});
    let created = bench.subscribe(&endpoint.url("/"), json!({"_retry_policy": policy})).await;
    let ids = bench.post(&numbers(0, 1)).await;
    bench.wait_until(&id(&created), |figures| figures["retrying"] == 1).await;

    let path = format!("/v2/queues/q/messages/{}", ids[0]);
    assert_eq!(bench.api.delete(&path).send().await.unwrap().status(), 204);

    assert_eq!(endpoint.bodies(2).await, [json!(0), json!(0)]);
}

async fn a_message_whose_retries_are_used_up_goes_to_the_dead_letter_queue(bench: Bench) {
    let endpoint = Endpoint::answering(|_| Answer::Status(500));
    let options = json!({"_retry_policy": retries_at_once(), "dead_letter_queue": "dead"});
    let created = bench.subscribe(&endpoint.url("/"), options).await;

    let ids = bench.post(&numbers(5, 1)).await;

    let figures = bench.wait_until(&id(&created), |figures| figures["given_up"] == 1).await;
    assert_eq!(figures["attempts"].as_u64().unwrap(), endpoint.received().len() as u64);
    assert_eq!(bench.bodies_of("dead").await, numbers(5, 1));
    let origin = json!({"queue": "q", "id": ids[0], "claim_count": 0});
    assert_eq!(bench.messages_of("dead").await[0]["origin"], origin);
}

async fn a_message_that_is_given_up_again_is_a_dead_letter_again(bench: Bench) {
    let endpoint = Endpoint::answering(|_| Answer::Status(500));
    let options = json!({"dead_letter_queue": "dead", "_retry_policy": retries_at_once()});
    let created = bench.subscribe(&endpoint.url("/"), options).await;
    let ids = bench.post(&numbers(7, 1)).await;
    bench.wait_until(&id(&created), |figures| figures["given_up"] == 1).await;

    bench.set_clock_ahead(&id(&created), 100).await;
    bench.act(&id(&created), "redeliver", &json!({ "ids": ids })).await;

    bench.wait_until(&id(&created), |figures| figures["given_up"] == 2).await;
    assert_eq!(bench.bodies_of("dead").await, [json!(7), json!(7)]);
    // Each lives for its ttl from the time at which it became a dead letter.
    let ages: Vec<u64> = bench.messages_of("dead").await.iter().map(|letter| letter["age"].as_u64().unwrap()).collect();
    assert!(ages[0] >= 100 && ages[1] < 50, "{ages:?}");
}

async fn dead_letters_do_not_go_around_in_a_circle(bench: Bench) {
    let endpoint = Endpoint::answering(|_| Answer::Status(500));
    let mut last = json!(null);
    for (queue, dead) in [("q", "dead"), ("dead", "q")] {
        for number in 0..2 {
            let options = json!({"_retry_policy": retries_at_once(), "dead_letter_queue": dead});
            last = subscribe_to(&bench.api, queue, &endpoint.url(&format!("/{number}")), options).await;
        }
    }

    bench.post(&numbers(5, 1)).await;

    wait_until(&bench.api, "dead", &id(&last), |figures| figures["given_up"] == 2).await;
    assert_eq!(bench.bodies_of("dead").await.len(), 2, "one of each subscription");
    assert_eq!(bench.bodies_of("q").await.len(), 1);
}

async fn a_subscriber_that_is_gone_is_disabled_and_its_owner_is_told(bench: Bench) {
    let endpoint = failing_first(vec![410]);
    let created = bench.subscribe(&endpoint.url("/"), json!({"notify_queue": "notices"})).await;

    bench.post(&numbers(0, 2)).await;

    bench.wait_until(&id(&created), |figures| figures["state"] == "disabled").await;
    let notice = &bench.messages_of("notices").await[0];
    assert_eq!(notice["body"]["Message_Type"], "SubscriptionDisabled");
    assert_eq!(notice["body"]["subscription_id"], created["subscription_id"]);
    // Its reader may come after days.
    assert_eq!(notice["ttl"], 1_209_600);
    let (status, text) = bench.try_to_act(&id(&created), "pause", &json!({})).await;
    assert!(status == 409 && text.contains("the subscription is disabled"), "{text}");

    bench.act(&id(&created), "resume", &json!({})).await;
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 2).await;
}

async fn nothing_is_posted_for_an_author_who_may_not_post_any_more(mut bench: Bench) {
    let failing = Endpoint::answering(|_| Answer::Status(500));
    let gone = Endpoint::answering(|_| Answer::Status(410));
    let policy = json!({"_retry_policy": retries_at_once(), "dead_letter_queue": "dead"});
    let ids = [
        id(&bench.subscribe(&failing.url("/"), policy).await),
        id(&bench.subscribe(&gone.url("/"), json!({"notify_queue": "notices"})).await),
    ];
    for id in &ids {
        bench.act(id, "pause", &json!({})).await;
    }
    bench.post(&numbers(5, 1)).await;

    bench.restart(&[("SUKKAL_POLICY__RULES", "messages:create = role:producer")]).await;
    for id in &ids {
        bench.act(id, "resume", &json!({})).await;
    }

    bench.wait_until(&ids[0], |figures| figures["given_up"] == 1).await;
    bench.wait_until(&ids[1], |figures| figures["state"] == "disabled").await;
    for queue in ["dead", "notices"] {
        assert_eq!(bench.bodies_of(queue).await, numbers(0, 0), "{queue}");
    }
}

async fn a_subscriber_is_not_called_before_the_time_that_it_asks_for(bench: Bench) {
    let endpoint = Endpoint::answering({
        let first = std::sync::atomic::AtomicBool::new(true);
        move |_| {
            let is_first = first.swap(false, std::sync::atomic::Ordering::SeqCst);
            if is_first { Answer::With(429, "retry-after", "600".to_owned()) } else { Answer::Status(200) }
        }
    });
    let created = bench.subscribe(&endpoint.url("/"), json!({"ordered": true})).await;
    bench.post(&numbers(0, 1)).await;
    bench.wait_until(&id(&created), |figures| figures["retrying"] == 1).await;

    bench.set_clock_ahead(&id(&created), 300).await;
    assert_not_called(&bench, &endpoint, &id(&created)).await;

    bench.set_clock_ahead(&id(&created), 610).await;
    assert_eq!(endpoint.bodies(4).await, [0, 0, 1, 2].map(|number| json!(number)));
}

/// Posts the messages 1 and 2, and asserts that another subscriber gets them, while this one has
/// had one attempt.
async fn assert_not_called(bench: &Bench, endpoint: &Endpoint, subscription: &str) {
    let other = Endpoint::start();
    let created = bench.subscribe(&other.url("/"), json!({"ordered": true})).await;
    for number in 1..3 {
        bench.post(&numbers(number, 1)).await;
        assert_eq!(other.bodies(number).await.last(), Some(&json!(number)));
    }
    bench.wait_until(&id(&created), |figures| figures["delivered"] == 2).await;
    assert_eq!(bench.figures(subscription).await["attempts"], 1);
    assert_eq!(endpoint.received().len(), 1);
}

async fn a_wait_that_the_subscriber_asks_for_outlasts_the_lease(mut bench: Bench) {
    let endpoint = Endpoint::answering(|_| Answer::With(503, "retry-after", "3600".to_owned()));
    let created = bench.subscribe(&endpoint.url("/"), json!({})).await;
    bench.post(&numbers(0, 1)).await;
    bench.wait_until(&id(&created), |figures| figures["retrying"] == 1).await;

    // The lease ends with the server.
    bench.restart(&[]).await;

    assert_not_called(&bench, &endpoint, &id(&created)).await;
}

/// Row 8.6-6.
async fn a_connection_that_breaks_is_a_failure(bench: Bench) {
    let endpoint = Endpoint::answering({
        let calls = std::sync::atomic::AtomicUsize::new(0);
        move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 | 1 => Answer::Reset,
            _ => Answer::Status(200),
        }
    });
    let created = bench.subscribe(&endpoint.url("/"), json!({"_retry_policy": retry_policy()})).await;

    bench.post(&numbers(0, 1)).await;

    bench.wait_until(&id(&created), |figures| figures["delivered"] == 1).await;
    assert_eq!(endpoint.received().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_kept_until_its_dead_letter_is_posted() {
    let bench = Bench::redis_with(&[]);
    let endpoint = Endpoint::answering(|_| Answer::Status(500));
    assert_eq!(bench.api.put("/v2/queues/dead").send().await.unwrap().status(), 201);
    let redis = bench.redis.as_ref().unwrap();
    let keys = redis.command(&["KEYS", "*dead*:queue"]);
    let messages = keys.items()[0].as_text().replace(":queue", ":messages");
    redis.command(&["SET", &messages, "not what messages are stored in"]);
    let options = json!({"_retry_policy": retries_at_once(), "dead_letter_queue": "dead"});
    let created = bench.subscribe(&endpoint.url("/"), options).await;
    bench.post(&numbers(5, 1)).await;
    until("the last attempt has failed", async || {
        let attempts = Value::from(attempts(&bench.api, &id(&created)).await);
        attempts.to_string().contains("its dead letter could not be posted")
    })
    .await;
    bench.wait_until(&id(&created), |figures| figures["retrying"] == 1).await;

    redis.command(&["DEL", &messages]);
    // The next attempt comes ten seconds after the last one.
    bench.set_clock_ahead(&id(&created), 12).await;

    bench.wait_until(&id(&created), |figures| figures["given_up"] == 1 && figures["retrying"] == 0).await;
    assert_eq!(bench.bodies_of("dead").await, numbers(5, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_do_not_refuse_dead_letters() {
    let bench = Bench::redis_with(&[("SUKKAL_QUOTAS__QUEUES", "1"), ("SUKKAL_QUOTAS__MESSAGES", "1")]);
    let endpoint = Endpoint::answering(|_| Answer::Status(500));
    let options = json!({"_retry_policy": retries_at_once(), "dead_letter_queue": "dead"});
    let created = bench.subscribe(&endpoint.url("/"), options).await;

    bench.post(&numbers(5, 1)).await;

    bench.wait_until(&id(&created), |figures| figures["given_up"] == 1).await;
    assert_eq!(bench.bodies_of("dead").await, numbers(5, 1));
}

super::over_each_store! {
    a_failed_notification_is_repeated_with_the_same_id,
    a_failure_in_an_ordered_subscription_holds_back_the_rest,
    a_retry_outlives_its_message,
    a_message_whose_retries_are_used_up_goes_to_the_dead_letter_queue,
    a_message_that_is_given_up_again_is_a_dead_letter_again,
    dead_letters_do_not_go_around_in_a_circle,
    nothing_is_posted_for_an_author_who_may_not_post_any_more,
    a_subscriber_that_is_gone_is_disabled_and_its_owner_is_told,
    a_subscriber_is_not_called_before_the_time_that_it_asks_for,
    a_wait_that_the_subscriber_asks_for_outlasts_the_lease,
    a_connection_that_breaks_is_a_failure,
}
