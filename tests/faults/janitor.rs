//! The janitor reclaims expired messages in queues that no request uses.

use serde_json::json;

use super::stored::Stored;
use crate::http::answered;
use support::redis::RedisServer;
use support::sukkal::{MOVABLE_CLOCK, Sukkal};
use support::test_bed::{open_movable, queue_id, set_clock};
use support::waiting::block_until;

const BATCHES: usize = 30;
const BATCH: usize = 100;

#[tokio::test]
async fn expired_messages_are_reclaimed_without_any_request() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(
        &redis.url(),
        &[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1"), MOVABLE_CLOCK],
    );
    let (idle, other) = (sukkal.project("idle"), sukkal.project("other"));
    let batch = json!({ "messages": vec![json!({ "ttl": 60, "body": "short-lived" }); BATCH] });
    for api in [&idle, &other] {
        for _ in 0..BATCHES {
            answered(api.post("/v2/queues/q/messages", &batch), 201).await;
        }
    }
    let stored = Stored { redis: &redis, project: "idle" };
    let count = i64::try_from(BATCHES * BATCH).unwrap();
    assert_eq!(stored.messages("q"), count);

    set_clock(&open_movable(&redis.url()), &queue_id("idle", "q"), 62_000_000).await;

    block_until("the messages are gone", || {
        let parts = ["messages", "ready", "expirations"].map(|part| format!("sukkal:{{idle/q}}:{part}"));
        let [messages, ready, expirations] = &parts;
        redis.command(&["EXISTS", messages, ready, expirations]).as_int() == 0
    });
    assert_eq!(stored.messages("q"), 0);
    let other = Stored { redis: &redis, project: "other" };
    assert_eq!(other.messages("q"), count, "the clock of this one stands where it was");
}
