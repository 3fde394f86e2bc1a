//! Clients that post, pop, claim and redrive, and repeat what gets a 503.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use support::sukkal::Api;

/// Maximum number of messages that clients have not received, in all queues that they receive from.
const WAITING_MAX: usize = 150;
/// Queues from which messages are popped, and claimed.
pub(super) const POPPED: &str = "/v2/queues/popped";
pub(super) const CLAIMED: &str = "/v2/queues/claimed";
/// The queue of a subscription.
pub(super) const DELIVERED: &str = "/v2/queues/delivered";
/// A queue all of whose messages become dead letters, its dead-letter queue, and the queue to which
/// these are redriven.
pub(super) const FAILING: &str = "/v2/queues/failing";
pub(super) const FAILED: &str = "/v2/queues/failed";
pub(super) const REDRIVEN: &str = "/v2/queues/redriven";

/// What the clients have done.
#[derive(Default)]
pub(super) struct Progress {
    /// Number of messages that were posted to each queue.
    pub(super) posted: AtomicUsize,
    /// Number of messages that were received, from all queues.
    pub(super) received: AtomicUsize,
    pub(super) refused: AtomicUsize,
    pub(super) is_over: AtomicBool,
}

/// Returns the answer, or `None` for a 503. A redrive gets a 409 if an earlier one is running.
async fn answered(progress: &Progress, request: RequestBuilder) -> Option<(StatusCode, Value)> {
    let response = request.send().await.expect("the service answers");
    let status = response.status();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        progress.refused.fetch_add(1, Ordering::SeqCst);
        return None;
    }
    assert!(status.is_success() || status == StatusCode::CONFLICT, "{status}");
    let body = response.bytes().await.expect("the answer is complete");
    Some((status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() }))
}

fn bodies(messages: &Value) -> Vec<u64> {
    messages.as_array().unwrap().iter().map(|message| message["body"].as_u64().unwrap()).collect()
}

/// Posts the same numbers to each queue. A post that gets a 503 is repeated with its key.
pub(super) async fn post_numbers(api: &Api, progress: &Progress) {
    let mut number = 0;
    while !progress.is_over.load(Ordering::SeqCst) {
        if 3 * number > progress.received.load(Ordering::SeqCst) + WAITING_MAX {
            sleep(Duration::from_millis(5)).await;
            continue;
        }
        let messages =
            json!({ "messages": (number..number + 10).map(|number| json!({ "body": number })).collect::<Vec<_>>() });
        for queue in [POPPED, CLAIMED, FAILING, DELIVERED] {
            let post = || {
                let request = api.post(&format!("{queue}/messages"), &messages);
                request.header("Idempotency-Key", format!("\"{number}\""))
            };
            while answered(progress, post()).await.is_none() {}
        }
        number += 10;
        progress.posted.store(number, Ordering::SeqCst);
    }
}

pub(super) async fn pop_all(api: &Api, progress: &Progress) -> Vec<u64> {
    let mut received = Vec::new();
    loop {
        let was_over = progress.is_over.load(Ordering::SeqCst);
        let pop = api.request(Method::DELETE, &format!("{POPPED}/messages?pop=2"));
        let Some((_, answer)) = answered(progress, pop).await else { continue };
        let popped = bodies(&answer["messages"]);
        if popped.is_empty() && was_over {
            return received;
        }
        progress.received.fetch_add(popped.len(), Ordering::SeqCst);
        received.extend(popped);
    }
}

/// Claims messages of a queue, renews the claim and deletes them.
pub(super) async fn claim_all(api: &Api, progress: &Progress, queue: &str) -> Vec<u64> {
    let mut received = Vec::new();
    let term = json!({ "ttl": 43_200, "grace": 60 });
    loop {
        let was_over = progress.is_over.load(Ordering::SeqCst);
        let claim = api.post(&format!("{queue}/claims?limit=2"), &term);
        let Some((status, answer)) = answered(progress, claim).await else { continue };
        if status == StatusCode::NO_CONTENT {
            if was_over {
                return received;
            }
            continue;
        }
        let claimed = bodies(&answer["messages"]);
        let hrefs = answer["messages"].as_array().unwrap().iter().map(|message| message["href"].as_str().unwrap());
        let claim = hrefs.clone().next().unwrap().split("claim_id=").nth(1).unwrap();
        let renew = || api.request(Method::PATCH, &format!("{queue}/claims/{claim}")).json(&term);
        while answered(progress, renew()).await.is_none() {}
        for href in hrefs {
            while answered(progress, api.delete(href)).await.is_none() {}
        }
        progress.received.fetch_add(claimed.len(), Ordering::SeqCst);
        received.extend(claimed);
    }
}

/// Lets messages become dead letters, and redrives those that have arrived.
pub(super) async fn redrive(api: &Api, progress: &Progress) {
    let deliver = || api.post(&format!("{FAILING}/claims?limit=20"), &json!({}));
    let delivered = loop {
        if let Some((_, answer)) = answered(progress, deliver()).await {
            break answer;
        }
    };
    // The next claim moves those that were delivered.
    if let Some(href) = delivered["messages"][0]["href"].as_str() {
        let claim = href.split("claim_id=").nth(1).unwrap();
        while answered(progress, api.delete(&format!("{FAILING}/claims/{claim}"))).await.is_none() {}
    }
    let start = || api.post(&format!("{FAILED}/redrive"), &json!({ "to": "redriven" }));
    while answered(progress, start()).await.is_none() {}
    let tasks = || api.get(&format!("{FAILED}/tasks"));
    let is_running = |answer: (StatusCode, Value)| answer.1["tasks"][0]["state"] == "running";
    while answered(progress, tasks()).await.is_none_or(is_running) {
        sleep(Duration::from_millis(5)).await;
    }
}
