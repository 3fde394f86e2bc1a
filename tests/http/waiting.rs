//! `wait=`: long polling. A list, claim or pop without messages waits until there are some.

use std::time::{Duration, Instant};

use reqwest::RequestBuilder;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{
    Answer, INVALID_PARAMETER, INVALID_REQUEST, MESSAGES, Project, answered, new_project, pick, post_as, refused, send,
};
use support::waiting::block_until;

/// Wait time in seconds. It is much longer than any response of these tests may take.
const LONG_S: u32 = 30;

impl Project {
    /// Returns how many processes are subscribed to the queue `q`.
    fn waiting_processes(&self) -> i64 {
        let channel = format!("sukkal:{{{}/q}}:queue", self.id);
        self.server.redis.command(&["PUBSUB", "SHARDNUMSUB", &channel]).items()[1].as_int()
    }

    /// Sends a request and returns as soon as it waits.
    pub(super) fn start_waiting(&self, request: RequestBuilder) -> JoinHandle<Answer> {
        let answer = tokio::spawn(send(request));
        block_until("a request waits", || self.waiting_processes() == 1);
        answer
    }
}

/// Returns each kind of request that waits on the queue `q`, with the status of its response if
/// there are messages.
fn waiting_requests(api: &Project, wait_s: u32) -> [(RequestBuilder, u16); 3] {
    [
        (api.get(&format!("{MESSAGES}?echo=true&wait={wait_s}")), 200),
        (api.post(&format!("/v2/queues/q/claims?wait={wait_s}"), &json!({})), 201),
        (api.delete(&format!("{MESSAGES}?pop=5&wait={wait_s}")), 200),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_answers_a_waiting_request() {
    for index in 0..3 {
        let api = new_project();
        let (request, status) = waiting_requests(&api, LONG_S).into_iter().nth(index).unwrap();
        let waiting = api.start_waiting(request);
        post_as(&api, "q", &[json!("news")]).await;

        let answer = waiting.await.unwrap();

        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(pick(&answer.json()["messages"], "body"), ["news"]);
    }
}

#[tokio::test]
async fn available_messages_are_returned_at_once() {
    for index in 0..3 {
        let api = new_project();
        post_as(&api, "q", &[json!("there")]).await;
        let start = Instant::now();
        let (request, status) = waiting_requests(&api, LONG_S).into_iter().nth(index).unwrap();

        let answer = answered(request, status).await;

        assert_eq!(pick(&answer.json()["messages"], "body"), ["there"]);
        assert!(start.elapsed() < Duration::from_secs(LONG_S.into()));
    }
}

#[tokio::test]
async fn a_wait_that_times_out_is_answered_like_a_request_without_wait() {
    let api = new_project();
    for ((waited, _), (plain, _)) in waiting_requests(&api, 1).into_iter().zip(waiting_requests(&api, 0)) {
        let start = Instant::now();
        let waited = send(waited).await;
        let elapsed = start.elapsed();
        let plain = send(plain).await;

        assert_eq!((waited.status, &waited.text), (plain.status, &plain.text));
        assert!(elapsed >= Duration::from_secs(1), "{elapsed:?}");
    }
}

#[tokio::test]
async fn the_wait_time_is_limited() {
    let api = new_project();
    for wait in ["-1", "31", "4294967296"] {
        refused(api.get(&format!("{MESSAGES}?wait={wait}")), 400, INVALID_REQUEST).await;
        refused(api.post(&format!("/v2/queues/q/claims?wait={wait}"), &json!({})), 400, INVALID_REQUEST).await;
        refused(api.delete(&format!("{MESSAGES}?pop=1&wait={wait}")), 400, INVALID_REQUEST).await;
    }
    refused(api.get(&format!("{MESSAGES}?wait=long")), 400, INVALID_PARAMETER).await;
    assert_eq!(api.snapshot().await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn own_messages_do_not_answer_a_waiting_list_without_echo() {
    let api = new_project();
    let waiting = api.start_waiting(api.get(&format!("{MESSAGES}?wait={LONG_S}")));
    post_as(&api, "q", &[json!("own")]).await;
    post_as(&api.client(super::OTHER_CLIENT), "q", &[json!("of another")]).await;

    let answer = waiting.await.unwrap();

    assert_eq!(pick(&answer.json()["messages"], "body"), ["of another"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_message_answers_a_waiter_that_has_read_past_it() {
    let api = new_project();
    post_as(&api.client(super::OTHER_CLIENT), "q", &[json!("older")]).await;
    let claim = api.claim(1).await;
    post_as(&api, "q", &[json!("own")]).await;
    let waiting = api.start_waiting(api.get(&format!("{MESSAGES}?wait={LONG_S}")));
    post_as(&api, "q", &[json!("own again")]).await;
    answered(api.delete(&claim.path), 204).await;

    let answer = waiting.await.unwrap();

    assert_eq!(pick(&answer.json()["messages"], "body"), ["older"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_answers_a_waiting_claim() {
    let api = new_project();
    api.post_bodies("q", &[json!(1)]).await;
    let claim = api.claim(1).await;
    let waiting = api.start_waiting(api.post(&format!("/v2/queues/q/claims?wait={LONG_S}"), &json!({})));
    answered(api.delete(&claim.path), 204).await;

    assert_eq!(waiting.await.unwrap().status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_list_returns_messages_after_its_marker() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(1), json!(2)]).await;
    let path = format!("{MESSAGES}?echo=true&marker={}&wait={LONG_S}", ids[1]);
    let waiting = api.start_waiting(api.get(&path));
    api.post_bodies("q", &[json!(3)]).await;

    let page = waiting.await.unwrap().json();

    assert_eq!(pick(&page["messages"], "body"), [3]);
    let next = page["links"][0]["href"].as_str().unwrap();
    assert!(next.contains("&wait=30") && next.contains("echo=true"), "{next}");
}

#[tokio::test]
async fn reading_since_a_time_misses_and_repeats_nothing() {
    let api = new_project();
    api.post_bodies("q", &[json!("before")]).await;
    let path = format!("{MESSAGES}?echo=true&since=now");
    let empty = answered(api.get(&path), 200).await.json();
    assert_eq!(empty["messages"], json!([]));
    api.post_bodies("q", &[json!("after")]).await;

    // The link of an empty page continues from the position of that page.
    let next = empty["links"][0]["href"].as_str().unwrap();
    let page = answered(api.get(next), 200).await.json();

    assert_eq!(pick(&page["messages"], "body"), ["after"]);
    let link = page["links"][0]["href"].as_str().unwrap();
    assert!(link.contains("marker=") && !link.contains("since="), "{link}");
    assert_eq!(answered(api.get(&path), 200).await.json()["messages"], json!([]));
    let all = answered(api.get(&format!("{MESSAGES}?echo=true&since=1970-01-01T00:00:00Z")), 200).await.json();
    assert_eq!(pick(&all["messages"], "body"), ["before", "after"]);
}

#[tokio::test]
async fn since_must_be_a_time_and_excludes_marker() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(1)]).await;

    refused(api.get(&format!("{MESSAGES}?since=yesterday")), 400, INVALID_PARAMETER).await;
    refused(api.get(&format!("{MESSAGES}?since=now&marker={}", ids[0])), 400, INVALID_REQUEST).await;
}
