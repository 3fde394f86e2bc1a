//! `_enable_message_delay` (an extension): a queue honors the delay of each message, up to
//! `max_message_delay`, and the life of a message begins when its delay ends.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    INVALID_BODY, INVALID_REQUEST, MESSAGES, Project, Server, answered, new_movable_project, new_project, pick, refused,
};

const DAY_S: i64 = 86_400;

#[tokio::test]
async fn a_queue_that_enables_delays_honors_the_delay_of_each_message() {
    let api = new_movable_project();
    api.create("q", &json!({"_enable_message_delay": true})).await;
    let messages = json!([{"body": "later", "delay": 900}, {"body": "now"}, {"body": "soon", "delay": 100}]);

    let posted = answered(api.post(MESSAGES, &json!({ "messages": messages })), 201).await;

    assert_eq!(posted.header("sukkal-warning"), None);
    for (clock, seen) in [(0, &["now"][..]), (101, &["now", "soon"]), (901, &["now", "soon", "later"])] {
        api.set_clock_ahead(clock).await;
        assert_eq!(api.feed("q", "").await, seen, "{clock} s later");
    }
    for (delay, title) in [(json!(901), INVALID_REQUEST), (json!(-1), INVALID_REQUEST), (json!("x"), INVALID_BODY)] {
        refused(api.post(MESSAGES, &json!({"messages": [{"body": 1, "delay": delay}]})), 400, title).await;
    }
}

#[tokio::test]
async fn a_queue_can_enable_delays_and_have_a_default() {
    let api = new_movable_project();
    api.create("q", &json!({"_enable_message_delay": true, "_default_message_delay": 300})).await;

    api.post_messages("q", &json!([{"body": "default"}, {"body": "now", "delay": 0}])).await;

    assert_eq!(api.feed("q", "").await, ["now"]);
    api.set_clock_ahead(301).await;
    assert_eq!(api.feed("q", "").await, ["now", "default"]);
}

#[tokio::test]
async fn the_life_of_a_message_begins_when_its_delay_ends() {
    let api = new_movable_project();
    api.create("q", &json!({"_enable_message_delay": true, "_default_message_ttl": 100})).await;
    api.post_messages("q", &json!([{"body": "own", "ttl": 60, "delay": 900}, {"body": "default", "delay": 900}])).await;

    let page = answered(api.get(&format!("{MESSAGES}?echo=true&include_delayed=true")), 200).await.json();

    // The ttl counts from the post, as the age does.
    assert_eq!(pick(&page["messages"], "ttl"), [960, 1000]);
    for (clock, seen) in [(940, &["own", "default"][..]), (963, &["default"]), (1003, &[])] {
        api.set_clock_ahead(clock).await;
        assert_eq!(api.feed("q", "").await, *seen, "{clock} s later");
    }
}

#[tokio::test]
async fn an_operator_may_allow_delays_of_30_days() {
    let server = Arc::new(Server::start_movable(&[("SUKKAL_TRANSPORT__MAX_MESSAGE_DELAY", "2592000")]));
    let api = Project::of(&server, "long-delays");
    api.create("q", &json!({"_enable_message_delay": true})).await;
    // The longest ttl is shorter than the delay, but begins after it.
    api.post_messages("q", &json!([{"body": 1, "delay": 30 * DAY_S, "ttl": 14 * DAY_S}])).await;

    let too_long = json!({"messages": [{"body": 2, "delay": 30 * DAY_S + 1}]});
    let description = refused(api.post(MESSAGES, &too_long), 400, INVALID_REQUEST).await;
    assert_eq!(
        description,
        "delay is 2592001; it must be between 0 and 2592000, which the operator sets with max_message_delay"
    );
    for (clock, seen) in [(30 * DAY_S - 60, &[][..]), (30 * DAY_S + 1, &[1]), (44 * DAY_S - 60, &[1])] {
        api.set_clock_ahead(clock).await;
        assert_eq!(api.feed("q", "").await, *seen, "{clock} s later");
    }
    api.set_clock_ahead(44 * DAY_S + 3).await;
    assert_eq!(api.feed("q", "").await, [""; 0]);
}

#[tokio::test]
async fn only_true_enables_delays() {
    let api = new_project();
    for value in [json!(false), json!(null)] {
        let patch = json!([{"op": "add", "path": "/metadata/_enable_message_delay", "value": value}]);
        api.create("q", &json!({})).await;
        answered(api.patch("q", &patch), 200).await;

        let posted = answered(api.post(MESSAGES, &json!({"messages": [{"body": 1, "delay": 100}]})), 201).await;

        let warning = posted.header("sukkal-warning").expect("the delay has no effect");
        assert!(warning.contains("_enable_message_delay"), "{warning}");
        assert_eq!(api.feed("q", "").await, [1], "{value}");
        answered(api.delete("/v2/queues/q"), 204).await;
    }
    for value in [json!(1), json!("true"), json!(900)] {
        let metadata = json!({"_enable_message_delay": value});
        let description = refused(api.put("/v2/queues/q").json(&metadata), 400, INVALID_REQUEST).await;
        assert_eq!(description, "_enable_message_delay must be a boolean");
    }
    // Published clients see only the published keys, unless the owner sets it.
    let shown: Value = answered(api.get("/v2/queues/other"), 200).await.json();
    assert_eq!(shown.get("_enable_message_delay"), None);
}
