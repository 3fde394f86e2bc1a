//! Fact sheet 6.1 and 5: how long a posted message is delayed, and which delays are refused.
//!
//! | row | test |
//! |---|---|
//! | 5 `_default_message_delay` > 0 makes a delayed queue | `a_delay_has_an_effect_only_in_a_queue_with_a_default_delay` |
//! | 6.1 default = the queue's delay | `a_message_without_a_delay_has_the_default_delay_of_its_queue` |
//! | 6.1 `delay` not int 400 · outside 0..900 400 | `an_invalid_delay_is_refused_and_posts_nothing` |
//! | 6.1 order of checks | `the_first_failed_check_decides_the_error` |
//! | 6.1 receipt in request order | `the_receipt_lists_delayed_messages_in_request_order` |
//! | metadata through another process | `a_default_delay_set_through_another_process_takes_effect` |
//! | operations on delayed messages | `delayed_messages.rs` |

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    INVALID_BODY, INVALID_REQUEST, MESSAGES, Project, Server, answered, new_movable_project, new_project, pick,
    refused, send,
};

const NO_INTEGER: &str = "The value of the \"delay\" field must be a int.";

/// 5: a queue delays messages only if its default delay is above 0.
/// Row 6.1-14.
#[tokio::test]
async fn a_delay_has_an_effect_only_in_a_queue_with_a_default_delay() {
    let delays = [json!(900), json!(0), json!(-1), json!(901), json!("soon"), json!(1.5), json!(null), json!([])];
    let messages: Vec<Value> = delays.iter().map(|delay| json!({"body": delay, "delay": delay})).collect();

    for metadata in [json!({}), json!({"_default_message_delay": 0}), json!({"_default_message_delay": null})] {
        let api = new_project();
        api.create("q", &metadata).await;

        api.post_messages("q", &json!(messages)).await;

        assert_eq!(api.feed("q", "").await, delays, "{metadata}");
        assert_eq!(pick(&api.claim(20).await.messages, "body"), delays, "{metadata}");
    }
}

/// 6.1: the default is the queue's delay.
/// Row 6.1-15.
#[tokio::test]
async fn a_message_without_a_delay_has_the_default_delay_of_its_queue() {
    let api = new_movable_project();
    api.create("q", &json!({"_default_message_delay": 300})).await;
    let messages = json!([
        {"body": "default"},
        {"body": "none", "delay": 0},
        {"body": "least", "delay": 100},
        {"body": "most", "delay": 900},
    ]);

    api.post_messages("q", &messages).await;

    for (clock, seen) in [
        (0, &["none"][..]),
        (80, &["none"]),
        (101, &["none", "least"]),
        (280, &["none", "least"]),
        (301, &["none", "least", "default"]),
        (880, &["none", "least", "default"]),
        (901, &["none", "least", "default", "most"]),
    ] {
        api.set_clock_ahead(clock).await;
        assert_eq!(api.feed("q", "").await, seen, "{clock} s later");
    }
}

/// Row 6.1-21.
#[tokio::test]
async fn the_receipt_lists_delayed_messages_in_request_order() {
    let api = new_project();
    api.create("q", &json!({"_default_message_delay": 300})).await;
    let messages = json!({"messages": [
        {"body": "b", "delay": 200},
        {"body": "a", "delay": 100},
        {"body": "c"},
        {"body": "0", "delay": 0},
    ]});

    let posted = answered(api.post(MESSAGES, &messages), 201).await;

    let found = answered(api.get(posted.header("location").unwrap()), 200).await.json();
    assert_eq!(pick(&found["messages"], "href"), *posted.json()["resources"].as_array().unwrap());
    assert_eq!(pick(&found["messages"], "body"), ["b", "a", "c", "0"]);
}

/// 6.1: not int, and outside 0..900. To the API, `true` is 1 (1.2).
/// Rows 6.1-15, 6.1-18.
#[tokio::test]
async fn an_invalid_delay_is_refused_and_posts_nothing() {
    let api = new_project();
    api.create("q", &json!({"_default_message_delay": 300})).await;
    let post = |delay: &Value| {
        api.post(MESSAGES, &json!({"messages": [{"body": "good", "delay": 0}, {"body": "bad", "delay": delay}]}))
    };

    for delay in [json!(null), json!("5"), json!(""), json!(5.0), json!(0.0), json!([]), json!([5]), json!({})] {
        assert_eq!(refused(post(&delay), 400, INVALID_BODY).await, NO_INTEGER, "{delay}");
    }
    for delay in [-1, 901, 4_294_967_296, i64::MAX, i64::MIN] {
        let description = refused(post(&json!(delay)), 400, INVALID_REQUEST).await;
        assert!(description.contains("delay") && description.contains("900"), "{description}");
    }
    assert_eq!(api.stats("q").await["total"], 0);
    for delay in [json!(0), json!(900), json!(true)] {
        answered(post(&delay), 201).await;
    }
    assert_eq!(api.stats("q").await["total"], 6);
}

/// Row 6.1-19.
#[tokio::test]
async fn the_first_failed_check_decides_the_error() {
    let api = new_project();
    api.create("q", &json!({"_default_message_delay": 300, "_max_messages_post_size": 100})).await;
    let good = json!({"body": 1});

    for (messages, title, expected) in [
        // Each case fails the check of its row in the fact sheet, and those of all later rows.
        (json!([{"body": "x".repeat(100), "delay": "x"}]), INVALID_REQUEST, "bytes"),
        (json!({"delay": "x"}), INVALID_BODY, "Document type"),
        (json!([{"ttl": "x", "delay": "x"}]), INVALID_BODY, "\"ttl\""),
        (json!([{"delay": "x"}]), INVALID_BODY, "\"body\""),
        (json!([{"body": 1, "ttl": 1, "delay": "x"}]), INVALID_BODY, "\"delay\""),
        // Types of all messages are checked before the range of any message.
        (json!([{"body": 1, "delay": 901}, good, {"body": 1, "delay": "x"}]), INVALID_BODY, "\"delay\""),
        (json!([good, {"body": 1, "ttl": 1}]), INVALID_REQUEST, "ttl"),
    ] {
        let answer = send(api.post(MESSAGES, &json!({ "messages": messages }))).await;
        assert_eq!(answer.status, 400, "{messages}");
        let description = answer.refusal(400, title);
        assert!(description.contains(expected), "{messages}: {description}");
    }
    assert_eq!(api.stats("q").await["total"], 0);
}

#[tokio::test]
async fn a_default_delay_set_through_another_process_takes_effect() {
    let here = new_movable_project();
    let there = Project::of(&Arc::new(Server::start_movable(&[])), &here.id);
    let delay = |seconds: u32| json!([{"op": "add", "path": "/metadata/_default_message_delay", "value": seconds}]);
    here.post_bodies("q", &[json!("at once")]).await;

    answered(there.patch("q", &delay(300)), 200).await;
    here.post_bodies("q", &[json!("later")]).await;
    let description =
        refused(here.post(MESSAGES, &json!({"messages": [{"body": 1, "delay": "x"}]})), 400, INVALID_BODY);
    assert_eq!(description.await, NO_INTEGER);
    assert_eq!(here.feed("q", "").await, ["at once"]);

    answered(there.patch("q", &delay(0)), 200).await;
    here.post_messages("q", &json!([{"body": "at once again", "delay": 900}])).await;
    for api in [&here, &there] {
        assert_eq!(api.feed("q", "").await, ["at once", "at once again"]);
    }
    here.set_clock_ahead(301).await;
    assert_eq!(there.feed("q", "").await, ["at once", "at once again", "later"]);
}
