//! Deliveries after the process has crashed that had the delivery lease.

use serde_json::json;

use super::LOCAL;
use super::endpoint::Endpoint;
use support::sukkal::{Api, Sukkal};
use support::waiting::until;

async fn post(api: &Api, body: u64) {
    let messages = json!({ "messages": [{ "body": body }] });
    assert_eq!(api.post("/v2/queues/q/messages", &messages).send().await.unwrap().status(), 201);
}

/// The test fails after 30 seconds; the lease lasts for 40.
#[tokio::test(flavor = "multi_thread")]
async fn the_only_process_over_a_file_delivers_at_once_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().join("data").display());
    let start = || Sukkal::start_with(&store, &[&LOCAL[..], &[("SUKKAL_PUSH__ALLOWED_PORTS", "1-65535")]].concat());
    let (mut sukkal, endpoint) = (start(), Endpoint::start());
    let subscription = json!({ "subscriber": endpoint.url("/"), "ttl": 3_600 });
    let created = sukkal.project("p").post("/v2/queues/q/subscriptions", &subscription).send().await.unwrap();
    assert_eq!(created.status(), 201);
    post(&sukkal.project("p"), 1).await;
    endpoint.wait_for(1).await;

    sukkal.kill();
    let sukkal = start();
    post(&sukkal.project("p"), 2).await;

    until("the second message is delivered", async || endpoint.received().iter().any(|received| received.body() == 2))
        .await;
}
