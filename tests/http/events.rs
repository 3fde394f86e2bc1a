//! The feed as server-sent events: `GET …/messages` with `Accept: text/event-stream`.

use std::sync::Arc;

use reqwest::Method;
use serde_json::json;

use super::{MESSAGES, Project, Server, answered, new_project, numbers, post_as, refused};
use support::events::Events;
use support::sukkal::CLIENT;

const ECHO: &str = "/v2/queues/q/messages?echo=true";

#[tokio::test]
async fn a_stream_delivers_the_feed() {
    let api = new_project();
    let ids = api.post_bodies("q", &numbers(0..3)).await;
    let mut events = Events::open(api.get(ECHO)).await;

    for (number, id) in ids.iter().enumerate() {
        let event = events.next().await.unwrap();
        assert_eq!((event.kind.as_str(), &event.id), ("message", id));
        let mut shown = answered(api.get(&format!("{MESSAGES}/{id}")), 200).await.json();
        shown["age"] = event.data["age"].clone();
        assert_eq!((event.data["body"].clone(), event.data), (json!(number), shown));
    }
    api.post_bodies("q", &numbers(3..30)).await;
    assert_eq!(events.bodies(27).await, numbers(3..30));
}

#[tokio::test]
async fn a_resumed_stream_misses_and_repeats_nothing() {
    let api = new_project();
    api.post_bodies("q", &numbers(0..5)).await;
    let mut last = String::new();
    for number in 0..5 {
        let request = if last.is_empty() { api.get(ECHO) } else { api.get(ECHO).header("Last-Event-ID", &last) };
        let event = Events::open(request).await.next().await.unwrap();
        assert_eq!(event.data["body"], number);
        last = event.id;
    }
    // `Last-Event-ID`, which a browser sends when it reconnects, takes precedence over the URL.
    let request = api.get(&format!("{ECHO}&since=now")).header("Last-Event-ID", &last);
    let mut events = Events::open(request).await;
    api.post_bodies("q", &numbers(5..6)).await;
    assert_eq!(events.bodies(1).await, [5]);
}

#[tokio::test]
async fn a_stream_starts_at_the_marker_or_time_of_the_request() {
    let api = new_project();
    let ids = api.post_bodies("q", &numbers(0..3)).await;

    let mut after = Events::open(api.get(&format!("{ECHO}&marker={}", ids[1]))).await;
    assert_eq!(after.bodies(1).await, [2]);
    // A message posted while the stream is open comes after `now`.
    for number in 3..20 {
        let mut now = Events::open(api.get(&format!("{ECHO}&since=now"))).await;
        api.post_bodies("q", &numbers(number..=number)).await;
        assert_eq!(now.bodies(1).await, [number]);
    }
    let mut since = Events::open(api.get(&format!("{ECHO}&since=1970-01-01T00:00:00Z"))).await;
    assert_eq!(since.bodies(3).await, numbers(0..3));
}

#[tokio::test]
async fn a_stream_applies_the_filters_of_a_list() {
    let api = new_project();
    api.post_bodies("q", &[json!("own")]).await;
    post_as(&api.client(super::OTHER_CLIENT), "q", &[json!("claimed"), json!("free")]).await;
    let claim = answered(api.post("/v2/queues/q/claims?limit=2", &json!({})), 201).await.json();
    assert_eq!(claim["messages"][1]["body"], "claimed");

    assert_eq!(Events::open(api.get(MESSAGES)).await.bodies(1).await, ["free"]);
    let mut all = Events::open(api.get(&format!("{ECHO}&include_claimed=true"))).await;
    assert_eq!(all.bodies(3).await, ["own", "claimed", "free"]);
}

#[tokio::test]
async fn an_event_stream_takes_project_and_client_from_the_query() {
    let api = new_project();
    api.post_bodies("q", &[json!(1)]).await;
    let path = format!("{ECHO}&project_id={}&client_id={CLIENT}", api.id);

    let mut events = Events::open(api.bare(Method::GET, &path)).await;
    assert_eq!(events.bodies(1).await, [1]);

    let bare = |query: &str| api.bare(Method::GET, &format!("{ECHO}{query}")).header("Accept", "text/event-stream");
    refused(bare("&project_id=p"), 400, "Missing header value").await;
    refused(bare(&format!("&client_id={CLIENT}")), 400, "Project-Id Missing").await;
    refused(bare("&project_id=p&client_id=x"), 400, "Wrong UUID value").await;
    // No other request takes the project and the client from the query.
    refused(api.bare(Method::GET, &path), 400, "Missing header value").await;
    refused(api.bare(Method::GET, &path.replace("/messages", "/stats")), 400, "Missing header value").await;
}

#[tokio::test]
async fn headers_take_precedence_over_the_query() {
    let api = new_project();
    api.post_bodies("q", &[json!("ours")]).await;
    let other = new_project();
    other.post_bodies("q", &[json!("theirs")]).await;

    let mut events = Events::open(api.get(&format!("{ECHO}&project_id={}", other.id))).await;

    assert_eq!(events.bodies(1).await, ["ours"]);
}

#[tokio::test]
async fn an_invalid_start_position_is_refused() {
    let api = new_project();
    let stream = |path: &str| api.get(path).header("Accept", "text/event-stream");

    refused(stream(&format!("{MESSAGES}?marker=x")), 400, super::INVALID_REQUEST).await;
    refused(stream(MESSAGES).header("Last-Event-ID", "x"), 400, super::INVALID_REQUEST).await;
    refused(stream(&format!("{MESSAGES}?since=x")), 400, super::INVALID_PARAMETER).await;
    refused(stream(&format!("{MESSAGES}?limit=0")), 400, super::INVALID_REQUEST).await;
}

#[tokio::test]
async fn events_are_sent_only_if_the_client_prefers_them() {
    let api = new_project();
    for accept in [
        "application/json",
        "*/*",
        "application/json, text/event-stream;q=0",
        "text/event-stream;q=0, */*",
        "application/json, text/event-stream",
        "text/event-stream, */*",
        "text/event-stream;q=0.1, application/json;q=0.2, */*;q=0",
    ] {
        let answer = answered(api.get(MESSAGES).header("Accept", accept), 200).await;
        assert_eq!(answer.header("content-type"), Some("application/json"), "{accept}");
    }
    for accept in ["text/event-stream", "text/event-stream, */*;q=0.1", "application/json;q=0.9, Text/Event-Stream"] {
        let stream = api.get(MESSAGES).header("Accept", accept).send().await.unwrap();
        assert_eq!(stream.headers()["content-type"], "text/event-stream", "{accept}");
    }
    refused(api.get("/v2/queues").header("Accept", "text/event-stream"), 406, "Media type not acceptable").await;
}

#[tokio::test]
async fn an_idle_stream_sends_heartbeats() {
    let server = Arc::new(Server::start(&[("SUKKAL_TRANSPORT__STREAM_HEARTBEAT", "1")]));
    let api = Project::of(&server, "p");
    let mut events = Events::open(api.get(ECHO)).await;

    events.heartbeat().await;
    events.heartbeat().await;
    api.post_bodies("q", &[json!(1)]).await;
    assert_eq!(events.bodies(1).await, [1]);
}

#[tokio::test]
async fn an_unreadable_message_ends_the_stream_with_a_failure_event() {
    let key = |key| Arc::new(Server::start(&[(super::KEY_OPTION, key)]));
    let (with_key, without) = (key("the one"), key("another"));
    let (api, blind) = (Project::of(&with_key, "events-sealed"), Project::of(&without, "events-sealed"));
    api.create("q", &json!({ "_enable_encrypt_messages": true })).await;
    api.post_bodies("q", &[json!("sealed")]).await;
    let mut events = Events::open(blind.get(ECHO)).await;

    let event = events.next().await.unwrap();

    assert_eq!(event.kind, "failure");
    assert!(event.data["description"].as_str().unwrap().contains("another key"), "{event:?}");
    assert_eq!(events.next().await, None);
}
