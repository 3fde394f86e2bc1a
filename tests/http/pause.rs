//! `POST …/pause` and `POST …/resume` (extensions).

use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::{Answer, CLAIMS, MESSAGES, answered, new_project, pick, send};
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};

async fn pause(api: &Api) {
    assert_eq!(answered(api.request(Method::POST, "/v2/queues/q/pause"), 204).await.text, "");
}

async fn resume(api: &Api) {
    assert_eq!(answered(api.request(Method::POST, "/v2/queues/q/resume"), 204).await.text, "");
}

fn claim(api: &Api, query: &str) -> RequestBuilder {
    api.post(&format!("{CLAIMS}?limit=1{query}"), &json!({}))
}

fn pop(api: &Api, query: &str) -> RequestBuilder {
    api.delete(&format!("{MESSAGES}?pop=1{query}"))
}

fn assert_paused(claimed: &Answer, popped: &Answer) {
    assert_eq!((claimed.status, claimed.text.as_str(), claimed.header("retry-after")), (204, "", Some("10")));
    assert_eq!((popped.status, popped.header("retry-after")), (200, Some("10")));
    assert_eq!(popped.json(), json!({"messages": []}));
}

#[tokio::test]
async fn claims_and_pops_of_a_paused_queue_get_nothing_and_may_be_retried() {
    let api = new_project();
    api.post_bodies("q", &[json!(1), json!(2)]).await;

    pause(&api).await;

    assert_paused(&send(claim(&api, "")).await, &send(pop(&api, "")).await);
    assert_eq!(api.feed("q", "").await, [1, 2]);
    resume(&api).await;
    let claimed = answered(claim(&api, ""), 201).await;
    let popped = answered(pop(&api, ""), 200).await;
    assert_eq!((claimed.header("retry-after"), popped.header("retry-after")), (None, None));
    assert_eq!((&claimed.json()["messages"][0]["body"], &popped.json()["messages"][0]["body"]), (&json!(1), &json!(2)));
    assert_eq!(answered(claim(&api, ""), 204).await.header("retry-after"), None);
    assert_eq!(answered(pop(&api, ""), 200).await.header("retry-after"), None);
}

#[tokio::test]
async fn a_pause_is_not_part_of_the_metadata() {
    let api = new_project();
    api.create("q", &json!({"color": "red"})).await;
    let before = answered(api.get("/v2/queues/q"), 200).await.text;

    pause(&api).await;

    assert_eq!(answered(api.get("/v2/queues/q"), 200).await.text, before);
    let patch = json!([{"op": "replace", "path": "/metadata/color", "value": "blue"}]);
    answered(api.patch("q", &patch), 200).await;
    answered(api.put("/v2/queues/q").json(&json!({"color": "green"})), 204).await;
    answered(api.request(Method::POST, "/v2/queues/q/purge"), 204).await;
    api.post_bodies("q", &[json!(1)]).await;
    assert_paused(&send(claim(&api, "")).await, &send(pop(&api, "")).await);
    answered(api.delete("/v2/queues/q"), 204).await;
    api.post_bodies("q", &[json!(2)]).await;
    assert_eq!(pick(&api.claim(1).await.messages, "body"), [2]);
}

#[tokio::test]
async fn a_wait_for_a_paused_queue_that_times_out_is_answered_like_a_request_without_wait() {
    let api = new_project();
    api.post_bodies("q", &[json!(1)]).await;
    pause(&api).await;
    let start = Instant::now();

    let (claimed, popped) = tokio::join!(send(claim(&api, "&wait=1")), send(pop(&api, "&wait=1")));

    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert_paused(&claimed, &popped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumption_by_another_process_answers_waiting_requests() {
    for request in [claim, pop] {
        let api = new_project();
        pause(&api).await;
        let waiting = api.start_waiting(request(&api, "&wait=30"));
        api.post_bodies("q", &[json!(1)]).await;
        let other = Sukkal::start(&api.server.redis.url());

        resume(&other.project(&api.id)).await;

        assert_eq!(pick(&waiting.await.unwrap().json()["messages"], "body"), [1]);
    }
}

#[tokio::test]
async fn a_pause_survives_a_restart() {
    let (redis, folder) = (RedisServer::shared(), tempfile::tempdir().unwrap());
    for store in [redis.url(), format!("embedded:{}", folder.path().display())] {
        let project = format!("project-{}", uuid::Uuid::new_v4());
        let mut sukkal = Sukkal::start(&store);
        let api = sukkal.project(&project);
        answered(api.post(MESSAGES, &json!({"messages": [{"body": 1}]})), 201).await;
        pause(&api).await;
        sukkal.kill();

        let next = Sukkal::start(&store);

        let api = next.project(&project);
        assert_paused(&send(claim(&api, "")).await, &send(pop(&api, "")).await);
        resume(&api).await;
        answered(claim(&api, ""), 201).await;
    }
}
