//! `include_state` (an extension): shows whether a message is available, claimed or delayed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{
    INVALID_PARAMETER, INVALID_REQUEST, MESSAGES, OTHER_CLIENT, Project, answered, new_movable_project, new_project,
    pick, refused, text,
};
use support::sukkal::CLIENT;

/// Maximum duration of a test, in seconds.
const TEST_S: i64 = 60;

const KEYS: [&str; 11] = [
    "id",
    "href",
    "ttl",
    "age",
    "body",
    "state",
    "claim_id",
    "client_id",
    "claim_count",
    "first_claimed_at",
    "available_at",
];

/// Returns the messages of a list that includes all of them.
async fn listed(api: &Project, query: &str) -> Vec<Value> {
    let path = format!("{MESSAGES}?echo=true&include_claimed=true&include_delayed=true&include_state=true{query}");
    let mut page = answered(api.get(&path), 200).await.json();
    page["messages"].as_array_mut().unwrap().drain(..).collect()
}

/// Asserts that a time is this number of seconds from now.
fn assert_in_seconds(time: &Value, seconds: i64) {
    assert!(text(time).ends_with('Z') && text(time).len() == "2026-11-22T12:00:00Z".len(), "{time}");
    let time = OffsetDateTime::parse(text(time), &Rfc3339).unwrap().unix_timestamp();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let ahead = time - i64::try_from(now).unwrap();
    assert!((seconds - TEST_S..=seconds + 1).contains(&ahead), "{ahead} s ahead instead of {seconds}");
}

#[tokio::test]
async fn every_state_is_shown_with_what_applies_to_it() {
    let api = new_project();
    api.create("q", &json!({"_enable_message_delay": true, "_max_claim_count": 5, "_dead_letter_queue": "dlq"})).await;
    let messages = json!([{"body": "returned"}, {"body": "claimed"}, {"body": "free"}, {"body": "late", "delay": 600}]);
    let ids = api.post_messages("q", &messages).await;
    let body = json!({"ttl": 300, "grace": 60});
    let claim = answered(api.client(OTHER_CLIENT).post("/v2/queues/q/claims?limit=2", &body), 201).await;
    let claim = claim.header("location").unwrap();
    answered(api.delete(&format!("{claim}/messages/{}?delay=100", ids[0])), 204).await;
    let claim_id = claim.rsplit('/').next().unwrap();

    let [returned, claimed, free, late] = &listed(&api, "").await[..] else { panic!("not four messages") };

    assert_eq!(claimed.as_object().unwrap().keys().collect::<Vec<_>>(), KEYS);
    let shown =
        |message: &Value| ["body", "state", "claim_id", "client_id", "claim_count"].map(|key| message[key].clone());
    let none = Value::Null;
    assert_eq!(shown(returned), [json!("returned"), json!("delayed"), none.clone(), none.clone(), json!(1)]);
    assert_eq!(shown(claimed), [json!("claimed"), json!("claimed"), json!(claim_id), json!(OTHER_CLIENT), json!(1)]);
    assert_eq!(shown(free), [json!("free"), json!("available"), none.clone(), none.clone(), json!(0)]);
    assert_eq!(shown(late), [json!("late"), json!("delayed"), none.clone(), none.clone(), json!(0)]);
    assert_in_seconds(&returned["available_at"], 100);
    assert_in_seconds(&claimed["available_at"], 300);
    assert_in_seconds(&late["available_at"], 600);
    assert_eq!(free["available_at"], none);
    assert_in_seconds(&claimed["first_claimed_at"], 0);
    assert_eq!((&returned["first_claimed_at"], &free["first_claimed_at"]), (&claimed["first_claimed_at"], &none));
}

#[tokio::test]
async fn claims_and_pops_show_which_attempt_they_are() {
    let api = new_movable_project();
    api.post_bodies("q", &[json!(0)]).await;
    let claim = async || answered(api.post("/v2/queues/q/claims?include_state=true", &json!({})), 201).await;
    let attempt = |message: &Value| ["claim_id", "claim_count"].map(|key| message[key].clone());
    let first = claim().await;
    let path = first.header("location").unwrap();
    let first_claimed_at = first.json()["messages"][0]["first_claimed_at"].clone();

    assert_eq!(first.json()["id"], path.rsplit('/').next().unwrap());
    assert_eq!(attempt(&first.json()["messages"][0]), [first.json()["id"].clone(), json!(1)]);
    assert_in_seconds(&first_claimed_at, 0);
    let shown = answered(api.get(&format!("{path}?include_state=true")), 200).await.json();
    assert_eq!((&shown["id"], &shown["messages"]), (&first.json()["id"], &first.json()["messages"]));
    let plain = answered(api.get(path), 200).await.json();
    assert_eq!((plain.get("id"), plain["messages"][0].get("claim_count")), (None, None));

    api.set_clock_ahead(400).await;
    let second = claim().await.json();
    assert_eq!(attempt(&second["messages"][0]), [second["id"].clone(), json!(2)]);
    assert_eq!(second["messages"][0]["first_claimed_at"], first_claimed_at);
    api.set_clock_ahead(800).await;
    let popped = answered(api.delete(&format!("{MESSAGES}?pop=1&include_state=true")), 200).await.json();
    assert_eq!(
        (&popped["messages"][0]["claim_count"], &popped["messages"][0]["first_claimed_at"]),
        (&json!(3), &first_claimed_at)
    );
}

#[tokio::test]
async fn a_message_whose_first_delivery_is_a_pop_was_not_claimed() {
    let api = new_project();
    api.post_bodies("q", &[json!(0)]).await;

    let popped = answered(api.delete(&format!("{MESSAGES}?pop=1&include_state=true")), 200).await.json();

    assert_eq!(
        (&popped["messages"][0]["claim_count"], &popped["messages"][0]["first_claimed_at"]),
        (&json!(1), &Value::Null)
    );
}

#[tokio::test]
async fn lists_and_gets_show_the_same_states_on_request() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(0), json!(1)]).await;
    api.claim(1).await;
    let without_age = |mut message: Value| {
        message["age"] = Value::Null;
        message
    };
    let expected: Vec<Value> = listed(&api, "").await.into_iter().map(without_age).collect();
    assert_eq!(pick(&expected.clone().into(), "client_id"), [json!(CLIENT), Value::Null]);

    let path = format!("{MESSAGES}?ids={},{}&include_state=true", ids[0], ids[1]);
    let mut some = answered(api.get(&path), 200).await.json();
    let some: Vec<Value> = some["messages"].as_array_mut().unwrap().drain(..).map(without_age).collect();
    assert_eq!(some, expected);
    for (id, expected) in ids.iter().zip(&expected) {
        let one = answered(api.get(&format!("{MESSAGES}/{id}?include_state=true")), 200).await.json();
        assert_eq!(without_age(one), *expected);
        let plain = answered(api.get(&format!("{MESSAGES}/{id}?include_state=false")), 200).await.json();
        assert_eq!(plain.as_object().unwrap().keys().collect::<Vec<_>>(), KEYS[..5]);
    }
    refused(api.get(&format!("{MESSAGES}?include_state=perhaps")), 400, INVALID_PARAMETER).await;
}

#[tokio::test]
async fn the_links_of_a_list_keep_include_state() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(0), json!(1)]).await;

    let page = answered(api.get(&format!("{MESSAGES}?echo=true&limit=1&include_state=yes")), 200).await.json();

    let query = "limit=1&echo=true&include_delayed=true&include_state=true";
    assert_eq!(page["links"][0]["href"], format!("{MESSAGES}?{query}&marker={}", ids[0]));
    let waited = answered(api.get(&format!("{MESSAGES}?echo=true&wait=1&include_state=true")), 200).await.json();
    assert_eq!(pick(&waited["messages"], "state"), ["available", "available"]);
}

#[tokio::test]
async fn an_event_stream_has_no_states() {
    let api = new_project();
    let stream = api.get(&format!("{MESSAGES}?include_state=true")).header("Accept", "text/event-stream");

    let description = refused(stream, 400, INVALID_REQUEST).await;

    assert!(description.contains("\"include_state\" is not possible in an event stream"), "{description}");
}
