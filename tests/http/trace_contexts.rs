//! `include_trace` (an extension): shows the `traceparent` of the request that posted a message.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{INVALID_PARAMETER, MESSAGES, answered, ids, new_project, pick, refused};
use support::events::Events;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER_TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-53ce929d0e0e4736-00";

/// Sends a post with this header, and returns the ids of its messages.
async fn traced(post: RequestBuilder, traceparent: &str) -> Vec<String> {
    ids(&answered(post.header("traceparent", traceparent), 201).await.json())
}

#[tokio::test]
async fn every_operation_shows_the_trace_context_on_request() {
    let api = new_project();
    let posted = traced(api.post(MESSAGES, &json!({"messages": [{"body": 1}, {"body": 2}]})), TRACE).await;
    let id = &posted[0];
    let both = [TRACE, TRACE];
    let shown = async |path: String| answered(api.get(&path), 200).await.json();

    let page = shown(format!("{MESSAGES}?echo=true&include_trace=true")).await;
    assert_eq!(pick(&page["messages"], "traceparent"), both);
    let link = format!("{MESSAGES}?echo=true&include_delayed=true&include_trace=true&marker={}", posted[1]);
    assert_eq!(page["links"][0]["href"], link);
    assert_eq!(pick(&shown(format!("{MESSAGES}?ids={id}&include_trace=1")).await["messages"], "traceparent"), [TRACE]);
    let message = shown(format!("{MESSAGES}/{id}?include_trace=true")).await;
    let keys: Vec<_> = message.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "href", "ttl", "age", "body", "traceparent"]);
    assert_eq!(message["traceparent"], TRACE);
    let mut events = Events::open(api.get(&format!("{MESSAGES}?echo=true&include_trace=true"))).await;
    assert_eq!(events.next().await.unwrap().data["traceparent"], TRACE);
    let claim = answered(api.post("/v2/queues/q/claims?include_trace=true", &json!({})), 201).await;
    assert_eq!(pick(&claim.json()["messages"], "traceparent"), both);
    let path = claim.header("location").unwrap();
    assert_eq!(pick(&shown(format!("{path}?include_trace=true")).await["messages"], "traceparent"), both);
    answered(api.delete(path), 204).await;
    let popped = answered(api.delete(&format!("{MESSAGES}?pop=2&include_trace=true")), 200).await.json();
    assert_eq!(pick(&popped["messages"], "traceparent"), both);
}

#[tokio::test]
async fn the_trace_context_is_shown_only_on_request() {
    let api = new_project();
    let id = traced(api.post(MESSAGES, &json!({"messages": [{"body": 1}]})), TRACE).await.remove(0);
    let untraced = api.post_bodies("q", &[json!(2)]).await.remove(0);

    for path in [format!("{id}?include_trace=false"), id, format!("{untraced}?include_trace=true")] {
        let message = answered(api.get(&format!("{MESSAGES}/{path}")), 200).await.json();
        assert_eq!(
            message.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["id", "href", "ttl", "age", "body"],
            "{path}"
        );
    }
    refused(api.get(&format!("{MESSAGES}?include_trace=perhaps")), 400, INVALID_PARAMETER).await;
}

#[tokio::test]
async fn an_invalid_traceparent_is_ignored() {
    let api = new_project();
    let post = || api.post(MESSAGES, &json!({"messages": [{"body": 1}]}));
    let mut ids = Vec::new();
    for invalid in ["", "x", &TRACE.to_uppercase(), &TRACE.replacen("00", "01", 1), &format!("{TRACE}-00")] {
        ids.extend(traced(post(), invalid).await);
    }
    // Of two values it is unknown which one is right.
    ids.extend(traced(post().header("traceparent", TRACE), OTHER_TRACE).await);

    let found = answered(api.get(&format!("{MESSAGES}?ids={}&include_trace=true", ids.join(","))), 200).await.json();

    assert_eq!(pick(&found["messages"], "traceparent"), vec![Value::Null; ids.len()]);
}

/// A client that repeats a request may have started another span for it.
#[tokio::test]
async fn an_idempotency_key_does_not_depend_on_the_traceparent() {
    let api = new_project();
    let post = || api.post(MESSAGES, &json!({"messages": [{"body": 1}]})).header("Idempotency-Key", "once");

    let first = traced(post(), TRACE).await;

    assert_eq!(traced(post(), OTHER_TRACE).await, first);
    let message = answered(api.get(&format!("{MESSAGES}/{}?include_trace=true", first[0])), 200).await.json();
    assert_eq!(message["traceparent"], TRACE);
}
