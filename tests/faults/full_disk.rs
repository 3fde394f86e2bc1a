//! The disk of the store is full: `/readyz`, a metric, the log and each refused write report it.
//! Reads continue, and all requests work again when there is space.

use serde_json::{Value, json};

use super::requests::{self, DELETES, READS, Requests, all_done};
use support::exposition::Exposition;
use support::redis::{RedisServer, limit_files, longest_file};
use support::sukkal::Sukkal;
use support::waiting::until;

const MANY: usize = 64;
/// The shortest pause between two rounds of maintenance.
const JANITOR: (&str, &str) = ("SUKKAL_JANITOR__PAUSE", "1");
const FULL: &str = "The disk of the message store is full.";

async fn readiness(sukkal: &Sukkal) -> (u16, String) {
    let answer = support::plain_http::get(sukkal.url("/readyz")).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

async fn gauge(sukkal: &Sukkal) -> Option<f64> {
    Exposition::of(&sukkal.url("")).await.value("sukkal_store_disk_full")
}

/// Posts until the disk is full. Returns the response that reported it.
async fn fill(requests: &Requests) -> Value {
    let message = json!({ "messages": [{ "body": "x".repeat(200_000) }] });
    for _ in 0..1_000 {
        let answer = requests.api.post("/v2/queues/large/messages", &message).send().await.unwrap();
        if answer.status() == 503 {
            return answer.json().await.unwrap();
        }
        assert_eq!(answer.status(), 201);
    }
    panic!("the disk is never full");
}

/// Checks what holds while the disk is full; `limit` makes it full, or frees it again.
async fn assert_reported_and_recovers(sukkal: &Sukkal, requests: &Requests, limit: impl Fn(Option<u64>)) {
    assert_eq!(readiness(sukkal).await.0, 204);
    assert_eq!(gauge(sukkal).await, Some(0.0));

    limit(Some(0));
    let refusal = fill(requests).await;
    assert_eq!(
        refusal["description"],
        format!("Messages could not be enqueued. {FULL} Please try again in a few seconds.")
    );
    all_done(&requests.send(&READS[..5], MANY).await);
    let (status, text) = readiness(sukkal).await;
    assert_eq!((status, text.contains(FULL)), (503, true), "{text}");
    assert_eq!(gauge(sukkal).await, Some(1.0));
    assert_eq!(fill(requests).await, refusal);
    assert_eq!(sukkal.logged("\"the disk of the store is full\"").await.len(), 1);

    limit(None);
    // No client posts: the janitor notices it.
    until("the freed space is noticed", async || gauge(sukkal).await == Some(0.0)).await;
    assert_eq!(sukkal.logged("the disk of the store has room again").await.len(), 1);
    assert_eq!(readiness(sukkal).await.0, 204);
    requests.all_work_again(&requests::all()).await;
    all_done(&requests.send(&DELETES, MANY).await);
}

#[tokio::test]
async fn an_embedded_store_reports_a_full_disk_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let sukkal = Sukkal::start_with(&format!("embedded:{}", folder.path().display()), &[JANITOR]);
    let requests = Requests::prepare(&sukkal).await;

    let limit = |bytes: Option<u64>| {
        limit_files(sukkal.id(), bytes.map(|more| more + longest_file(folder.path())));
    };

    assert_reported_and_recovers(&sukkal, &requests, limit).await;
}

#[tokio::test]
async fn a_full_disk_of_redis_is_reported_and_redis_recovers() {
    let redis = RedisServer::start_with(&[("appendonly", "yes"), ("appendfsync", "everysec")]);
    let sukkal = Sukkal::start_with(&redis.url(), &[JANITOR]);
    let requests = Requests::prepare(&sukkal).await;

    assert_reported_and_recovers(&sukkal, &requests, |bytes| redis.limit_files(bytes.map(|more| more + 1_000_000)))
        .await;
}
