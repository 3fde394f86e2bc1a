//! Everything that the API shows about a project.

use serde_json::{Value, json};

use crate::http::{answered, follow};
use support::sukkal::Api;

const ATTEMPTS: usize = 3;

/// Returns all documents about a project, without ages.
pub(crate) async fn view_of(api: &Api) -> Value {
    let list = follow(api, "/v2/queues?limit=20&detailed=true&with_stats=true&with_count=true", "queues").await;
    let mut queues = Vec::new();
    for queue in &list {
        queues.push(view_of_queue(api, queue["name"].as_str().unwrap()).await);
    }
    let topics = follow(api, "/v2/topics?limit=20&detailed=true&with_stats=true", "topics").await;
    let of_topic = follow(api, "/v2/topics/plain/messages?limit=20&echo=true", "messages").await;
    let mut tokens = answered(api.get("/v2/tokens?limit=20").header("X-Roles", "admin"), 200).await.json();
    let mut usage = answered(api.get("/v2/usage"), 200).await.json()["usage"].take();
    // The rates of requests differ.
    usage.as_object_mut().unwrap().retain(|name, _| !name.ends_with("_per_second"));
    let tokens = tokens["tokens"].take();
    without_ages(json!({
        "list": list, "queues": queues, "topics": topics, "of_topic": of_topic, "tokens": tokens, "usage": usage,
    }))
}

/// Returns all documents about a queue, without ages.
pub(crate) async fn view_of_queue(api: &Api, queue: &str) -> Value {
    let path = format!("/v2/queues/{queue}");
    let all = "limit=1000&echo=true&include_claimed=true&include_delayed=true&include_state=true&include_trace=true\
               &include_origin=true";
    let metadata = answered(api.get(&path), 200).await.json();
    let stats = answered(api.get(&format!("{path}/stats?detailed=true")), 200).await.json();
    let messages = follow(api, &format!("{path}/messages?{all}"), "messages").await;
    let available = follow(api, &format!("{path}/messages?limit=1000&echo=true"), "messages").await;
    let claims = follow(api, &format!("{path}/claims?limit=20"), "claims").await;
    let mut contents = Vec::new();
    for claim in &claims {
        contents.push(answered(api.get(claim["href"].as_str().unwrap()), 200).await.json());
    }
    let tasks = answered(api.get(&format!("{path}/tasks")), 200).await.json();
    let subscriptions = follow(api, &format!("{path}/subscriptions?limit=20"), "subscriptions").await;
    let mut deliveries = Vec::new();
    for subscription in &subscriptions {
        let path = format!("{path}/subscriptions/{}", subscription["id"].as_str().unwrap());
        deliveries.push(answered(api.get(&format!("{path}?with_delivery=true")), 200).await.json());
        deliveries.push(answered(api.get(&format!("{path}/attempts")), 200).await.json());
    }
    without_ages(json!({
        "metadata": metadata, "stats": stats, "messages": messages, "available": available, "claims": claims,
        "contents": contents, "tasks": tasks, "subscriptions": subscriptions, "deliveries": deliveries,
    }))
}

/// Asserts that Redis shows the same as the embedded store. Views that were taken while something
/// became due are taken again.
pub(crate) async fn assert_equal(embedded: &Api, redis: &Api, view: impl AsyncFn(&Api) -> Value) {
    let mut difference = None;
    for _ in 0..ATTEMPTS {
        let (one, other) = (view(embedded).await, view(redis).await);
        difference = difference_of("", &one, &other);
        if difference.is_none() {
            return;
        }
    }
    assert!(difference.is_none(), "{}", difference.unwrap_or_default());
}

/// Asserts that two views are equal.
pub(crate) fn assert_equal_views(one: &Value, other: &Value) {
    let difference = difference_of("", one, other);
    assert!(difference.is_none(), "{}", difference.unwrap_or_default());
}

/// Returns the first part that differs.
fn difference_of(path: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) if fields.keys().eq(others.keys()) => {
            fields.iter().find_map(|(name, field)| difference_of(&format!("{path}.{name}"), field, &others[name]))
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let mut pairs = items.iter().zip(others).enumerate();
            pairs.find_map(|(at, (item, other))| difference_of(&format!("{path}[{at}]"), item, other))
        }
        _ => (one != other).then(|| format!("{path}: first {one}, then {other}")),
    }
}

/// Returns the document without ages, which change by themselves.
pub(crate) fn without_ages(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| name != "age" && !name.ends_with("_age"));
            Value::Object(kept.map(|(name, field)| (name, without_ages(field))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_ages).collect(),
        value => value,
    }
}
